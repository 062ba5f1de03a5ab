/** Stopping: requests in flight finish, new ones are not taken, and nothing is left behind. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { startTestService } from './running-service.ts';

let folder: string;

beforeAll(async () => {
  // Files run one after the other, so this is nobody else's temporary folder.
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-close-'));
  vi.stubEnv('TMPDIR', folder);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

test('a request in flight is answered, later ones find nobody, and no file is left', async () => {
  const service = await startTestService({ generateSessions: 1, generateRows: 3_000 });
  expect(await readdir(folder)).not.toEqual([]);
  let arrived = false;
  const slow = service
    .ask('SELECT count() AS n FROM RawOptionTrades a CROSS JOIN RawOptionTrades b WHERE length(concat(a.id, b.id)) > 0')
    .then((reply) => {
      arrived = true;
      return reply;
    });
  await expect
    .poll(async () => await (await fetch(`${service.url}/metrics`)).text(), { interval: 5, timeout: 10_000 })
    .toMatch(/flowdrop_service_engine_pool_running [1-9]/);
  const closed = service.stop().then(() => arrived);
  const reply = await slow;
  expect([reply.status, reply.body.data]).toEqual([200, [{ n: 3_000 * 3_000 }]]);
  expect(await closed).toBe(true);
  await expect(service.ask('SELECT 1')).rejects.toThrow();
  expect(await readdir(folder)).toEqual([]);
});
