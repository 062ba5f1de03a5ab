/** A daemon that is ended from outside while a run goes on. Two daemons are in `shared-ticks.external.test.ts`. */
import { beforeEach, expect, it } from 'vitest';
import { holdFrom } from '../support/fault-plan.ts';
import { listFiles } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { listRunning, untilEnded } from '../support/processes.ts';
import { type DaemonProcess, listMails, useDaemonPlace } from './daemon-process.ts';

/** Due once a day, and tried again soon: what runs here was caught up. */
const SCHEDULE = 'schedule:\n  cron: "0 12 * * *"\n  timezone: Etc/UTC\n  retry: 1m';
const REPORTS = 'reports:\n  - template: flow\n    to: [desk@example.com]';

const place = useDaemonPlace();
let cwd: string;
beforeEach(() => {
  ({ cwd } = place);
});

const listManifests = async () => (await listFiles(cwd)).filter((name) => name.endsWith('manifest.json'));

/** A run that waits for its first page: its engine has the lock of the job by then. */
async function startHeld(): Promise<{ readonly daemon: DaemonProcess; readonly run: number }> {
  place.gate.follow(holdFrom(1));
  const daemon = place.start();
  const started = await daemon.until('started');
  const run = await daemon.findRun(started);
  await place.gate.untilHeld();
  return { daemon, run };
}

it('a daemon that is killed leaves its run alone, and the next one finds it going on and tries again', async () => {
  await writeJob(cwd, { reports: REPORTS, schedule: SCHEDULE });
  const { daemon: first, run } = await startHeld();
  await first.endBy('SIGKILL');
  expect(await listRunning([run])).toEqual([run]);
  const clock = await createMovedClock(cwd, Date.now());
  const second = place.start(clock.env);
  await second.until('finished', { job: 'nightly', outcome: 'active', code: 4 });
  await second.until('retry-planned', { job: 'nightly' });
  await place.gate.heal();
  await untilEnded([run], 60_000);
  // The run that nobody waited for has done all of its work.
  expect(await listManifests()).toHaveLength(1);
  expect(await listMails(cwd, /^To: desk@example\.com/m)).toHaveLength(1);
  await clock.moveTo(clock.now() + 60_000, second.child.pid);
  await second.until('finished', { job: 'nightly', outcome: 'done' });
  expect(await listManifests()).toHaveLength(1);
  expect((await listFiles(cwd)).filter((name) => name.includes('/history/'))).toEqual([]);
  expect(await listMails(cwd, /^To: desk@example\.com/m)).toHaveLength(1);
}, 150_000);

it('a run that does not listen is killed before ten seconds are over, and is owed at the next start', async () => {
  await writeJob(cwd, { reports: REPORTS, schedule: SCHEDULE });
  const { daemon: first, run } = await startHeld();
  // A stopped process takes no signal but the last one.
  process.kill(run, 'SIGSTOP');
  const begun = performance.now();
  expect(await first.endBy('SIGTERM')).toEqual([0, null]);
  expect(performance.now() - begun).toBeGreaterThan(8_500);
  expect(performance.now() - begun).toBeLessThan(10_000);
  expect(await listRunning([run])).toEqual([]);
  await place.gate.heal();
  const second = place.start();
  expect(await second.until('started')).toMatchObject({ reason: 'catch-up' });
  await second.until('finished', { outcome: 'done' });
  expect(await listManifests()).toHaveLength(1);
}, 90_000);
