/** Where order or time matters in the daemon's loop. Whole days are in `loop.test.ts` and `loop-faults.slow.test.ts`. */
import { describe, expect, it, vi } from 'vitest';
import { Fault } from '../../src/core/errors.ts';
import { HOUR, jobText, MINUTE, settle, type TestDaemon, type TestOptions, TWO_TICKS, useDaemon } from './loop.ts';

const { start: startDaemon, viewOf } = useDaemon();
let test: TestDaemon;
const start = async (options: TestOptions = {}) => {
  test = await startDaemon({ schedule: TWO_TICKS, maxRuns: 1, ...options });
  return test;
};

const run = { job: 'a', command: 'run', options: [] } as const;
const stop = { job: 'a', command: 'stop' } as const;
const backfill = { ...run, command: 'backfill' } as const;
const deathsIn = (alerts: TestDaemon['alerts']) => alerts.filter(({ args }) => args[0] === '--died').length;
const reasons = () => test.started.map(({ reason }) => reason);

describe('what a person asks for', () => {
  it('waits for a place as a tick does, and is refused while the job has a run', async () => {
    const { daemon, pass } = await start();
    expect(daemon.ask(backfill).outcome).toBe('started');
    expect(daemon.ask(run).outcome).toBe('refused');
    expect(viewOf()?.waiting_since).toBeTruthy();
    await pass(1_000);
    expect(reasons()).toEqual(['asked']);
    expect(daemon.ask(run).outcome).toBe('refused');
  });

  it('lets a tick that comes meanwhile run after it, and is neither retried nor alerted itself', async () => {
    const { daemon, pass, started, alerts } = await start({ isSilent: true });
    daemon.ask(run);
    await pass(31 * MINUTE);
    started[0]?.end(1);
    await pass(1_000);
    expect(viewOf()?.retry_at).toBeNull();
    expect([deathsIn(alerts), reasons()]).toEqual([0, ['asked', 'scheduled']]);
  });

  it('is the retry of a tick, but not when it is a backfill', async () => {
    const { daemon, pass, started } = await start();
    await pass(31 * MINUTE);
    started[0]?.end(1);
    for (const ask of [backfill, run]) {
      await pass(1_000);
      expect(viewOf()?.retry_at).toBeTruthy();
      expect(daemon.ask(ask).outcome).toBe('started');
      await pass(1_000);
      started.at(-1)?.end(0);
    }
    await pass(1_000);
    expect([viewOf()?.retry_at, reasons()]).toEqual([null, ['scheduled', 'asked', 'retry']]);
  });

  it('retries at once what a retry was planned for, and stops what runs or waits', async () => {
    const { daemon, pass, started } = await start();
    expect(daemon.ask(stop).outcome).toBe('refused');
    await pass(31 * MINUTE);
    started[0]?.end(1);
    await pass(1_000);
    expect(daemon.ask(run).outcome).toBe('started');
    expect(viewOf()?.waiting_since).toBeTruthy();
    expect(daemon.ask(stop).outcome).toBe('done');
    await pass(1_000);
    expect([viewOf()?.waiting_since, started.length]).toEqual([null, 1]);
    daemon.ask(run);
    await pass(1_000);
    expect(daemon.ask(stop).outcome).toBe('done');
    expect(started[1]?.isStopped).toBe(true);
  });

  it('is refused for a job that is none, and once the daemon stops', async () => {
    const { daemon, stop: end } = await start();
    expect(daemon.ask({ ...run, job: 'b' }).outcome).toBe('refused');
    await end();
    expect(daemon.ask(run).outcome).toBe('refused');
  });
});

it('the status of a job is read again when a reading began before its tick, and once for all who ask meanwhile', async () => {
  const pending: Record<string, readonly string[]> = { a: ['2026-12-04T14:30:00Z'] };
  // Thanksgiving: the tick is 10 s after the start.
  const { pass, statusReads, started } = await start({
    ...{ now: '2026-11-26T17:59:50Z', lastRuns: { a: '2026-11-26T17:00:00Z' }, pending, statusMs: () => 30_000 },
  });
  await pass(15_000);
  expect(statusReads).toHaveLength(1);
  pending['a'] = [];
  await pass(2 * MINUTE);
  // What began before the tick decides nothing.
  expect([statusReads.length, started.length]).toEqual([2, 0]);
});

describe('a run that recorded no end', () => {
  it.each([
    [0, 'done'],
    [1, 'failed'],
    [2, 'usage'],
    [3, 'incomplete'],
    [4, 'active'],
    [130, 'interrupted'],
    [7, 'died'],
    ['SIGKILL', 'died'],
  ] as const)('and has the exit code %s is %s', async (code, outcome) => {
    const { pass } = await start({ isSilent: true, code: () => code });
    await pass(31 * MINUTE);
    expect(viewOf()?.runs.map((each) => each.outcome)).toEqual([outcome]);
  });

  it('because it was deaf to a stop and had to be killed is interrupted, neither retried nor alerted', async () => {
    const { daemon, pass, started, alerts } = await start({ isSilent: true, stopWith: 'SIGKILL' });
    await pass(31 * MINUTE);
    daemon.ask(stop);
    await pass(MINUTE);
    expect(viewOf()?.runs.map(({ outcome }) => outcome)).toEqual(['interrupted']);
    await pass(27 * MINUTE);
    expect([started.length, deathsIn(alerts)]).toEqual([1, 0]);
  });

  it.each([
    ['{"error":{"code":"SETTING_MISSING","message":"no key"}}', 2, 'usage', 'SETTING_MISSING', 0],
    ['{"error":{"code":"STORE_DOWN","message":"away"}}', 1, 'failed', 'STORE_DOWN', 0],
    ['{"error":{"code":1}}', 1, 'failed', undefined, 1],
    ['null', 1, 'failed', undefined, 1],
    ['', 1, 'failed', undefined, 1],
  ])('and printed %j with exit code %i is %s with error %s, and %i times alerted', async (...row) => {
    const [stdout, exit, outcome, error, deaths] = row;
    const { pass, alerts } = await start({ isSilent: true, code: () => exit, stdout });
    await pass(31 * MINUTE);
    expect(viewOf()?.runs.map((each) => [each.outcome, each.error?.code])).toEqual([[outcome, error]]);
    expect(deathsIn(alerts)).toBe(deaths);
  });
});

describe('an alert that does not get through', () => {
  it('is dropped when a later run has gone well', async () => {
    let isAlertDown = true;
    const code = (_job: string, count: number) => (count === 1 ? 'SIGKILL' : 0);
    const { pass, alerts } = await start({ isSilent: true, code, isAlertDown: () => isAlertDown });
    await pass(56 * MINUTE);
    expect([sent('died'), reasons()]).toEqual([5, ['scheduled', 'retry']]);
    isAlertDown = false;
    await pass(3 * HOUR);
    expect(deathsIn(alerts)).toBe(0);
  });

  const sent = (what: string) =>
    test.lines.filter((line) => line['event'] === 'alerting' && line['what'] === what).length;

  it('is tried again ever more seldom, also by a clock that was set back, and once it is sent never again', async () => {
    let isAlertDown = true;
    const { pass } = await start({
      ...{ isSilent: true, schedule: 'cron: "31 12 20 11 *", retry: off', code: () => 'SIGKILL' },
      isAlertDown: () => isAlertDown,
    });
    await pass(30_000);
    // At once, and after 1, 3, 7, 15 and 31 minutes; then after 63, and each hour.
    await pass(40 * MINUTE);
    expect(sent('died')).toBe(6);
    await pass(200 * MINUTE);
    expect(sent('died')).toBe(9);
    vi.setSystemTime(Date.now() - 365 * 24 * HOUR);
    await pass(2 * MINUTE);
    expect(sent('died')).toBe(10);
    isAlertDown = false;
    await pass(65 * MINUTE);
    expect(sent('died')).toBe(11);
    await pass(3 * HOUR);
    expect(sent('died')).toBe(11);
  });

  it('is still to be sent if a stop interrupts it', async () => {
    let interrupt = () => {};
    const interrupted = new Promise<boolean>((_, reject) => {
      interrupt = () => reject(new Fault('INTERRUPTED', 'the daemon is stopping', { kind: 'interrupted' }));
    });
    const schedule = 'cron: "31 12 20 11 *", retry: off';
    // The first look for gaps gets through.
    let hasStarted = false;
    const isAlertDown = () => hasStarted && interrupted;
    const first = await start({ isSilent: true, schedule, code: () => 'SIGKILL', isAlertDown });
    hasStarted = true;
    await first.pass(MINUTE);
    const runs = viewOf()?.runs ?? [];
    expect([sent('died'), runs.map(({ outcome }) => outcome)]).toEqual([1, ['died']]);
    const stopped = first.stop();
    interrupt();
    await stopped;
    expect(first.lines.filter(({ event }) => event === 'alert-failed')).toEqual([]);
    for (const reason of ['scheduled', 'asked', 'hand'] as const) {
      const { alerts, stop: end } = await start({ schedule, runs: runs.map((one) => ({ ...one, reason })) });
      const said = reason === 'scheduled' ? ['--died'] : [undefined];
      expect(alerts.map(({ args }) => args[0])).toEqual(said);
      await end();
    }
  });

  it('does not hold up the one of another cause', async () => {
    const { files, change, pass } = await start({ isSilent: true, isAlertDown: () => true, code: () => 'SIGKILL' });
    files.set('a', 'broken in line 3');
    change();
    // At 17:30:46, and 1, 3, 7, 15 and 31 minutes later; the tick is at 18:00.
    await pass(29 * MINUTE);
    expect([sent('broken'), sent('died')]).toEqual([5, 0]);
    await pass(MINUTE);
    expect([sent('broken'), sent('died')]).toEqual([5, 1]);
  });

  it('of a file is sent with the fault that it has by then, once for as long as it is broken', async () => {
    let isAlertDown = true;
    const { files, change, pass, alerts } = await start({ isAlertDown: () => isAlertDown });
    const write = async (text: string) => {
      files.set('a', text);
      change();
      await settle();
    };
    const broken = () => alerts.filter(({ args }) => args[0] === '--broken').map(({ args }) => args[1]);
    await write('broken in line 3');
    await pass(30_000);
    expect(sent('broken')).toBe(1);
    await write('broken in line 4');
    isAlertDown = false;
    await pass(5 * MINUTE);
    await write('broken in line 5');
    await pass(20 * MINUTE);
    expect(broken()).toEqual([expect.stringContaining('line 4')]);
    // The next look for gaps must not take the copy that is in use for the mended file.
    await pass(90 * MINUTE);
    expect(broken()).toEqual([expect.stringContaining('line 4'), expect.stringContaining('line 5')]);
    await write(jobText('a', 'cron: "0 12 * * *"'));
    await pass(MINUTE);
    await write('broken in line 6');
    await pass(MINUTE);
    expect(broken()).toHaveLength(3);
    expect(broken().at(-1)).toContain('line 6');
  });

  it('of a file is not preceded by a look for gaps, which would take the copy for the mended file', async () => {
    const { files, change, pass, alerts } = await start({ schedule: 'cron: "0 12 1 1 *"' });
    await pass(HOUR - 10_000);
    files.set('a', 'broken in line 3');
    change();
    await pass(MINUTE);
    expect(alerts.map(({ args }) => args[0])).toEqual([undefined, '--broken']);
  });
});

it('the end of a run that cannot be counted is told, and the next run starts', async () => {
  const { daemon, pass, lines } = await start({ code: () => 0 });
  daemon.countRuns(() => {
    throw new Error('no such label');
  });
  await pass(100 * MINUTE);
  expect(reasons()).toEqual(['scheduled', 'scheduled']);
  const faults = lines.filter(({ event }) => event === 'loop-fault');
  expect(faults).toMatchObject(Array(2).fill({ what: 'run', reason: 'no such label' }));
});

it('the time that a run may take is what the job file says by now', async () => {
  const { files, change, pass, started } = await start({
    schedule: 'cron: "0 18 * * *", timezone: Etc/UTC, retry: off, timeout: off',
  });
  await pass(3 * HOUR);
  files.set('a', jobText('a', 'cron: "0 18 * * *", timezone: Etc/UTC, retry: off, timeout: 4h'));
  change();
  await pass(HOUR);
  expect(started.map(({ isStopped }) => isStopped)).toEqual([false]);
  await pass(HOUR);
  expect(started.map(({ isStopped }) => isStopped)).toEqual([true]);
});
