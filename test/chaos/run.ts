/**
 * One chaos run: workers over one session, with the trouble that the seed drew, started again until the date is sealed;
 * then what is sealed is compared with the source. Invariant: a result says everything that is wrong, and nothing is wrong
 * that it does not say. The workers are driven through the command line alone.
 */
import { createHash } from 'node:crypto';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Manifest } from '../../src/seal/manifest.ts';
import { flowdrop, makeFolder } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import type { S3Server } from '../support/s3-server.ts';
import { findMountObstacle, mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { type ApiWatch, isPage, openApi } from './api.ts';
import { openPlace, type Place } from './place.ts';
import { drawTroubles, NO_TROUBLE, type Scenario, TROUBLED_ATTEMPTS, type Trouble } from './scenario.ts';
import type { ChaosSource, ChaosSources } from './source.ts';
import { type Attempt, runWorker } from './worker.ts';

export interface ChaosResult {
  readonly seed: number;
  readonly scenario: string;
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
  /** Whether the sealed drop was found to hold the source's rows, and nothing else. */
  readonly isEqual: boolean;
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
/** Requests that a worker has in flight at most: what a kill can lose between answer and stage. */
const MAX_IN_FLIGHT = 12;
/** Room for a stage and a drop; the filler takes what is above the drawn rest. */
const DISK_BYTES = 400 << 20;
/** Fast enough for many runs; the service's limit is far above. */
const RATE = '200';
const USUAL_MS = { generated: 2_500, real: 2_000, large: 12_000 } as const;
/** Documented exit codes of an attempt that may succeed later: failed, refused, incomplete. */
const SENSIBLE_CODES: ReadonlySet<number | null> = new Set([0, 1, 2, 3]);

/** What a kill leaves where no reader sees it. */
const REMAINS = [
  { kind: 'temporary file', pattern: /\/\.flowdrop-[0-9a-f]{16}\.tmp$/ },
  { kind: 'unfinished upload', pattern: /\(unfinished upload\)$/ },
] as const;

interface Run {
  readonly scenario: Scenario;
  readonly source: ChaosSource;
  readonly api: ApiWatch;
  readonly place: Place;
  readonly cwd: string;
  readonly job: string;
  readonly disk: SmallDisk | undefined;
  readonly problems: string[];
  readonly remains: string[];
  readonly attempts: Attempt[];
}

export async function runChaos(deps: ChaosDeps, scenario: Scenario, seed: number): Promise<ChaosResult> {
  const source = await deps.sources.open(scenario.source);
  const started = performance.now();
  const { path: cwd, remove } = await makeFolder();
  const obstacle = scenario.disk && (await findMountObstacle());
  const mounted = scenario.disk && !obstacle ? join(cwd, scenario.disk === 'store' ? 'drops' : 'state-0') : undefined;
  const disk = mounted === undefined ? undefined : await mountSmallDisk(mounted, DISK_BYTES);
  const place = await openPlace(scenario, cwd, deps.s3, `${process.pid}-${seed}-${Date.now()}`);
  const api = await openApi(scenario.api === 'portal' ? source.service.portalUrl : source.service.url);
  const before = source.service.requests.length;
  const problems: string[] = [];
  const job = await writeJob(cwd, { name: 'chaos', api: scenario.api, to: place.to, reports: '' });
  const run: Run = { scenario, source, api, place, cwd, job, disk, problems, remains: [], attempts: [] };
  let restarts = 0;
  let isEqual = false;
  try {
    const perWorker = await runUntilSealed(run, drawTroubles(scenario, seed));
    restarts = perWorker - 1;
    const manifest = await checkStore(run);
    if (manifest) {
      checkRequests(run, manifest, before);
      const differences = await compareDrop(run);
      problems.push(...differences.map((difference) => `the drop differs: ${difference}`));
      isEqual = differences.length === 0;
    }
  } catch (error) {
    problems.push(`the run broke off: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  } finally {
    await api.close();
    // What is wrong in a store of ours can be looked at; a shared one is tidied up.
    await place.close();
    if (problems.length === 0) {
      await disk?.remove();
      await remove();
    } else {
      for (const [number, { stderr }] of run.attempts.entries()) {
        await writeFile(join(cwd, `attempt-${number + 1}.log`), stderr);
      }
      if (mounted !== undefined) await keepDisk(mounted, disk);
    }
  }
  const { attempts } = run;
  return {
    seed,
    scenario: scenario.name,
    faults: countAll([
      ...api.faults(),
      ...place.faults(),
      ...attempts.flatMap(({ disk: how }) => (how ? [`disk ${how}`] : [])),
    ]),
    kills: attempts.flatMap(({ kill }) => (kill ? [kill] : [])),
    ends: attempts.filter(({ code }) => code !== 0).map(describeEnd),
    restarts,
    requests: api.requests,
    isEqual,
    remains: run.remains,
    ms: performance.now() - started,
    skipped: obstacle ? [`full and read-only disks: ${obstacle}`] : [],
    problems,
    folder: problems.length > 0 ? cwd : undefined,
  };
}

/** Each worker is started until it says that all is sealed. @returns attempts of the worker that took most */
async function runUntilSealed(run: Run, troubles: readonly Trouble[]): Promise<number> {
  const open = new Set(Array.from({ length: run.scenario.workers }, (_, worker) => worker));
  for (let number = 0; number < TROUBLED_ATTEMPTS + CALM_ATTEMPTS; number += 1) {
    const trouble = troubles[number] ?? NO_TROUBLE;
    run.api.trouble(trouble);
    run.place.trouble(trouble);
    const attempts = await Promise.all(
      [...open].map(async (worker) => ({ worker, ...(await startOne(run, trouble, worker)) })),
    );
    await run.disk?.heal();
    for (const attempt of attempts) {
      run.attempts.push(attempt);
      judgeAttempt(run, attempt, trouble);
      if (attempt.code === 0) open.delete(attempt.worker);
    }
    if (open.size === 0) return number + 1;
  }
  const last = run.attempts.at(-1);
  run.problems.push(`not sealed without trouble either: ${last && describeEnd(last)}\n${last?.stderr.slice(-2_000)}`);
  return TROUBLED_ATTEMPTS + CALM_ATTEMPTS;
}

async function startOne(run: Run, trouble: Trouble, worker: number): Promise<Attempt> {
  const { job, cwd, api, place, disk, scenario } = run;
  // Without a disk of its own only the size of files can be limited.
  const isPossible = trouble.disk?.how === 'file-size' || disk !== undefined;
  return await runWorker({
    job,
    cwd,
    env: environmentOf(run, worker),
    api,
    place,
    kill: trouble.kills[worker],
    diskFault: isPossible && worker === 0 ? trouble.disk : undefined,
    disk,
    usualMs: USUAL_MS[scenario.source.data],
  });
}

function environmentOf({ source, api, place, cwd }: Run, worker: number): Readonly<Record<string, string>> {
  return {
    ...source.service.env,
    ...place.env,
    FLOWDROP_API_URL: api.url,
    FLOWDROP_PORTAL_URL: api.url,
    FLOWDROP_REQUESTS_PER_SECOND: RATE,
    FLOWDROP_STATE_DIR: join(cwd, `state-${worker}`),
  };
}

function judgeAttempt({ problems }: Run, attempt: Attempt, trouble: Trouble): void {
  const { code, kill, disk, stderr } = attempt;
  const tail = stderr.slice(-2_000);
  if (kill === 'hung') problems.push(`an attempt hung:\n${tail}`);
  // The engine is native code: on a broken disk it may end the process, which the next attempt must survive.
  if (code === null && kill === undefined && disk === undefined) problems.push(`an attempt crashed:\n${tail}`);
  if (code !== null && !SENSIBLE_CODES.has(code)) problems.push(`an attempt ended with ${code}:\n${tail}`);
  if (stderr.includes('flowdrop: UNEXPECTED')) problems.push(`an attempt failed without knowing why:\n${tail}`);
  if (trouble === NO_TROUBLE && code !== 0) problems.push(`an attempt without trouble ended with ${code}:\n${tail}`);
}

/** A last run without trouble changes nothing; then there is one revision of the date, and nothing beside it. */
async function checkStore(run: Run): Promise<Manifest | undefined> {
  const { api, place, cwd, job, problems, source } = run;
  api.trouble(NO_TROUBLE);
  place.trouble(NO_TROUBLE);
  const env = environmentOf(run, 0);
  const again = await flowdrop(['run', job], { cwd, env });
  if (again.code !== 0) problems.push(`a run after the last ended with ${again.code}: ${again.stderr.slice(-2_000)}`);
  const verified = await flowdrop(['verify', job], { cwd, env });
  if (verified.code !== 0) problems.push(`verify ended with ${verified.code}: ${verified.stdout}${verified.stderr}`);
  const names = await place.list();
  const { drop, manifestName, beside } = nameObjects(source.date);
  judgeLeftovers(
    run,
    names.filter((name) => ![drop, manifestName, ...beside].includes(name)),
  );
  if (!names.includes(drop) || !names.includes(manifestName)) {
    problems.push(`the drop is not there: ${names.join(', ')}`);
    return undefined;
  }
  const manifest = JSON.parse(await readFile(await place.fetch(manifestName), 'utf8')) as Manifest;
  const file = await readFile(await place.fetch(drop));
  const hash = `sha256:${createHash('sha256').update(file).digest('hex')}`;
  for (const [name, value, expected] of [
    ['hash', manifest.files[0].hash, hash],
    ['rows', manifest.rows, source.truth.rows],
    ['source_rows', manifest.source_rows, source.truth.rows],
    ['revision', manifest.revision, 1],
    ['condition', manifest.condition, 'available'],
  ] as const) {
    if (value !== expected) problems.push(`the manifest's ${name} is ${value}, not ${expected}`);
  }
  return manifest;
}

async function compareDrop({ place, source }: Run): Promise<readonly string[]> {
  return await source.truth.compare(await place.fetch(nameObjects(source.date).drop));
}

function nameObjects(date: string) {
  const partition = `trades/date=${date}`;
  return {
    drop: `${partition}/trades.parquet`,
    manifestName: `${partition}/manifest.json`,
    beside: [`${partition}/summary.parquet`, 'trades/condition.json'],
  };
}

/** A kill may leave one temporary file, which no listing shows, or an upload's parts; nothing else may be left by anything. */
function judgeLeftovers({ attempts, problems, remains }: Run, leftovers: readonly string[]): void {
  const died = attempts.filter(({ code }) => code === null).length;
  for (const name of leftovers) {
    const kind = REMAINS.find(({ pattern }) => pattern.test(name))?.kind;
    if (kind) remains.push(kind);
    if (!kind || remains.length > died) problems.push(`left over in the store: ${name}`);
  }
}

/**
 * Every page that went through whole is either a window of the manifest or was lost between answer and stage when an
 * attempt ended: at most those in flight then. Until the row limit has been learnt and saved, each attempt may have as
 * many answers again that are truncated. A proxy that refuses connections breaks those that it has, too.
 */
function checkRequests({ source, api, scenario, attempts, problems }: Run, manifest: Manifest, before: number): void {
  const answered = source.service.requests
    .slice(before)
    .filter(({ status, sql = '' }) => status === 200 && isPage(sql));
  const whole = answered.length - api.brokenPages();
  const ended = attempts.filter(({ code }) => code !== 0).length;
  const refused = api.faults().filter((kind) => kind === 'refuse').length;
  const allowed =
    manifest.windows.length * scenario.workers +
    MAX_IN_FLIGHT * (2 * ended + scenario.workers + refused * scenario.workers);
  if (whole > allowed) {
    problems.push(`${whole} pages were answered whole, and ${allowed} explain the drop and ${ended} ended attempts`);
  }
}

async function keepDisk(folder: string, disk: SmallDisk | undefined): Promise<void> {
  // A mount that stays would be in the way of everybody; its files are what matters.
  await cp(folder, `${folder}-kept`, { recursive: true }).catch(() => undefined);
  await disk?.remove();
  await rm(folder, { recursive: true, force: true });
}

function describeEnd({ code, kill, stderr }: Attempt): string {
  if (kill) return `killed (${kill})`;
  if (code === null) return 'crashed';
  const reason =
    /"event":"date-failed"[^\n]*?"code":"(\w+)"/.exec(stderr)?.[1] ?? /^flowdrop: (\w+):/m.exec(stderr)?.[1];
  return `exit ${code}${reason ? ` ${reason}` : ''}`;
}

function countAll(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of [...names].sort()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
