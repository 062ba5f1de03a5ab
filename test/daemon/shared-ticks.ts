/**
 * Daemons as a user starts them, each in a working folder of its own, with one shared job, one store, one Redis, one mail
 * server and one API, that live from tick to tick by one moved clock, while daemons and Redis are ended under them. Redis
 * goes by the real clock, and leases with it: the clock is moved only while no run goes on. The API's engine knows the
 * real clock only, so its process is started anew for each session, with the time that it is. What it came to is counted
 * in `shared-ticks-count.ts`.
 */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { listSessions } from '../../src/calendar/session.ts';
import { parseWallClock } from '../../src/calendar/wall-clock.ts';
import { LEASE_MS } from '../../src/daemon/state.ts';
import { type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { type DaemonProcess, startDaemon, waitFor } from '../support/daemon.ts';
import { startService, workerEnvironment } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { createRandom } from '../support/random.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { findFreePort } from '../support/server-process.ts';
import { formatTick, type Hit, isHitInRun, planHits } from './shared-ticks-plan.ts';

export const JOB = 'nightly';
export const ROWS_A_SESSION = 300;
/** A session's first tick seals it, the others find that there is nothing to do. All are after it has settled. */
const HOUR = 18;
const STEP_MINUTES = 10;
const TICKS_A_DAY = 4;
/** Weekdays that are all sessions: the Tuesday after Labor Day to the day before Thanksgiving. */
const [FIRST_DATE, LAST_DATE] = ['2027-09-07', '2027-11-24'];

/** Before a tick, so that the daemons' own timers for it run out. */
const LEAD_MS = 1_500;
/** The daemons first start so long after the first tick, which must be caught up. */
const LATE_MS = 60_000;
/** A lease runs out and is seen, twice over if need be, and the run takes its time on a busy machine. */
const PATIENCE_MS = 3 * LEASE_MS + 120_000;
/** Longer than a lease, and until all others have looked for what has run out. */
const HOLD_MS = 1.75 * LEASE_MS;
/** An instant in a run is short. */
const POLL_MS = 4;

export interface SharedTicksOptions {
  readonly folder: string;
  readonly redis: RedisServer;
  readonly ticks: number;
  readonly ticksADay?: number;
  readonly daemons: number;
  /** How many daemons are killed, how many stopped in order, and how often a server fails them, spread over the ticks. */
  readonly kills: number;
  readonly stops: number;
  readonly outages: number;
  /** Decides which of the idle daemons is hit. */
  readonly seed: number;
  /** Ends it before its last tick; what was lived through can be counted. */
  readonly signal?: AbortSignal;
  readonly note?: (line: string) => void;
}

/** A start of a daemon: the place is its working folder, the name differs for each start. */
export interface Start {
  readonly name: string;
  readonly place: number;
  readonly daemon: DaemonProcess;
}

export interface LivedTick {
  readonly dueAtMs: number;
  readonly hit: Hit | undefined;
  /** Which start was hit; `undefined` where it was a server. */
  readonly victim: string | undefined;
  /** From the kill or stop in a run until another daemon had the tick, milliseconds of the real clock. */
  readonly takenOverAfterMs: number | undefined;
  /** Answers that the service gave while the tick was run. */
  readonly requests: number;
}

export interface SharedTicks {
  readonly dates: readonly string[];
  readonly ticks: readonly LivedTick[];
  readonly starts: readonly Start[];
  readonly store: string;
  readonly mail: SmtpReceiver;
}

/** Lives through the ticks and leaves nothing running. @throws when a tick comes to no end: the message says which */
export async function liveThroughTicks(options: SharedTicksOptions): Promise<SharedTicks> {
  const { folder, redis, note = () => undefined } = options;
  const { ticksADay = TICKS_A_DAY } = options;
  const minutes = Array.from({ length: ticksADay }, (_, at) => at * STEP_MINUTES);
  const dates = listSessions(FIRST_DATE, LAST_DATE).slice(0, Math.ceil(options.ticks / ticksADay));
  const dues = dates
    .flatMap((date) => minutes.map((minute) => parseWallClock(date, HOUR * 3600 + minute * 60)))
    .slice(0, options.ticks);
  if (dues.length < options.ticks)
    throw new RangeError(`there are ${dues.length} ticks without a holiday between them`);
  const schedule = `schedule:\n  cron: "${minutes.join(',')} ${HOUR} * * 1-5"\n  distributed: true`;
  const hits = planHits({ ...options, everyNth: ticksADay });
  const clock = await createMovedClock(folder, (dues[0] ?? 0) + LATE_MS);
  const port = await findFreePort();
  const serve = (atMs: number, ...args: readonly string[]) =>
    startService([
      ...['--data-dir', join(folder, 'data'), '--port', String(port)],
      ...['--as-of', new Date(atMs).toISOString(), ...args],
    ]);
  const endMs = parseWallClock(dates.at(-1) ?? '', 23 * 3600);
  let service = await serve(endMs, '--generate', String(dates.length), '--generate-rows', String(ROWS_A_SESSION));
  const mail = await startSmtpReceiver();
  const store = join(folder, 'drops');
  const url = `http://127.0.0.1:${port}`;
  const servers = { FLOWDROP_REDIS_URL: redis.url, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${mail.port}` };
  const env = { ...workerEnvironment(url, url), ...servers };
  const random = createRandom(options.seed);
  const starts: Start[] = [];
  /** The living one of each place. */
  const living = new Map<number, Start>();

  const startAt = async (place: number): Promise<void> => {
    const cwd = join(folder, `place-${place}`);
    await mkdir(cwd, { recursive: true });
    await writeJob(cwd, { name: JOB, to: store, reports: REPORTS, schedule });
    const daemon = await startDaemon(cwd, { ...clock.env, ...env });
    const start = { name: `${'ABCDEFGH'[place]}${starts.length}`, place, daemon };
    starts.push(start);
    living.set(place, start);
    await daemon.until(1, 'scheduled');
  };
  const startMissing = async () => {
    const places = Array.from({ length: options.daemons }, (_, place) => place);
    await Promise.all(places.filter((place) => !living.has(place)).map(startAt));
  };
  const end = async ({ place, daemon }: Start, how: 'kill' | 'killAlone' | 'stop') => {
    living.delete(place);
    await daemon[how]();
  };
  const chooseIdle = () => [...living.values()][Math.floor(random() * living.size)];
  /** Runs of a tick that have begun, oldest first, and what came of them. */
  const runsOf = (dueAtMs: number) => starts.flatMap((start) => listRuns(start, dueAtMs));
  const until = async (isSo: () => boolean | Promise<boolean>, what: string, dueAtMs: number) => {
    if (await waitFor(isSo, { patienceMs: PATIENCE_MS, pollMs: POLL_MS })) return;
    const tails = [...living.values()].map(
      ({ name, daemon }) => `${name}: ${JSON.stringify(daemon.lines.slice(-8), null, 1)}`,
    );
    throw new Error(`tick ${formatTick(dueAtMs)}: ${what} did not come\n${tails.join('\n')}`);
  };

  /** @returns who was hit */
  const hitInRun = async (hit: Hit, dueAtMs: number, answered: number): Promise<Start | undefined> => {
    const date = formatTick(dueAtMs).slice(0, 10);
    const manifest = join(store, '_flowdrop', 'trades', `session=${date}`, 'manifest.json');
    const mails = mail.messages.length;
    const isThere = () => (hit === 'killed-sealed' ? existsSync(manifest) : service.requests.length > answered);
    await until(isThere, `the moment for ${hit}`, dueAtMs);
    const run = runsOf(dueAtMs).find(({ outcome }) => outcome === undefined);
    const victim = run?.start;
    if (!victim) throw new Error(`tick ${formatTick(dueAtMs)}: its run had ended before it could be hit (${hit})`);
    if (hit === 'redis-killed-in-run') {
      await redis.kill();
      await redis.revive();
      return undefined;
    }
    if (hit === 'api-held') {
      process.kill(service.pid, 'SIGSTOP');
      await delay(HOLD_MS);
      process.kill(service.pid, 'SIGCONT');
      return undefined;
    }
    await end(victim, hit === 'stopped-in-run' ? 'stop' : hit === 'killed-without-run' ? 'killAlone' : 'kill');
    const isLate =
      hit === 'killed-in-run' ? existsSync(manifest) : hit === 'killed-sealed' && mail.messages.length > mails;
    if (isLate) throw new Error(`tick ${formatTick(dueAtMs)}: ${hit} came too late to show anything`);
    return victim;
  };
  const liveThroughTick = async (dueAtMs: number, index: number): Promise<LivedTick> => {
    const hit = hits.get(index);
    for (const { daemon } of living.values()) await daemon.untilIdle();
    let victim: Start | undefined;
    if (hit === 'killed-idle' || hit === 'stopped-idle') {
      victim = chooseIdle();
      if (victim) await end(victim, hit === 'stopped-idle' ? 'stop' : 'kill');
    }
    if (hit === 'redis-killed' || hit === 'redis-away') await redis.kill();
    if (hit === 'redis-killed') await redis.revive();
    if (index % ticksADay === 0) {
      await service.stop();
      service = await serve(index === 0 ? clock.now() : dueAtMs - LEAD_MS);
    }
    const answered = service.requests.length;
    if (index === 0) await startMissing();
    else {
      const pids = [...living.values()].map(({ daemon }) => daemon.pid);
      // Who hears of it first is chance.
      const first = Math.floor(random() * pids.length);
      await clock.moveTo(dueAtMs - LEAD_MS, ...pids.slice(first), ...pids.slice(0, first));
    }
    if (hit === 'redis-away') {
      const isTold = () => [...living.values()].every(({ daemon }) => hasFailedToClaim(daemon, dueAtMs));
      await until(isTold, 'the word of each daemon that Redis is away', dueAtMs);
      await redis.revive();
    }
    let takenOverAfterMs: number | undefined;
    if (hit !== undefined && isHitInRun(hit)) {
      victim = await hitInRun(hit, dueAtMs, answered);
      const hitAtMs = performance.now();
      // A daemon that comes back at once must not take its own tick twice, one that comes back late must not miss any.
      if (hit !== 'killed-without-run' && index % 8 === 0) await startMissing();
      // One that is stopped in order may still come to its end.
      if (victim && !runsOf(dueAtMs).some(({ outcome }) => outcome === 'done')) {
        await until(() => runsOf(dueAtMs).some(({ reason }) => reason === 'take-over'), 'a take-over', dueAtMs);
        takenOverAfterMs = performance.now() - hitAtMs;
      }
    }
    await until(() => runsOf(dueAtMs).some(({ outcome }) => outcome === 'done'), 'its end', dueAtMs);
    for (const { daemon } of living.values()) await daemon.untilIdle();
    const requests = service.requests.length - answered;
    await startMissing();
    const who = runsOf(dueAtMs).map(({ start, reason, outcome }) => `${start.name} ${reason} ${outcome ?? 'killed'}`);
    if (hit !== undefined || index % 10 === 0) {
      note(
        `tick ${index + 1}, ${formatTick(dueAtMs)}${hit ? `, ${hit} ${victim?.name ?? ''}` : ''}: ${who.join('; ')}`,
      );
    }
    return { dueAtMs, hit, victim: victim?.name, takenOverAfterMs, requests };
  };

  try {
    const ticks: LivedTick[] = [];
    for (const [index, dueAtMs] of dues.entries()) {
      if (options.signal?.aborted) break;
      ticks.push(await liveThroughTick(dueAtMs, index));
    }
    return { dates: dates.slice(0, Math.ceil(ticks.length / ticksADay)), ticks, starts, store, mail };
  } finally {
    await Promise.all([...living.values()].map(({ daemon }) => daemon.stop()));
    await service.stop();
    await mail.close();
  }
}

export interface SeenRun {
  readonly start: Start;
  readonly run: string;
  readonly reason: string;
  /** `undefined` for one whose daemon could not tell it any more. */
  readonly outcome: string | undefined;
}

/** Runs of a tick, from the log of a daemon. */
export function listRuns(start: Start, dueAtMs: number): readonly SeenRun[] {
  const { daemon } = start;
  const tick = new Date(dueAtMs).toISOString();
  return daemon.of('started').flatMap((line) => {
    if (line['tick'] !== tick) return [];
    const ended = daemon.of('finished').find(({ run }) => run === line['run']);
    return {
      start,
      run: String(line['run']),
      reason: String(line['reason']),
      outcome: ended && String(ended['outcome']),
    };
  });
}

const REPORTS = 'reports:\n  - template: flow\n    to: [desk@example.com]';

function hasFailedToClaim(daemon: DaemonProcess, sinceMs: number): boolean {
  return daemon.of('claim-failed').some(({ time }) => Date.parse(String(time)) >= sinceMs);
}
