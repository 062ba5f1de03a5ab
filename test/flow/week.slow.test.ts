/**
 * Ten days in half a minute: the daemon as a process under a moved clock, over the sessions of November 2027 with the end of
 * daylight saving time (Sunday the 7th), days on which the API is away, a kill of daemon and run in the middle, and a machine
 * that sleeps for three days. `npm run nightly -- week` lives through three weeks, with Thanksgiving (the 25th) and the half
 * day after it. What starts a run is in `test/daemon/loop.test.ts`.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { expect, it, vi } from 'vitest';
import { isSession, listSessions } from '../../src/calendar/session.ts';
import { addDays, parseWallClock } from '../../src/calendar/wall-clock.ts';
import { type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { type DaemonProcess, type LogLine, startDaemon } from '../support/daemon.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, readJson, startService, type TestService, workerEnvironment } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock, type MovedClock } from '../support/moved-clock.ts';
import { chooseSize } from '../support/nightly.ts';
import { findFreePort } from '../support/server-process.ts';

const ROWS = 400;
const HALF_DAY = '2027-11-26';
interface Days {
  readonly to: string;
  readonly asleep: readonly string[];
  readonly outage: readonly string[];
  readonly killed: string;
}

const PLAN = {
  from: '2027-11-05',
  // Half an hour after the last trades of a half day, and hours before those of a whole one.
  tickOf: (date: string): readonly [hour: number, minute: number] => (date === HALF_DAY ? [13, 50] : [18, 0]),
  // Days on which the machine sleeps, and on which the API is away; and that on which daemon and run are killed in mid-run.
  ...chooseSize<Days>(
    {
      to: '2027-11-15',
      asleep: ['2027-11-12', '2027-11-13', '2027-11-14'],
      outage: ['2027-11-09'],
      killed: '2027-11-11',
    },
    { to: HALF_DAY, asleep: [], outage: ['2027-11-16', '2027-11-17'], killed: '2027-11-24' },
  ),
};
const SESSIONS = listSessions(PLAN.from, PLAN.to);
const END = parseWallClock(PLAN.to, 20 * 3600);
const PEOPLE = 'reports:\n  - template: flow\n    to: [desk@example.com]\nalerts:\n  to: [ops@example.com]';

const { folder, keep } = useCleanups();

it('weeks of a daemon leave every session sealed and mailed once, and each alert sent and taken back once', async () => {
  const begun = performance.now();
  const [cwd, dataDir] = [await folder(), await folder()];
  const port = await findFreePort();
  const serve = (...args: readonly string[]): Promise<TestService> =>
    startService(['--data-dir', dataDir, '--as-of', new Date(END).toISOString(), '--port', String(port), ...args]);
  const generator = await serve('--generate', String(SESSIONS.length), '--generate-rows', String(ROWS));
  await generator.stop();
  const mail = await keep(startSmtpReceiver());
  const clock = await createMovedClock(dataDir, parseWallClock(PLAN.from, 8 * 3600));
  const url = `http://127.0.0.1:${port}`;
  const env = {
    ...workerEnvironment(url, url),
    FLOWDROP_CLOCK: 'checked',
    FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
  };

  const week = await liveThrough({ cwd, clock, dataDir, port, env });

  // Each tick came to what it should, at its time by the clock of New York.
  expect(week.visits.map(({ date, reasons, outcomes }) => [date, ...reasons, ...outcomes].join(' '))).toEqual(
    listExpected(),
  );
  const [first] = week.daemons;
  expect(first?.of('scheduled')[0]).toMatchObject({ missed: '2027-11-05T22:00:00.000Z' });
  const startOf = (date: string) => week.visits.findLast((visit) => visit.date === date)?.startedAt?.slice(0, 16);
  expect(startOf('2027-11-08')).toBe('2027-11-08T23:00');
  if (SESSIONS.includes(HALF_DAY)) expect(startOf(HALF_DAY)).toBe(`${HALF_DAY}T18:50`);
  // The kill came in the middle of a run that had sealed nothing of its day.
  expect(week.daemons).toHaveLength(2);
  expect(first?.of('started').length).toBe((first?.of('finished').length ?? 0) + 1);
  expect(week.sealedAtKill).toEqual(SESSIONS.filter((date) => date < PLAN.killed));
  // What was unusual was what is meant to be.
  const lines = week.daemons.flatMap((daemon) => daemon.lines);
  const unusual = lines.filter(({ level }) => Number(level) >= 40).map(({ event }) => String(event));
  expect(unusual.filter((event) => event !== 'clock-jump' && event !== 'finished')).toEqual([]);

  // The ledger is complete.
  expect(await listSealed(cwd)).toEqual(SESSIONS);
  for (const date of SESSIONS) {
    const manifest = await readJson(cwd, 'drops', '_flowdrop', 'trades', `session=${date}`, 'manifest.json');
    expect(manifest, date).toMatchObject({ date, rows: ROWS, revision: 1 });
  }
  const drops = join(cwd, 'drops', 'trades', 'session=*', 'trades.parquet');
  const [counted] = await queryDuckDb(`SELECT count(*) AS n, count(DISTINCT id) AS ids FROM read_parquet('${drops}')`);
  expect(counted).toEqual({ n: String(generator.rows), ids: String(generator.rows) });
  const { conditions } = await readJson<{ conditions: Record<string, string> }>(
    cwd,
    '.flowdrop',
    'nightly',
    'known-dates.json',
  );
  expect(conditions).toEqual(Object.fromEntries(SESSIONS.map((date) => [date, 'available'])));
  await clock.moveTo(END);
  const source = await serve();
  const verified = await flowdrop(['--jobs', '.', 'verify', 'nightly', '--deep'], {
    cwd,
    env: { ...env, ...clock.env },
  });
  await source.stop();
  expect(verified.code, verified.stdout + verified.stderr).toBe(0);

  // The desk has each report once, the operators each alert, and its end.
  const reports = await listSubjects(mail, 'desk@example.com');
  expect(reports.map((subject) => /\d{4}-\d\d-\d\d/.exec(subject)?.[0]).toSorted()).toEqual(SESSIONS);
  const sent = await listSent(cwd);
  const pending = PLAN.outage.map((date) => `nightly/report-pending/${date}`);
  expect(sent.flatMap(({ alerts }) => alerts).toSorted()).toEqual([...pending, 'nightly/run-failed/API_UNREACHABLE']);
  expect(sent.flatMap(({ recovered }) => recovered).toSorted()).toEqual([
    ...pending,
    'nightly/run-failed/API_UNREACHABLE',
  ]);
  const alerts = await listSubjects(mail, 'ops@example.com');
  expect(alerts).toHaveLength(sent.length);
  console.log(describeTotals(week.visits.length, lines, reports.length, alerts.length, performance.now() - begun));
}, 900_000);

/** What each visit comes to, in words. */
function listExpected(): readonly string[] {
  const expected: string[] = [];
  for (let date = PLAN.from; date <= PLAN.to; date = addDays(date, 1)) {
    const before = addDays(date, -1);
    const isAway = PLAN.outage.includes(date);
    if (PLAN.asleep.includes(date)) continue;
    // What failed in the evening is tried again in the morning.
    if (PLAN.outage.includes(before)) expected.push(`${date} retry ${isAway ? 'failed' : 'done'}`);
    const isCaughtUp = date === PLAN.from || date === PLAN.killed || PLAN.asleep.includes(before);
    if (isCaughtUp) expected.push(`${date} catch-up done`);
    else if (isSession(date)) expected.push(`${date} scheduled ${isAway ? 'failed' : 'done'}`);
    else expected.push(`${date} no-session`);
  }
  return expected;
}

async function listSealed(cwd: string): Promise<readonly string[]> {
  const names = await readdir(join(cwd, 'drops', '_flowdrop', 'trades'), { recursive: true });
  return names.flatMap((name) => /^session=([\d-]+)\/manifest\.json$/.exec(name)?.[1] ?? []).sort();
}

async function listSubjects(mail: SmtpReceiver, address: string): Promise<readonly string[]> {
  const own = mail.messages.filter(({ to }) => to === address);
  return await Promise.all(own.map(async ({ source }) => (await PostalMime.parse(source)).subject ?? ''));
}

interface SentAlerts {
  readonly alerts: readonly string[];
  readonly recovered: readonly string[];
}

/** What the runs say that they sent, from their own logs. */
async function listSent(cwd: string): Promise<readonly SentAlerts[]> {
  const folder = join(cwd, '.flowdrop', 'nightly', 'logs');
  const sent: SentAlerts[] = [];
  for (const name of (await readdir(folder)).sort()) {
    for (const text of (await readFile(join(folder, name), 'utf8')).split('\n')) {
      const line = text.startsWith('{') ? (JSON.parse(text) as LogLine & SentAlerts) : undefined;
      if (line?.['event'] === 'alert-sent') sent.push(line);
    }
  }
  return sent;
}

function describeTotals(
  visits: number,
  lines: readonly LogLine[],
  reports: number,
  alerts: number,
  ms: number,
): string {
  const count = (name: string) => lines.filter(({ event }) => event === name).length;
  return (
    `${PLAN.from} to ${PLAN.to}: ${SESSIONS.length} sessions, ${visits} visits, ${count('clock-jump')} jumps, ` +
    `${count('started')} runs, ${count('no-session')} days without a session, ${reports} reports, ` +
    `${alerts} mails to operators, ${Math.round(ms / 1000)} s`
  );
}

interface Visit {
  readonly date: string;
  /** What came of the tick, or of the try again: an outcome of a run, or `no-session`. */
  readonly outcomes: readonly string[];
  readonly reasons: readonly string[];
  /** When the first of its runs was started, by the moved clock. */
  readonly startedAt: string | undefined;
}

/** Before a tick, so that the daemon's own timer for it runs out. */
const LEAD_MS = 1_500;
/** The first daemon starts, and the machine wakes, so long after a tick that must be caught up. */
const LATE_MS = 60_000;
/** Every tick ends in one of them. */
const ENDS = ['finished', 'no-session'];

interface Place {
  readonly cwd: string;
  readonly clock: MovedClock;
  /** The service's, with every session in it. */
  readonly dataDir: string;
  readonly port: number;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Starts a daemon, and leaves none behind; the clock must show a time before the first tick. The service is up around the
 * ticks of sessions only: whatever asks it at another time fails, and is seen in the log.
 */
async function liveThrough({ cwd, clock, dataDir, port, env }: Place) {
  const daemons: DaemonProcess[] = [];
  const visits: Visit[] = [];
  let sealedAtKill: readonly string[] = [];
  const start = async (): Promise<DaemonProcess> => {
    const started = await startDaemon(cwd, { ...clock.env, ...env });
    daemons.push(started);
    return started;
  };
  const schedule = async () => {
    const text = `schedule:\n  cron: "${minute} ${hour} * * *"\n  retry: 12h`;
    await writeJob(cwd, { reports: PEOPLE, schedule: text });
  };
  let [hour, minute] = PLAN.tickOf(PLAN.from);
  await schedule();
  let daemon: DaemonProcess | undefined;

  const visit = async (date: string, ms: number, isUp: boolean, isKilled = false) => {
    await daemon?.untilIdle();
    const from = ['--data-dir', dataDir, '--as-of', new Date(ms).toISOString(), '--port', String(port)];
    const service = isUp ? await startService(from) : undefined;
    try {
      await clock.moveTo(ms, daemon?.pid);
      let seen = daemon?.lines.length ?? 0;
      const ends = daemon?.of(...ENDS).length ?? 0;
      if (service && daemon && isKilled) {
        // The first answer is to the question how much there is: nothing of the day can be sealed yet.
        await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(0), { timeout: 60_000, interval: 2 });
        await daemon.kill();
        sealedAtKill = await listSealed(cwd);
        daemon = undefined;
        seen = 0;
      }
      const before = daemon;
      daemon ??= await start();
      await daemon.until(before ? ends + 1 : 1, ...ENDS);
      // Its status is read after each run.
      await daemon.untilIdle();
      visits.push(describeVisit(date, daemon.lines.slice(seen)));
    } finally {
      await service?.stop();
    }
  };

  try {
    for (let date = PLAN.from; date <= PLAN.to; date = addDays(date, 1)) {
      if (PLAN.asleep.includes(date)) continue;
      const isWaking = PLAN.asleep.includes(addDays(date, -1));
      const isDue = isSession(date) || isWaking;
      const isUp = isDue && !PLAN.outage.includes(date);
      const retryAt = findRetry(daemon);
      if (retryAt !== undefined) await visit(date, retryAt + LEAD_MS, isUp);
      const tick = PLAN.tickOf(date);
      if (tick[0] !== hour || tick[1] !== minute) {
        [hour, minute] = tick;
        const scheduled = daemon?.of('scheduled').length ?? 0;
        await schedule();
        await daemon?.until(scheduled + 1, 'scheduled');
      }
      const tickMs = parseWallClock(date, hour * 3600 + minute * 60);
      await visit(date, daemon && !isWaking ? tickMs - LEAD_MS : tickMs + LATE_MS, isUp, date === PLAN.killed);
    }
  } finally {
    await daemon?.stop();
  }
  return { visits, daemons, sealedAtKill };
}

function describeVisit(date: string, lines: readonly LogLine[]): Visit {
  const started = lines.filter(({ event }) => event === 'started');
  const ended = lines.filter(({ event }) => ENDS.includes(String(event)));
  return {
    date,
    reasons: started.map(({ reason }) => String(reason)),
    outcomes: ended.map(({ event, outcome }) => String(outcome ?? event)),
    startedAt: started[0] && String(started[0]['time']),
  };
}

/** When it tries again what failed last, milliseconds; `undefined` when nothing did. */
function findRetry(daemon: DaemonProcess | undefined): number | undefined {
  const last = daemon?.of(...ENDS, 'retry-planned').at(-1);
  return last?.['event'] === 'retry-planned' ? Date.parse(String(last['at'])) : undefined;
}
