/**
 * A daemon that is ended from outside while a run goes on, as whole processes: its child lives longer than it, or does not
 * listen. Orderly stops are in `start.slow.test.ts`; two daemons in `shared-ticks.external.test.ts`.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { beforeEach, expect, it, vi } from 'vitest';
import { listFiles, readJson } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { listRunning, untilEnded } from '../support/processes.ts';
import { type DaemonProcess, findRun, listMails, useDaemonPlace } from './daemon-process.ts';

/** Due once a day, and tried again soon: what runs here was caught up. */
const SCHEDULE = 'schedule:\n  cron: "0 12 * * *"\n  timezone: Etc/UTC\n  retry: 1m';
const REPORTS = 'reports:\n  - template: flow\n    to: [desk@example.com]';

const place = useDaemonPlace();
let cwd: string;
beforeEach(() => {
  ({ cwd } = place);
});

async function kill({ child }: DaemonProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

const listManifests = async () => (await listFiles(cwd)).filter((name) => name.endsWith('manifest.json'));

/** Waits until the run has begun to ask: its engine has the lock of the job by then. */
const untilAsking = async () =>
  await vi.waitFor(
    async () =>
      expect(await readJson(join(cwd, '.flowdrop', 'nightly', 'progress.json'))).toMatchObject({
        requests: expect.toSatisfy((requests: number) => requests > 0),
      }),
    { timeout: 30_000, interval: 50 },
  );

it('a daemon that is killed leaves its run alone, and the next one finds it going on and tries again', async () => {
  await writeJob(cwd, { reports: REPORTS, schedule: SCHEDULE });
  const first = place.start({ FLOWDROP_REQUESTS_PER_SECOND: '0.15' });
  const started = await first.until('started');
  const run = await findRun(first.child.pid ?? 0, String(started['run']));
  await untilAsking();
  await kill(first);
  expect(await listRunning([run])).toEqual([run]);
  const second = place.start({ FLOWDROP_REQUESTS_PER_SECOND: '200' });
  await second.until('finished', { job: 'nightly', outcome: 'active', code: 4 });
  await second.until('retry-planned', { job: 'nightly' });
  await untilEnded([run], 60_000);
  // The run that nobody waited for has done all of its work.
  expect(await listManifests()).toHaveLength(1);
  expect(await listMails(cwd, /^To: desk@example\.com/m)).toHaveLength(1);
  await second.until('finished', { job: 'nightly', outcome: 'done' }, 1);
  expect(await listManifests()).toHaveLength(1);
  expect((await listFiles(cwd)).filter((name) => name.includes('/history/'))).toEqual([]);
  expect(await listMails(cwd, /^To: desk@example\.com/m)).toHaveLength(1);
}, 150_000);

it('a run that does not listen is killed before ten seconds are over, and is owed at the next start', async () => {
  await writeJob(cwd, { reports: REPORTS, schedule: SCHEDULE });
  const first = place.start({ FLOWDROP_REQUESTS_PER_SECOND: '0.15' });
  const started = await first.until('started');
  const run = await findRun(first.child.pid ?? 0, String(started['run']));
  await untilAsking();
  // A stopped process takes no signal but the last one.
  process.kill(run, 'SIGSTOP');
  const begun = performance.now();
  const exit = once(first.child, 'exit');
  first.child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
  expect(performance.now() - begun).toBeGreaterThan(8_500);
  expect(performance.now() - begun).toBeLessThan(10_000);
  expect(await listRunning([run])).toEqual([]);
  const second = place.start({ FLOWDROP_REQUESTS_PER_SECOND: '200' });
  expect(await second.until('started')).toMatchObject({ reason: 'catch-up' });
  await second.until('finished', { outcome: 'done' });
  expect(await listManifests()).toHaveLength(1);
}, 90_000);
