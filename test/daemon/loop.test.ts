/** What the daemon starts when, and tries again, under a moved clock. Whole processes are in `start.slow.test.ts`. */
import { describe, expect, it, vi } from 'vitest';
import type { Coordinator, Tick } from '../../src/daemon/state.ts';
import { DAILY, DAY, HOUR, jobText, MINUTE, settle, TODAY, TWO_TICKS, useDaemon } from './loop.ts';

const { start, runsOf } = useDaemon();

describe('at start', () => {
  it('what was missed runs once a job, soonest expiry first, then by due time', async () => {
    const { times } = await start({
      jobs: { a: DAILY, b: DAILY, c: 'cron: "30 16 * * *"', fresh: DAILY },
      lastRuns: { a: '2026-11-10T22:30:00Z', b: '2026-11-10T22:30:00Z', c: '2026-11-10T22:30:00Z', fresh: TODAY },
      pending: { b: ['2026-11-21T14:30:00Z'] },
      maxRuns: 1,
      code: () => 0,
    });
    expect(times().map((time) => time.slice(6))).toEqual(['b', 'c', 'a']);
  });

  it('a missed session is due although a day without one came after it', async () => {
    const { started } = await start({
      now: '2026-11-21T23:00:00Z',
      lastRuns: { a: '2026-11-20T12:00:00Z' },
      code: () => 0,
    });
    expect(started).toHaveLength(1);
    expect(runsOf()).toEqual(['done catch-up']);
  });
});

describe('runs', () => {
  it('are at most so many at once, and the next waits for a place', async () => {
    const { started, pass, daemon } = await start({
      jobs: { a: DAILY, b: DAILY, c: DAILY },
      pending: { c: ['2026-11-21T14:30:00Z'] },
    });
    await pass(5 * HOUR);
    expect(started.map(({ job }) => job)).toEqual(expect.arrayContaining(['c']));
    expect(started).toHaveLength(2);
    expect(daemon.view().jobs.filter((job) => job.waiting_since !== null)).toHaveLength(1);
    started[0]?.end(0);
    await settle();
    expect(started).toHaveLength(3);
  });

  it('of a job never overlap', async () => {
    const lastRuns = { a: '2026-11-20T17:30:10Z' };
    const { started, pass, lines } = await start({ schedule: 'cron: "*/15 * * * *"', lastRuns });
    await pass(HOUR);
    expect(lines.filter(({ event }) => event === 'overlap')).toHaveLength(3);
    expect(started).toHaveLength(1);
    // Of the ticks that came meanwhile the newest waits, and not for the next one.
    started[0]?.end(0);
    await pass(MINUTE);
    expect(started).toHaveLength(2);
    started[1]?.end(0);
    await pass(10 * MINUTE);
    expect(started).toHaveLength(2);
  });

  it('of a run that fails while the next tick waits is that tick', async () => {
    const { times, started, pass, lines } = await start({ schedule: TWO_TICKS });
    await pass(95 * MINUTE);
    started[0]?.end(1);
    await pass(MINUTE);
    expect(times()).toEqual(['18:00 a', '19:05 a']);
    expect(lines.filter(({ event }) => event === 'retry-planned')).toEqual([]);
  });
});

it('who counts the runs is told of each when it has ended', async () => {
  const { pass, daemon } = await start({ code: () => 1 });
  const ended: unknown[] = [];
  daemon.countRuns(({ job, outcome, reason }) => ended.push([job, outcome, reason]));
  await pass(5 * HOUR + 20 * MINUTE);
  expect(ended).toEqual([
    ['a', 'failed', 'scheduled'],
    ['a', 'failed', 'retry'],
  ]);
});

describe('a run that failed', () => {
  it.each([
    ['failed', 1],
    ['met another active one', 4],
    ['was killed', 'SIGKILL'],
    // Rows come, and clocks are set.
    ['held dates back', 3],
  ] as const)('because it %s is tried again until the next tick', async (_why, code) => {
    const held = code === 3 ? [TODAY] : [];
    const { times, pass, alerts } = await start({ schedule: TWO_TICKS, held, code: () => code });
    await pass(29.9 * MINUTE + HOUR);
    // The third try would be at 19:15, after the next tick.
    expect(times()).toEqual(['18:00 a', '18:25 a', '18:50 a', '19:00 a']);
    expect(alerts.filter(({ args }) => args[0] === '--died')).toHaveLength(code === 'SIGKILL' ? 4 : 0);
  });

  it.each([
    ['usage', 2],
    ['incomplete', 3],
    ['interrupted', 130],
  ] as const)('of %s is not tried again', async (_outcome, code) => {
    const { started, pass } = await start({ code: () => code });
    await pass(9 * HOUR);
    expect(started).toHaveLength(1);
  });
});

describe('a day without a session', () => {
  const holiday = { now: '2026-11-26T17:30:00Z', lastRuns: { a: '2026-11-26T12:00:00Z' } };
  it('starts no process, and is no failure', async () => {
    const { started, pass, lines } = await start({ ...holiday, pending: { a: [] } });
    await pass(6 * HOUR);
    expect(started).toEqual([]);
    expect(runsOf()).toEqual([]);
    expect(lines.find(({ event }) => event === 'no-session')).toMatchObject({ level: 30, job: 'a' });
  });

  it('is run all the same while dates are pending', async () => {
    const { pass } = await start({ ...holiday, pending: { a: ['2026-12-04T14:30:00Z'] }, code: () => 0 });
    await pass(6 * HOUR);
    expect(runsOf()).toEqual(['done gap']);
  });

  it('is one that the operator says is closed', async () => {
    const calendar = { closed: new Set(['2026-11-20']), earlyClose: new Set<string>(), open: new Set<string>() };
    const { pass, lines } = await start({ calendar });
    await pass(6 * HOUR);
    expect(runsOf()).toEqual([]);
    expect(lines.filter(({ event }) => event === 'no-session')).toHaveLength(1);
  });
});

describe('a clock', () => {
  const NIGHTLY = {
    jobs: { a: 'cron: "30 2 * * *", retry: off' },
    pending: { a: ['2027-03-20T14:30:00Z'] },
    code: () => 0,
  };
  it('that leaves a time out in spring loses no run', async () => {
    const last = { a: '2027-03-13T12:00:00Z' };
    const { times, pass } = await start({ ...NIGHTLY, now: '2027-03-14T05:00:10Z', lastRuns: last });
    await pass(DAY + 2 * HOUR);
    expect(times()).toEqual(['07:00 a', '06:30 a']);
  });

  it('that shows a time twice in autumn runs it once', async () => {
    const jobs = { a: 'cron: "30 1 * * *"', b: 'cron: "*/15 1 * * *"' };
    const last = { a: '2026-11-01T03:00:00Z', b: '2026-11-01T03:00:00Z' };
    const pending = { a: ['2026-11-05T14:30:00Z'], b: ['2026-11-05T14:30:00Z'] };
    const options = { jobs, pending, lastRuns: last, code: () => 0 };
    const { times, pass } = await start({ ...options, now: '2026-11-01T04:00:10Z' });
    await pass(5 * HOUR);
    expect(times().filter((time) => time.endsWith('a'))).toEqual(['05:30 a']);
    expect(times().filter((time) => time.endsWith('b'))).toEqual(['05:00 b', '05:15 b', '05:30 b', '05:45 b']);
  });

  it('that jumps forward over a tick leads to one catch-up, and when it is set back the tick is run when it comes', async () => {
    const { started, pass } = await start({ code: () => 0 });
    vi.setSystemTime(Date.now() + 8 * HOUR);
    await pass(MINUTE);
    expect(runsOf()).toEqual(['done catch-up']);
    // What ran by the wrong clock may have been before the session's end.
    vi.setSystemTime(Date.now() - 8 * HOUR);
    await pass(9 * HOUR);
    expect(runsOf()).toEqual(['done scheduled', 'done catch-up']);
    await pass(21 * HOUR);
    // The Saturday's tick starts nothing: nothing is pending.
    expect(started).toHaveLength(2);
  });

  it('that is set back before a beat has seen it loses no tick that comes meanwhile', async () => {
    const { times, pass } = await start({ code: () => 0 });
    vi.setSystemTime(Date.parse('2026-11-20T23:30:00Z'));
    await pass(MINUTE);
    vi.setSystemTime(Date.parse('2026-11-20T22:29:58Z'));
    await pass(MINUTE);
    expect(times()).toEqual(['23:30 a', '22:30 a']);
  });

  it('that NTP sets back by minutes runs no tick twice', async () => {
    const { started, pass } = await start({ code: () => 0 });
    await pass(5 * HOUR + 5 * MINUTE);
    expect(started).toHaveLength(1);
    vi.setSystemTime(Date.now() - 8 * MINUTE);
    await pass(HOUR);
    expect(started).toHaveLength(1);
  });
});

it('job files that are gone, new or changed unschedule, schedule and reschedule their jobs', async () => {
  const { files, pass, times } = await start({
    ...{ jobs: { a: DAILY, b: DAILY }, lastRuns: { a: TODAY, b: TODAY, c: TODAY }, code: () => 0 },
  });
  files.delete('a');
  files.set('b', jobText('b', 'cron: "0 15 * * *"'));
  files.set('c', jobText('c', 'cron: "0 16 * * *"'));
  await pass(6 * HOUR);
  expect(times()).toEqual(['20:00 b', '21:00 c']);
});

it('a deadline that passes is reported at once, until it can be, and the status is read again', async () => {
  let isAlertDown = false;
  const deadline = '2026-11-20T18:00:00Z';
  const { alerts, statusReads, lines, pass } = await start({ deadline, isAlertDown: () => isAlertDown });
  await pass(29 * MINUTE);
  const [sent, read] = [alerts.length, statusReads.length];
  isAlertDown = true;
  await pass(MINUTE);
  expect(statusReads.length).toBeGreaterThan(read);
  isAlertDown = false;
  await pass(2 * MINUTE);
  expect(alerts).toHaveLength(sent + 1);
  expect(lines.filter(({ event, what }) => event === 'alerting' && what === 'late')).toHaveLength(2);
});

it('gaps are looked for every hour between runs', async () => {
  const { alerts, pass } = await start({ code: () => 0 });
  await pass(3 * HOUR + MINUTE);
  expect(alerts.map(({ args }) => args)).toEqual([[], [], [], []]);
});

it('a shared schedule runs the ticks that are this daemon’s, gives each back, and takes over what another left', async () => {
  const calls: string[] = [];
  let left: readonly Tick[] = [];
  const { pass } = await start({
    schedule: `${DAILY}, distributed: true`,
    code: (_job, count) => (count === 2 ? 1 : 0),
    coordinator: createCoordinator(calls, () => {
      const taken = left;
      left = [];
      return taken;
    }),
  });
  await pass(6 * HOUR);
  expect(calls.filter((call) => !call.startsWith('renew'))).toEqual(['claim 22:30', 'complete 22:30']);
  left = [{ job: 'a', dueAtMs: Date.parse(TODAY) }];
  await pass(MINUTE);
  const taken = calls.splice(0);
  // It failed: the claim is kept for the next try.
  expect(taken).not.toContain('complete 17:00');
  await pass(15 * MINUTE);
  expect(calls).toContain('renew 17:00');
  expect(calls.at(-1)).toBe('complete 17:00');
  expect(runsOf()).toEqual(['done retry', 'failed take-over', 'done scheduled']);
});

function createCoordinator(calls: string[], takeOver: () => readonly Tick[]): Coordinator {
  const note = (what: string, ms: number) => void calls.push(`${what} ${new Date(ms).toISOString().slice(11, 16)}`);
  return {
    async claim({ dueAtMs }) {
      note('claim', dueAtMs);
      return true;
    },
    async renew({ dueAtMs }) {
      note('renew', dueAtMs);
      return true;
    },
    complete: async ({ dueAtMs }) => note('complete', dueAtMs),
    takeOver: async () => takeOver(),
    close: async () => undefined,
  };
}
