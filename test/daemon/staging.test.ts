/** When the daemon stages a running session, by a moved clock. Whole sessions are in `staging.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, type TestDaemon, useDaemon } from './loop.ts';

const STAGED = 'cron: "5 15 * * 1-5", stage: 5m, retry: 1m';
const daemons = useDaemon();
let test: TestDaemon;

/** A daemon of these jobs, by name with their schedules, on a Thursday at 15:00 in New York. */
const start = async (jobs: Readonly<Record<string, string>>, maxRuns = 1) => {
  const lastRuns = Object.fromEntries(Object.keys(jobs).map((name) => [name, '2026-11-19T20:00:00Z']));
  test = await daemons.start({ now: '2026-11-19T20:00:30Z', jobs, lastRuns, maxRuns });
  await test.pass(30_000);
  return test;
};
const runs = () => test.started.map(({ job, reason }) => `${job} ${reason}`);

describe('the daemon stages a running session', () => {
  it('once in the time that the job names, while the session is on, and neither retries nor alerts', async () => {
    const { pass, started, alerts } = await start({
      a: 'cron: "31 20 * * 1-5", stage: 5m, retry: 1m',
      b: 'cron: "31 20 * * 1-5"',
    });
    expect(runs()).toEqual(['a stage']);
    started[0]?.end(0);
    await pass(3 * MINUTE);
    expect(runs()).toHaveLength(1);
    await pass(2 * MINUTE);
    started[1]?.end(1);
    await pass(3 * MINUTE);
    expect(runs()).toEqual(['a stage', 'a stage']);
    expect(alerts.filter(({ args }) => args[0] === '--died')).toEqual([]);
    // Its last trades are visible at 16:30, and settled soon after it.
    await pass(2 * HOUR);
    started.at(-1)?.end(0);
    const count = started.length;
    await pass(30 * MINUTE);
    expect(started).toHaveLength(count);
  });

  it('ends it when its own tick is due, and then runs the tick', async () => {
    const { pass, started } = await start({ a: STAGED });
    await pass(5 * MINUTE);
    expect(started[0]?.isStopped).toBe(true);
    expect(runs()).toEqual(['a stage', 'a scheduled']);
  });

  it('ends it when another job is due, which gets its place', async () => {
    const { pass, started } = await start({ a: 'cron: "31 20 * * 1-5", stage: 5m', b: 'cron: "5 15 * * 1-5"' });
    await pass(5 * MINUTE);
    expect(started[0]?.isStopped).toBe(true);
    expect(runs()).toEqual(['a stage', 'b scheduled']);
  });

  it('not while another job runs, but after it', async () => {
    const { pass, started } = await start({ a: 'cron: "31 20 * * 1-5", stage: 5m', b: 'cron: "5 15 * * 1-5"' }, 2);
    await pass(12 * MINUTE);
    expect(runs()).toEqual(['a stage', 'b scheduled']);
    started[1]?.end(0);
    await pass(MINUTE);
    expect(runs()).toEqual(['a stage', 'b scheduled', 'a stage']);
  });

  it('ends it for what a person asks', async () => {
    const { daemon, pass } = await start({ a: STAGED });
    expect(daemon.ask({ job: 'a', command: 'run', options: [] }).outcome).toBe('started');
    await pass(1_000);
    expect(runs()).toEqual(['a stage', 'a asked']);
  });
});
