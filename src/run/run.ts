/**
 * One run of one job: plan -> for each unsealed date, soonest expiry first: fetch, recount, seal -> report. Invariant: a
 * date that fails does not stop the others, unless the query or the key is wrong; whatever happens, what is staged and
 * sealed stays, and the same call goes on from there.
 */
import { rm } from 'node:fs/promises';
import { assertNotAborted, describeError, type FailureKind, Fault, isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { computeLookback, expiresAt } from '../plan/dates.ts';
import { listSealedDates } from '../seal/ledger.ts';
import { discardStages, listStages, openStage } from '../stage/stage.ts';
import { completeDate } from './complete.ts';
import { findShortfall, readConditions, readManifestIfValid } from './conditions.ts';
import type { RunContext } from './context.ts';
import { saveLearnt } from './learnt.ts';
import { type DateRange, type PlannedDate, planRun } from './plan.ts';
import { type DateResult, type RunResult, readRunResult, writeRunResult } from './result.ts';
import { sealDate } from './seal.ts';

export interface RunOptions {
  /** Only these dates; without it everything unsealed inside the lookback. */
  readonly range?: DateRange;
}

/** Failures that say the API itself is down, not that a window or a date is at fault. */
const API_DOWN_CODES: ReadonlySet<string> = new Set([
  'API_UNREACHABLE',
  'SERVER_ERROR',
  'INTERNAL_ERROR',
  'RATE_LIMITED',
]);

/** Runs the export part of a job. Reports are sent by `deliver.ts`. @throws Fault when nothing could be started at all */
export async function runExport(context: RunContext, job: Job, options: RunOptions = {}): Promise<RunResult> {
  const { clock, source, learnt, onEvent } = context;
  const startedAtMs = clock.now();
  const sealed = new Set(await listSealedDates(context.store, job.drop.dataset));
  await assertOwnDataset(context, job, sealed);
  await discardSealedStages(context, sealed);
  const before = await readRunResult(context.state.lastRun);
  const plan = await planRun(context, job, sealed, options.range);
  await keepLearnt(context);
  onEvent({
    kind: 'planned',
    dates: plan.dates.map(({ date }) => date),
    rows: plan.dates.reduce((sum, { rows }) => sum + rows, 0),
    pages: plan.dates.reduce((sum, { pages }) => sum + pages, 0),
  });
  const results: DateResult[] = [];
  for (const planned of plan.dates) {
    const result = await runDate(context, job, planned);
    results.push(result);
    // Each window has used up its retries: the other dates would only wait for the same API.
    if (result.error && API_DOWN_CODES.has(result.error.code)) break;
  }
  await keepLearnt(context);
  await discardOldFiles(context, results);
  const conditions = await readConditions(context, job, plan, before);
  const result: RunResult = {
    job: job.name,
    dataset: job.drop.dataset,
    store: context.store.url,
    started_at: new Date(startedAtMs).toISOString(),
    finished_at: new Date(clock.now()).toISOString(),
    server_time: new Date(source.serverNow()).toISOString(),
    requests: source.stats.requests,
    retries: source.stats.retries,
    rate_limited: source.stats.rateLimited,
    bytes: source.stats.bytes,
    row_limit: learnt.row_limit,
    dates: results,
    conditions: Object.fromEntries(conditions),
    ...findShortfall(conditions, plan.lookback.clipped, before, options.range),
    expires: Object.fromEntries(
      [...conditions]
        .filter(([, condition]) => condition === 'pending')
        .map(([date]) => [date, new Date(expiresAt(date)).toISOString()]),
    ),
  };
  // Chosen dates by hand are no tick of the schedule: the daemon must still catch up what it missed.
  if (!options.range) await writeRunResult(context.state.lastRun, result);
  return result;
}

/**
 * How the process should end: failed beats incomplete; `undefined` when all is well. A loss counts in the run that finds
 * it, and a gap for as long as it is inside the lookback; afterwards both are in `status`.
 */
export function judgeRun(result: RunResult): FailureKind | undefined {
  if (result.dates.some(({ status }) => status === 'failed')) return 'failed';
  return result.lost.length > 0 || result.gaps.length > 0 ? 'incomplete' : undefined;
}

async function runDate(context: RunContext, job: Job, planned: PlannedDate): Promise<DateResult> {
  const { clock, source, engine, onEvent, state, learnt } = context;
  const { date } = planned;
  const requestsBefore = source.stats.requests;
  const startedAtMs = clock.now();
  try {
    assertNotAborted(context.signal);
    const stage = await openStage(engine, job, date, source.url);
    const totals = await stage.totals();
    onEvent({ kind: 'date', date, rows: planned.rows, staged: totals.rows, pages: planned.pages });
    const counted = await completeDate(context, job, stage, planned.counts, state.counts(date));
    assertStillWhole(date, source.serverNow());
    const requests = source.stats.requests - requestsBefore;
    const path = state.drop(date);
    const sealedAtMs = clock.now();
    const { manifest, won } = await sealDate(context, job, stage, {
      path,
      counted,
      requests,
      startedAtMs,
      sealedAtMs,
      rowLimit: learnt.row_limit,
    });
    await rm(state.counts(date), { force: true });
    onEvent({ kind: 'sealed', date, rows: manifest.rows, sizeBytes: manifest.files[0].size, requests });
    return {
      date,
      status: won ? 'sealed' : 'sealed-elsewhere',
      rows: manifest.rows,
      requests,
      size: manifest.files[0].size,
    };
  } catch (error) {
    // A wrong query or key fails every other date too, and an interruption is not the date's fault.
    if (!isFault(error) || error.kind === 'usage' || error.kind === 'interrupted') throw error;
    context.log.error({ event: 'date-failed', date, code: error.code, reason: error.message });
    onEvent({ kind: 'failed', date, reason: error.message });
    return {
      date,
      status: 'failed',
      rows: 0,
      requests: source.stats.requests - requestsBefore,
      error: { code: error.code, message: describeError(error), ...(error.hint ? { hint: error.hint } : {}) },
    };
  }
}

/** The lookback rolls on while a date is fetched: its first rows may have gone in between. */
function assertStillWhole(date: string, serverNowMs: number): void {
  const { firstWhole, edge } = computeLookback(serverNowMs);
  if (date >= firstWhole) return;
  throw new Fault(
    'DATE_CLIPPED',
    `${date} began to leave the lookback (now from ${edge}) while it was fetched, so it cannot be proved complete`,
    {
      hint: 'What was staged is kept. Run earlier next time: `flowdrop status` shows what expires when.',
    },
  );
}

/** Two jobs writing one dataset would each take the other's dates for sealed. */
async function assertOwnDataset(context: RunContext, job: Job, sealed: ReadonlySet<string>): Promise<void> {
  const newest = [...sealed].sort().at(-1);
  if (newest === undefined) return;
  const owner = (await readManifestIfValid(context, job, newest))?.job_id;
  if (owner === undefined || owner === job.name) return;
  throw new Fault(
    'DATASET_TAKEN',
    `${context.store.url}/${job.drop.dataset} belongs to the job "${owner}", not to "${job.name}"`,
    {
      kind: 'usage',
      hint: 'Give this job a dataset of its own (drop.dataset), or its old name back.',
    },
  );
}

/** A run that was killed between the manifest and the end leaves a stage that nobody needs. */
async function discardSealedStages(context: RunContext, sealed: ReadonlySet<string>): Promise<void> {
  for (const date of await listStages(context.engine)) if (sealed.has(date)) await discardStages(context.engine, date);
}

/** The newest drop's file stays for the report; the others are in the store. */
async function discardOldFiles(context: RunContext, results: readonly DateResult[]): Promise<void> {
  const done = results.filter(({ status }) => status !== 'failed').map(({ date }) => date);
  for (const date of done.slice(0, -1)) await rm(context.state.drop(date), { force: true });
}

async function keepLearnt(context: RunContext): Promise<void> {
  const { learnt, source, clock, state } = context;
  await saveLearnt(state.learnt, {
    ...learnt,
    clock_offset_ms: source.serverNow() - clock.now(),
  });
}
