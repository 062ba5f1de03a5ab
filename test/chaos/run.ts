/**
 * One chaos run: workers over one session, with the trouble that the seed drew, started again until the date is sealed;
 * then `judge.ts` compares what is there with the source. Invariant: a result says everything that is wrong, and nothing
 * is wrong that it does not say. The workers are driven through the command line alone.
 */
import { existsSync } from 'node:fs';
import { cp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import type { S3Server } from '../support/s3-server.ts';
import { findMountObstacle, mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { type ApiWatch, openApi } from './api.ts';
import { RunClock } from './clock.ts';
import {
  describeEnd,
  HISTORY,
  hasEndedWell,
  isDateSealed,
  judgeAttempt,
  judgeEnd,
  judgeSealed,
  judgeUnfinished,
} from './judge.ts';
import { type MailServer, RECIPIENTS, startMailServer } from './mail.ts';
import { IDENTITY, openPlace, type Place } from './place.ts';
import { countAll } from './report.ts';
import { DOUBTED_MOVES } from './rows.ts';
import type { Kind, Scenario } from './scenario.ts';
import type { ChaosSource, ChaosSources } from './source.ts';
import { drawPlan, NO_TROUBLE, type Plan, TROUBLED_ATTEMPTS, type Trouble } from './trouble.ts';
import { type Attempt, runWorker } from './worker.ts';

export interface ChaosResult {
  readonly seed: number;
  readonly scenario: string;
  readonly kinds: readonly Kind[];
  /** Faults that were done, by kind. */
  readonly faults: ReadonlyMap<string, number>;
  /** Moments at which a worker was killed. */
  readonly kills: readonly string[];
  /** Attempts of all workers that did not end with 0, by how they ended. */
  readonly ends: readonly string[];
  /** Attempts after the first, of the worker that took most. */
  readonly restarts: number;
  readonly requests: number;
  readonly ms: number;
  /** Dates that were found to hold the source's rows, and nothing else. */
  readonly equalDates: number;
  /** Attempts that did not seal, and said so. */
  readonly told: number;
  /** Mails that were due, and mails that the server took. */
  readonly mailsDue: number;
  readonly mailsTaken: number;
  /** What kills left in the store that no reader sees, by kind. */
  readonly remains: readonly string[];
  /** What was left out, and why. */
  readonly skipped: readonly string[];
  readonly problems: readonly string[];
  /** Where everything still is, when there are problems. */
  readonly folder: string | undefined;
}

export interface ChaosDeps {
  readonly sources: ChaosSources;
  readonly s3: S3Server | undefined;
}

/** Attempts without any trouble that a date may take. One is enough, unless the one before left something to wait for. */
const CALM_ATTEMPTS = 2;
/** Room for a stage and a drop; the filler takes what is above the drawn rest. */
const DISK_BYTES = 400 << 20;
/** Fast enough for many runs; the service's limit is far above. */
const RATE = '200';
const USUAL_MS = { generated: 2_500, real: 2_000, large: 12_000, table: 1_500 } as const;
/** A worker that has written nothing for a quarter of an hour is taken for dead. */
const LEASE_MS = 16 * 60_000;
/** Who waits for somebody else's lease has it passed at once. */
const WAITING = /"event":"mail-watched"/;
const WAIT_MS = 125_000;
/**
 * Who asks nothing for a while may wait for a second look at rows that are gone, or before it tries again. So time goes
 * by faster then, but never so much that a lease runs out.
 */
const IDLE = { checkMs: 200, afterMs: 600, leapMs: 11_000, leaps: 6 } as const;

export interface Run {
  readonly scenario: Scenario;
  readonly plan: Plan;
  readonly source: ChaosSource;
  readonly api: ApiWatch;
  readonly place: Place;
  readonly clock: RunClock;
  readonly mail: MailServer | undefined;
  readonly cwd: string;
  readonly job: string;
  readonly disk: SmallDisk | undefined;
  readonly problems: string[];
  readonly remains: string[];
  readonly attempts: Attempt[];
  /** Objects that the store lost, and what else happened to it. */
  readonly losses: string[];
  /** Attempts that did not seal, and said so. */
  told: number;
  /** Rows moved after the date was sealed, by a run that was not content. */
  hasMovedSince: boolean;
}

/** @param only kinds of trouble, instead of those that the seed draws */
export async function runChaos(
  deps: ChaosDeps,
  scenario: Scenario,
  seed: number,
  only?: readonly Kind[],
): Promise<ChaosResult> {
  const plan = drawPlan(scenario, seed, only);
  const { path: cwd, remove } = await makeFolder();
  const source = await deps.sources.open(scenario.source, plan, cwd);
  const started = performance.now();
  const obstacle = scenario.disk && (await findMountObstacle());
  const mounted = scenario.disk && !obstacle ? join(cwd, scenario.disk === 'store' ? 'drops' : 'state-0') : undefined;
  const disk = mounted === undefined ? undefined : await mountSmallDisk(mounted, DISK_BYTES);
  const place = await openPlace(scenario, cwd, deps.s3, `${process.pid}-${seed}-${Date.now()}`);
  const clock = new RunClock(cwd, source.startMs);
  const api = await openApi(source.urlOf(scenario.api), clock);
  const mail = scenario.mails ? await startMailServer() : undefined;
  const reports = mail ? `reports:\n  - template: flow\n    to: [${RECIPIENTS.join(', ')}]` : '';
  const job = await writeJob(cwd, { name: 'chaos', api: scenario.api, to: place.to, reports });
  const run: Run = {
    ...{ scenario, plan, source, api, place, clock, mail, cwd, job, disk },
    ...{ problems: [], remains: [], attempts: [], losses: [], told: 0, hasMovedSince: false },
  };
  const { problems, attempts } = run;
  let restarts = 0;
  let end = { equalDates: 0, mailsDue: 0 };
  try {
    restarts = (await runUntilSealed(run)) - 1;
    end = await judgeEnd(run, environmentOf);
  } catch (error) {
    problems.push(`the run broke off: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  } finally {
    await api.close();
    await mail?.close();
    await source.close();
    // What is wrong in a store of ours can be looked at; a shared one is tidied up.
    await place.close();
    if (problems.length === 0) {
      await disk?.remove();
      await remove();
    } else {
      for (const [number, { stdout, stderr }] of attempts.entries())
        await writeFile(join(cwd, `attempt-${number + 1}.log`), stdout + stderr);
      if (mounted !== undefined) await keepDisk(mounted, disk);
    }
  }
  return {
    ...{ seed, scenario: scenario.name, kinds: plan.kinds, restarts, ...end },
    faults: countAll([
      ...api.faults(),
      ...place.faults(),
      ...(mail?.faults ?? []),
      ...(source.table?.done.map(({ move }) => move) ?? []),
      ...(source.table?.lags.map(({ request }) => (request === 1 ? 'lag' : 'failover')) ?? []),
      ...source.oddities.map((name) => `odd: ${name}`),
      ...run.losses,
      ...attempts.flatMap(({ disk: how, slept, ownClockMs }) => [
        ...(how ? [`disk ${how}`] : []),
        ...(slept ? [`slept (${slept})`] : []),
        ...(ownClockMs === 0 ? [] : ['wrong own clock']),
      ]),
    ]),
    kills: attempts.flatMap(({ kill }) => (kill ? [kill] : [])),
    ends: attempts.filter(({ code }) => code !== 0).map(describeEnd),
    requests: api.requests,
    told: run.told,
    mailsTaken: mail?.taken.length ?? 0,
    remains: run.remains,
    ms: performance.now() - started,
    skipped: obstacle ? [`full and read-only disks: ${obstacle}`] : [],
    problems,
    folder: problems.length > 0 ? cwd : undefined,
  };
}

/** Each worker is started until it says that all is well, and the date is sealed. @returns attempts of the worker that took most */
async function runUntilSealed(run: Run): Promise<number> {
  const { api, place, source, mail, disk, attempts } = run;
  const open = new Set(Array.from({ length: run.scenario.workers }, (_, worker) => worker));
  for (let number = 0; number < TROUBLED_ATTEMPTS + CALM_ATTEMPTS; number += 1) {
    const trouble = run.plan.attempts[number] ?? NO_TROUBLE;
    if (open.size === 0) {
      // What is sealed may still be lost: the next run notices.
      if (!run.plan.attempts.slice(number).some(isAfterSealing)) return number;
      if (!isAfterSealing(trouble)) continue;
      open.add(0);
    }
    await loseObject(run, trouble);
    api.trouble(trouble);
    place.trouble(trouble);
    mail?.trouble(trouble.mail);
    const isSealed = run.attempts.length > 0 && (await isDateSealed(run));
    // Loaded twice before anything is sealed, rows are rows like others; gone afterwards, they stay in the drop.
    const rows = trouble.rows.filter(({ move }) => move !== (isSealed ? 'rows-vanish' : 'rows-twice'));
    if (isSealed && rows.length > 0) run.hasMovedSince = true;
    await source.table?.plan(rows, trouble.lag);
    const started = await Promise.all([...open].map((worker) => startOne(run, trouble, worker)));
    await disk?.heal();
    const written = await place.mount();
    if (written.length > 0) run.losses.push('written into the mount point');
    for (const attempt of started.flat()) {
      attempts.push(attempt);
      const isSealed = await judgeAttempt(run, attempt, trouble);
      if (hasEndedWell(attempt) && isSealed) open.delete(attempt.worker);
    }
    await judgeSealed(run, trouble);
    await judgeUnfinished(run);
  }
  if (open.size === 0) return attempts.length;
  const last = attempts.at(-1);
  run.problems.push(`not sealed without trouble either: ${last && describeEnd(last)}\n${last?.stderr.slice(-2_000)}`);
  return TROUBLED_ATTEMPTS + CALM_ATTEMPTS;
}

/** What is sealed may be lost, or change at the source: the next run notices. */
function isAfterSealing({ loses, rows, lag }: Trouble): boolean {
  return loses !== undefined || lag !== undefined || rows.some(({ move }) => DOUBTED_MOVES.some((one) => one === move));
}

async function loseObject({ place, losses }: Run, { loses }: Trouble): Promise<void> {
  if (loses === undefined) return;
  // Without what it is known by it would be another store, and a replaced revision that is gone cannot come back.
  const names = (await place.list()).filter((name) => !IDENTITY.test(name) && !HISTORY.test(name));
  const lost = names[Math.floor(loses * names.length)];
  if (lost === undefined) return;
  await place.remove(lost);
  const [name] = /[^/]+\/v\d+\.json$|[^/]+$/.exec(lost) ?? [lost];
  losses.push(`lost ${name.replace(/[0-9a-f]{16,}/, 'HASH')}`);
}

/** @returns its attempt, and that of the worker that took over while it slept */
async function startOne(run: Run, trouble: Trouble, worker: number): Promise<readonly Attempt[]> {
  const { clock, scenario } = run;
  const others: Attempt[] = [];
  const meanwhile = async () => {
    await clock.leap(LEASE_MS);
    others.push(await start(run, { ...trouble, kills: [], sleep: undefined, unmount: undefined }, scenario.workers));
  };
  const first = worker === 0 ? trouble : { ...trouble, sleep: undefined, unmount: undefined };
  const own = await start(run, first, worker, meanwhile);
  return [own, ...others];
}

async function start(
  run: Run,
  trouble: Trouble,
  worker: number,
  meanwhile: () => Promise<void> = async () => undefined,
): Promise<Attempt> {
  const { job, cwd, api, place, mail, clock, disk, scenario } = run;
  // Without a disk of its own only the size of files can be limited.
  const isPossible = trouble.disk?.how === 'file-size' || disk !== undefined;
  const ownClockMs = trouble.ownClockMs[worker] ?? 0;
  let hurrying: NodeJS.Timeout | undefined;
  const attempt = await runWorker({
    ...{ job, cwd, api, place, mail, disk, worker, ownClockMs },
    env: await environmentOf(run, worker, ownClockMs),
    kill: trouble.kills[worker],
    sleep: trouble.sleep && { at: trouble.sleep, meanwhile },
    unmount: trouble.unmount,
    isStoreKnown: () =>
      Array.from({ length: scenario.workers }, (_, at) => join(cwd, `state-${at}`, 'stores')).every(existsSync),
    onStart: (pid) => {
      void clock.watch(worker, pid);
      hurrying = hurry(run, trouble);
    },
    onLog: (text) => {
      if (WAITING.test(text)) void clock.leap(WAIT_MS);
    },
    onEnd: () => void clock.watch(worker, undefined),
    diskFault: isPossible && worker === 0 ? trouble.disk : undefined,
    usualMs: USUAL_MS[scenario.source.data],
  });
  clearInterval(hurrying);
  return attempt;
}

function hurry({ api, clock }: Run, { isCalm }: Trouble): NodeJS.Timeout {
  let left: number = isCalm ? 0 : IDLE.leaps;
  return setInterval(() => {
    if (left === 0 || api.idleMs() < IDLE.afterMs) return;
    left -= 1;
    void clock.leap(IDLE.leapMs);
  }, IDLE.checkMs);
}

async function environmentOf(
  { source, api, place, mail, clock, cwd }: Run,
  worker: number,
  ownClockMs: number,
): Promise<Readonly<Record<string, string>>> {
  return {
    ...source.env,
    ...place.env,
    ...mail?.env,
    ...(await clock.start(worker, ownClockMs)),
    // A run's source and its workers have one time, unless a clock is wrong, which is what shall be found.
    FLOWDROP_CLOCK: 'checked',
    FLOWDROP_API_URL: api.url,
    FLOWDROP_PORTAL_URL: api.url,
    FLOWDROP_REQUESTS_PER_SECOND: RATE,
    FLOWDROP_STATE_DIR: join(cwd, `state-${worker}`),
  };
}

async function keepDisk(folder: string, disk: SmallDisk | undefined): Promise<void> {
  // A mount that stays would be in the way of everybody; its files are what matters.
  await cp(folder, `${folder}-kept`, { recursive: true }).catch(() => undefined);
  await disk?.remove();
  await rm(folder, { recursive: true, force: true });
}
