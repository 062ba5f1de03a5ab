/** What `serve` gives to the processes that run callers' SQL. What it serves is in `test/service`. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/flowdrop.ts';
import { hasProcesses, listChildren, readEnvironment } from '../support/processes.ts';

const SECRETS = {
  FLOWDROP_API_KEY: 'cus_secret_of_the_service',
  FLOWDROP_SMTP_URL: 'smtp://user:secret@127.0.0.1:1',
  AWS_ACCESS_KEY_ID: 'secret-id',
  AWS_SECRET_ACCESS_KEY: 'secret-key',
  SOMETHING_ELSE: 'secret-as-well',
};
/** What an engine process may know: where programs, temporary files and libraries are. */
const ALLOWED = ['LD_LIBRARY_PATH', 'PATH', 'TMPDIR'];

// Skipped only where there is no /proc, which `support/processes.ts` says aloud.
describe.skipIf(!hasProcesses)('the engine processes of serve', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService(['--concurrency', '2'], SECRETS);
  });
  afterAll(() => service?.stop());

  it('have nothing of the service’s environment but where things are', async () => {
    // Otherwise the test would look at the wrong processes.
    expect(await readEnvironment(service.pid)).toMatchObject(SECRETS);
    const engines = await listChildren(service.pid);
    expect(engines).toHaveLength(3);
    for (const pid of engines) {
      const names = Object.keys(await readEnvironment(pid));
      expect(names).toContain('PATH');
      expect(names.filter((name) => !ALLOWED.includes(name))).toEqual([]);
    }
  });
});
