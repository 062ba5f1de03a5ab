/** The daemon's loop when something around it fails. The usual days are in `loop.test.ts`. */
import { describe, expect, it, vi } from 'vitest';
import type { Coordinator } from '../../src/daemon/state.ts';
import { DAILY, DAY, HOUR, jobText, MINUTE, NOW, TODAY, useDaemon } from './loop.ts';

const { start, runsOf } = useDaemon();

const SHARED = `${DAILY}, distributed: true`;
const BEFORE = '2026-11-18T23:00:00Z';
/** Its last tick was missed. */
const MISSED = { lastRuns: { a: BEFORE } };
/** Never ran. */
const NEW = { lastRuns: {} };

const quiet: Coordinator = {
  claim: async () => true,
  renew: async () => true,
  complete: async () => undefined,
  takeOver: async () => [],
  close: async () => undefined,
};
const away = async (): Promise<never> => await Promise.reject(new Error('Redis is away'));
/** As the real one: a call waits for the connection before it gives up. */
const slowlyAway = async (): Promise<never> => {
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  return await away();
};

describe('what is shared', () => {
  it('and was missed is run where the claim was won, and nowhere else', async () => {
    const claimed: string[] = [];
    await start({
      ...{ jobs: { a: SHARED, b: SHARED }, lastRuns: { a: BEFORE, b: BEFORE }, code: () => 0 },
      coordinator: {
        ...quiet,
        async claim({ job, dueAtMs }) {
          claimed.push(`${job} ${new Date(dueAtMs).toISOString()}`);
          return job === 'b';
        },
      },
    });
    expect(claimed).toEqual(['a 2026-11-19T22:30:00.000Z', 'b 2026-11-19T22:30:00.000Z']);
    expect(runsOf('a')).toEqual([]);
    expect(runsOf('b')).toEqual(['done catch-up']);
  });

  it('is given back on a stop when its run is done by then, and left to another daemon when it is not', async () => {
    const completed: number[] = [];
    const complete: Coordinator['complete'] = async ({ dueAtMs }) => {
      completed.push(dueAtMs);
      await away();
    };
    const coordinator: Coordinator = { ...quiet, complete };
    for (const stopWith of [undefined, 0] as const) {
      const { started, stop, lines } = await start({
        ...{ ...MISSED, schedule: SHARED, coordinator },
        ...(stopWith === undefined ? {} : { stopWith }),
      });
      expect(started).toHaveLength(1);
      await stop();
      expect(runsOf('a')).toEqual([stopWith === 0 ? 'done catch-up' : 'interrupted catch-up']);
      // A failure that the stop has not caused is told.
      expect(lines.filter(({ event }) => event === 'complete-failed')).toHaveLength(completed.length);
    }
    expect(completed).toEqual([Date.parse('2026-11-19T22:30:00Z')]);
  });

  it('does not hold up, while Redis is away, what is not', async () => {
    const shared = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`s${index}`, SHARED]));
    const { pass } = await start({
      ...{ ...MISSED, jobs: { ...shared, a: DAILY }, code: () => 0 },
      coordinator: { ...quiet, claim: slowlyAway },
    });
    await pass(10_000);
    expect(runsOf('a')).toEqual(['done catch-up']);
  });

  it('is claimed again 15 seconds after Redis has refused, and not with every look', async () => {
    let claims = 0;
    const claim = async () => {
      claims += 1;
      return await (claims < 5 ? away() : true);
    };
    const coordinator = { ...quiet, claim };
    const { pass, lines } = await start({ ...MISSED, schedule: SHARED, code: () => 0, coordinator });
    await pass(40_000);
    expect([claims, runsOf('a')]).toEqual([3, []]);
    vi.setSystemTime(Date.now() - 5 * MINUTE);
    await pass(20_000);
    expect([claims, runsOf('a')]).toEqual([5, ['done catch-up']]);
    expect(lines.filter(({ event }) => event === 'claim-failed')).toHaveLength(4);
  });

  it('and was taken over by another daemon is stopped here, and not tried again', async () => {
    let isLost = false;
    const { pass, started, lines } = await start({
      schedule: `${SHARED}, retry: 1m`,
      coordinator: { ...quiet, renew: async () => !isLost },
    });
    await pass(5 * HOUR);
    expect(started.map(({ isStopped }) => isStopped)).toEqual([false]);
    isLost = true;
    await pass(10_000);
    expect(started[0]?.isStopped).toBe(true);
    expect(lines.filter(({ event }) => event === 'claim-lost')).toHaveLength(1);
    await pass(HOUR);
    expect(started).toHaveLength(1);
  });

  it('stays claimed while its run goes on, although its file is gone for a moment', async () => {
    const completed: number[] = [];
    const { files, change, pass, started } = await start({
      jobs: { a: SHARED, b: DAILY },
      coordinator: { ...quiet, complete: async ({ dueAtMs }) => void completed.push(dueAtMs) },
    });
    await pass(5.5 * HOUR);
    const text = files.get('a') ?? '';
    files.delete('a');
    change();
    await pass(MINUTE);
    files.set('a', text);
    change();
    await pass(MINUTE);
    expect(completed).toEqual([]);
    expect(started.filter(({ job }) => job === 'a')).toHaveLength(1);
    started.find(({ job }) => job === 'a')?.end(0);
    await pass(MINUTE);
    expect(completed).toEqual([Date.parse('2026-11-20T22:30:00Z')]);
    started.find(({ job }) => job === 'b')?.end(0);
  });
});

describe('a run that takes too long', () => {
  it('is stopped, alerted once, and tried again, and the job behind it gets its place', async () => {
    const jobs = { a: `${DAILY}, timeout: 2h`, b: 'cron: "45 17 * * *", timeout: off' };
    const { started, alerts, lines, pass, times } = await start({ jobs, maxRuns: 1, stopWith: 'SIGKILL' });
    await pass(5 * HOUR);
    // The clock is set: it is not the run that took so long.
    vi.setSystemTime(Date.now() + 3 * HOUR);
    await pass(HOUR);
    expect(started.map(({ isStopped }) => isStopped)).toEqual([false]);
    await pass(HOUR);
    expect(runsOf('a')).toEqual(['timed-out scheduled']);
    expect(lines.filter(({ event }) => event === 'run-timeout')).toMatchObject([{ job: 'a', timeoutMs: 2 * HOUR }]);
    const sent = () => alerts.filter(({ args }) => args[0] === '--died').map(({ args }) => args[1]);
    expect(sent()).toEqual([expect.stringMatching(/^The run took longer than 2 h 0 min, its schedule.timeout,/)]);
    // The other takes as long as it wants.
    await pass(8 * HOUR);
    expect(times().map((time) => time.slice(6))).toEqual(['a', 'b']);
    expect(started[1]?.isStopped).toBe(false);
    started[1]?.end(0);
    await pass(HOUR);
    expect(started.map(({ job }) => job)).toEqual(['a', 'b', 'a']);
    started[2]?.end(0);
    await pass(MINUTE);
    expect(runsOf('a')).toEqual(['done retry', 'timed-out scheduled']);
    expect(sent()).toHaveLength(1);
  });

  it('but comes to its own end when it is asked to stop has that end', async () => {
    const { started, pass } = await start({ schedule: `${DAILY}, timeout: 60m`, stopWith: 3 });
    await pass(6.5 * HOUR);
    expect(started[0]?.isStopped).toBe(true);
    expect(runsOf('a')).toEqual(['incomplete scheduled']);
  });
});

it('a job whose dates never expire comes to its turn among others that are due all the time', async () => {
  const often = Object.fromEntries(['b', 'c', 'd'].map((name) => [name, 'cron: "*/15 * * * *"']));
  const pending = Object.fromEntries(['b', 'c', 'd'].map((name) => [name, ['2026-11-21T14:30:00Z']]));
  const jobs = { a: 'cron: "40 12 * * *"', ...often };
  const { started, pass } = await start({ jobs, pending, maxRuns: 1 });
  for (let round = 0; round < 12; round += 1) {
    await pass(10 * MINUTE);
    started.at(-1)?.end(0);
  }
  await pass(10 * MINUTE);
  expect(started.map(({ job }) => job)).toContain('a');
  started.at(-1)?.end(0);
});

it.each([
  ['with its schedule', 'name: a\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: a\n'],
  ['alone', jobText('a', `${DAILY}, retry: off`)],
])('a job whose retries are taken out of its file %s is not tried again', async (_how, text) => {
  const { files, change, pass, started } = await start({
    ...{ jobs: { a: DAILY, b: DAILY }, lastRuns: { a: BEFORE, b: TODAY }, code: () => 1 },
  });
  expect(started).toHaveLength(1);
  files.set('a', text);
  change();
  await pass(HOUR);
  expect(started).toHaveLength(1);
});

it('a run that hangs does not keep it quiet that dates expire, nor does one that waits behind it', async () => {
  const { alerts, pass, started } = await start({
    ...{ jobs: { a: DAILY, b: DAILY }, lastRuns: { a: BEFORE, b: BEFORE }, maxRuns: 1 },
  });
  await pass(HOUR - MINUTE);
  expect(started).toHaveLength(1);
  expect(alerts).toEqual([]);
  await pass(HOUR);
  expect(alerts.map(({ file }) => file).sort()).toEqual(['jobs/a.yaml', 'jobs/b.yaml']);
});

it('what was missed of a session is run although a tick of a day without one comes before its order is known', async () => {
  const { pass } = await start({
    ...{ ...NEW, now: '2026-11-22T08:04:58Z', schedule: 'cron: "* * * * *", timezone: Etc/UTC', pending: { a: [] } },
    ...{ statusMs: () => 2_500, code: () => 0 },
  });
  await pass(10_000);
  expect(runsOf('a')).toContain('done catch-up');
});

it('a store that hangs holds what was missed up for a minute, and no longer', async () => {
  const { started, pass } = await start({ ...MISSED, statusMs: () => DAY });
  await pass(30_000);
  expect(started).toEqual([]);
  await pass(35_000);
  expect(started).toHaveLength(1);
  started[0]?.end(0);
});

describe('a clock that was a year ahead', () => {
  const wrong = { ...NEW, now: new Date(Date.parse(NOW) + 365 * DAY).toISOString() };

  it('keeps nobody from hearing of gaps, and no status from being read, once it is right', async () => {
    const { alerts, statusReads, pass } = await start({ ...wrong, pending: { a: [] }, code: () => 0 });
    await pass(2 * MINUTE);
    vi.setSystemTime(Date.parse(NOW));
    alerts.length = 0;
    statusReads.length = 0;
    await pass(2 * HOUR);
    expect(alerts.length).toBeGreaterThanOrEqual(2);
    expect(statusReads.length).toBeGreaterThanOrEqual(8);
  });

  it('and has planned a retry for then, does not pass over the ticks until then', async () => {
    const { started, pass } = await start({ ...wrong, schedule: `${DAILY}, retry: 10m`, code: () => 1 });
    await pass(2 * MINUTE);
    const before = started.length;
    expect(before).toBeGreaterThan(0);
    vi.setSystemTime(Date.parse(NOW));
    await pass(6 * HOUR);
    expect(started.slice(before)).toContainEqual(expect.objectContaining({ reason: 'scheduled' }));
  });
});

it('a run that takes its time to stop is asked once, however often somebody asks', async () => {
  const { daemon, started, pass } = await start({ ...NEW, stopMs: 8_000 });
  for (let asked = 0; asked < 2; asked += 1) {
    expect(daemon.ask({ job: 'a', command: 'stop' }).outcome).toBe('done');
    await pass(3_000);
  }
  expect(started).toEqual([expect.objectContaining({ stops: 1 })]);
});

describe('who asks the daemon', () => {
  it('starts no process by a probe, and by looking at the page one a minute', async () => {
    const { daemon, statusReads, pass } = await start();
    const ask = async (how: () => unknown) => {
      statusReads.length = 0;
      for (let second = 0; second < 600; second += 10) {
        how();
        await pass(10_000);
      }
      return statusReads.length;
    };
    expect(await ask(() => daemon.view())).toBeLessThanOrEqual(1);
    const looked = await ask(() => daemon.look());
    expect(looked).toBeGreaterThanOrEqual(8);
    expect(looked).toBeLessThanOrEqual(11);
  });

  it('hears of a loop that goes on, and of one that stands still', async () => {
    const { daemon, pass } = await start({
      ...{ ...MISSED, schedule: SHARED },
      coordinator: { ...quiet, claim: () => new Promise(() => undefined) },
    });
    await pass(HOUR);
    // What was missed at start is not waited for; what is found missing by a beat is.
    expect(Date.now() - daemon.view().beatAtMs).toBeLessThan(MINUTE);
    vi.setSystemTime(Date.now() + 8 * HOUR);
    await pass(10 * MINUTE);
    expect(Date.now() - daemon.view().beatAtMs).toBeGreaterThan(5 * MINUTE);
  });
});
