/** Who makes the next run, as `flowdrop status` says it, the exit code where dates need somebody, and that one folder has one daemon. */
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { parseSecond, parseWallClock } from '../../../src/calendar/wall-clock.ts';
import { RunHistory } from '../../../src/state/run-history.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { startDaemon } from '../../support/daemon.ts';
import { flowdrop, startService, type TestService } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';
import { createMovedClock } from '../../support/moved-clock.ts';
import { createRunRecord } from '../../support/run-record.ts';

const at = (date: string, time: string) => parseWallClock(date, parseSecond(time));
const WEDNESDAY = at('2026-11-25', '18:00:00');

let service: TestService;
const { folder, keep } = useCleanups();

beforeAll(async () => {
  const served = ['--generate', '1', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z'];
  service = await keep(startService(served));
});

it('a schedule is a promise of nobody until a daemon or a timer keeps it', async () => {
  const cwd = await folder();
  await writeJob(cwd, { reports: '', schedule: 'schedule: {cron: "31 16 * * 1-5", retry: off}' });
  const clock = await createMovedClock(cwd, at('2026-11-20', '18:00:00'));
  const env = { ...service.env, ...clock.env };
  const type = async (command: string, code: number) =>
    (await flowdrop(['--jobs', '.', command, 'nightly'], { cwd, env, code })).stdout;
  const doIt = '`flowdrop start` makes it, or a timer that types `flowdrop run nightly`\n';
  expect(await type('status', 0)).toContain(`\nnext run due Nov 23, 16:31 ET; no daemon and no run yet: ${doIt}`);
  await type('run', 0);
  expect(await type('status', 0)).toContain(`\nnext run due Nov 23, 16:31 ET; no daemon: ${doIt}`);
  await clock.moveTo(WEDNESDAY);
  expect(await type('status', 3)).toContain(
    `\nnext run due Nov 26, 16:31 ET; no daemon and no run since Nov 20: ${doIt}needs you: 3 dates to fetch; the first expires in 12 days: \`flowdrop run nightly\`\n`,
  );
  // It catches up what was missed, and is alive even if that fails.
  const daemon = await startDaemon(cwd, { ...env, FLOWDROP_API_URL: 'http://127.0.0.1:9' });
  await daemon.until(1, 'finished');
  expect(await type('status', 0)).toContain('\nnext run in 22 h (Nov 26, 16:31 ET)\n');
  const second = await flowdrop(['--jobs', '.', 'start'], { cwd, env, code: 4 });
  expect(second.stderr).toMatch(/^flowdrop: DAEMON_ACTIVE: a daemon already runs in the state folder /);
  expect(second.stderr).toContain(`${daemon.url} (process ${daemon.pid} on `);
  await daemon.kill();
  expect(await type('status', 3)).toContain(`; no daemon: ${doIt}needs you: 3 dates to fetch`);
  const history = new RunHistory(join(cwd, '.flowdrop'), 'nightly');
  for (const day of ['24', '25']) {
    const started_at = new Date(at(`2026-11-${day}`, '16:32:10')).toISOString();
    const id = `202611${day}T213210Z-timer`;
    const ends = { updated_at: started_at, finished_at: started_at };
    await history.write(createRunRecord({ id, run_id: id, reason: 'hand', started_at, ...ends }));
  }
  expect(await type('status', 0)).toContain(
    '\nnext run due in 22 h (Nov 26, 16:31 ET), by the timer that made the last ones\n',
  );
});
