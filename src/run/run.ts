/**
 * One run of one job: plan -> for each unsealed date, soonest expiry first: fetch, recount, seal -> report. Invariant: a
 * date that fails does not stop the others, unless the query or the key is wrong; whatever happens, what is staged and
 * sealed stays, and the same call goes on from there.
 */
import { rm } from 'node:fs/promises';
import { assertNotAborted, describeError, type FailureKind, Fault, isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { type Condition, computeConditions, computeLookback, expiresAt } from '../plan/dates.ts';
import { listSealedDates, readManifest } from '../seal/ledger.ts';
import { listStages, openStage } from '../stage/stage.ts';
import { completeDate } from './complete.ts';
import type { RunContext } from './context.ts';
import { saveLearnt } from './learnt.ts';
import { type DateRange, type PlannedDate, planRun, type RunPlan } from './plan.ts';
import { type DateResult, type RunResult, writeRunResult } from './result.ts';
import { sealDate } from './seal.ts';

export interface RunOptions {
  /** Only these dates; without it everything unsealed inside the lookback. */
  readonly range?: DateRange;
}

/** Runs the export part of a job. Reports are sent by `deliver.ts`. @throws Fault when nothing could be started at all */
export async function runExport(context: RunContext, job: Job, options: RunOptions = {}): Promise<RunResult> {
  const { clock, source, learnt, onEvent } = context;
  const startedAtMs = clock.now();
  const sealed = new Set(await listSealedDates(context.store, job.drop.dataset));
  await discardSealedStages(context, job, sealed);
  let plan: RunPlan;
  try {
    plan = await planRun(context, job, sealed, options.range);
  } finally {
    await keepLearnt(context);
  }
  onEvent({
    kind: 'planned',
    dates: plan.dates.map(({ date }) => date),
    rows: plan.dates.reduce((sum, { rows }) => sum + rows, 0),
    pages: plan.dates.reduce((sum, { pages }) => sum + pages, 0),
  });
  const results: DateResult[] = [];
  for (const planned of plan.dates) results.push(await runDate(context, job, planned));
  await keepLearnt(context);
  const conditions = await readConditions(context, job, plan);
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
    expires: Object.fromEntries(
      [...conditions]
        .filter(([, condition]) => condition === 'pending')
        .map(([date]) => [date, new Date(expiresAt(date)).toISOString()]),
    ),
  };
  await writeRunResult(context.state.lastRun, result);
  return result;
}

/** How the process should end after these dates: failed beats incomplete. `undefined` when all is well. */
export function judgeRun(result: RunResult): FailureKind | undefined {
  if (result.dates.some(({ status }) => status === 'failed')) return 'failed';
  const incomplete: readonly Condition[] = ['degraded', 'missing', 'expired'];
  return Object.values(result.conditions).some((condition) => incomplete.includes(condition))
    ? 'incomplete'
    : undefined;
}

async function runDate(context: RunContext, job: Job, planned: PlannedDate): Promise<DateResult> {
  const { clock, source, engine, onEvent, state, learnt } = context;
  const { date } = planned;
  const requestsBefore = source.stats.requests;
  const startedAtMs = clock.now();
  try {
    assertNotAborted(context.signal);
    const stage = await openStage(engine, job, date);
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

/** A run that was killed between the manifest and the end leaves a stage that nobody needs. */
async function discardSealedStages(context: RunContext, job: Job, sealed: ReadonlySet<string>): Promise<void> {
  for (const date of await listStages(context.engine, job)) {
    if (sealed.has(date)) await (await openStage(context.engine, job, date)).discard();
  }
}

async function readConditions(context: RunContext, job: Job, plan: RunPlan): Promise<ReadonlyMap<string, Condition>> {
  const sealed = new Map<string, 'available' | 'degraded'>();
  for (const date of await listSealedDates(context.store, job.drop.dataset)) {
    // Dates sealed long ago are in their manifests; reading them all would cost a request each.
    const inside = date >= plan.lookback.clipped;
    const manifest = inside ? await readManifest(context.store, job.drop.dataset, date) : undefined;
    sealed.set(date, manifest?.condition ?? 'available');
  }
  const firstKnown = [...sealed.keys(), ...plan.dates.map(({ date }) => date)].sort()[0];
  return computeConditions({ sealed, empty: plan.empty, lookback: plan.lookback }, firstKnown);
}

async function keepLearnt(context: RunContext): Promise<void> {
  const { learnt, source, clock, state } = context;
  await saveLearnt(state.learnt, {
    ...learnt,
    learnt_at_ms: clock.now(),
    clock_offset_ms: source.serverNow() - clock.now(),
  });
}
