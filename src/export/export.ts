/**
 * One run of one job: plan -> for each unsealed date, soonest expiry first: fetch, recount, seal -> report. Invariant: a
 * date that fails does not stop the others, unless the query or the key is wrong; whatever happens, what is staged and
 * sealed stays, and the same call goes on from there.
 */
import { rm } from 'node:fs/promises';
import { type DateRange, isInRange } from '../calendar/date-range.ts';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { findShortfall, noteRows, readManifestIfValid, updateConditions } from '../ledger/conditions.ts';
import { expiresAt } from '../plan/dates.ts';
import { expires } from '../plan/lookback.ts';
import type { HeldDate } from '../plan/witness.ts';
import { discardStages, listStages } from '../stage/list.ts';
import { noteFailures } from '../state/failures.ts';
import { saveLearnt } from '../state/limits.ts';
import type { OnRunEvent } from '../state/run-events.ts';
import { type DateResult, isInVain, type RunResult, readRunResult, writeRunResult } from '../state/run-result.ts';
import { noteAbsences } from '../state/unavailable.ts';
import { isStoreChange } from '../store/identity.ts';
import { API_DOWN_CODES } from './api-down.ts';
import { type ClockReading, findConflict, readClocks } from './clocks.ts';
import { type BackfillMode, chooseDates, type DateChoice } from './date-selection.ts';
import type { ExportContext } from './export-context.ts';
import { exportDate } from './export-date.ts';
import type { PlannedDate, RunPlan } from './export-plan.ts';
import type { HeldBack } from './exported.ts';
import { describeFault, finishLeftovers, listUnfinished, removeLocalLeftovers, reportDamage } from './leftovers.ts';
import { describeNamed } from './named-dates.ts';
import { planDates } from './planner.ts';
import { readChoiceFacts } from './selection-facts.ts';

export interface RunOptions {
  /** Only these dates; without it everything inside the lookback. */
  readonly range?: DateRange | undefined;
  /** Default: `unsealed`. */
  readonly mode?: BackfillMode;
}

/** Runs the export part of a job. Reports are sent by `deliver.ts`. @throws Fault when nothing could be started at all */
export async function runExport(given: ExportContext, job: Job, options: RunOptions = {}): Promise<RunResult> {
  const { clock, source, learnt } = given;
  let splits = 0;
  const onEvent: OnRunEvent = (event) => {
    if (event.kind === 'split') splits += 1;
    given.onEvent(event);
  };
  const context = { ...given, onEvent };
  const startedAtMs = clock.now();
  onEvent({ kind: 'phase', date: '', phase: 'planning' });
  const finished = await finishLeftovers(context, job);
  const setAside = finished.setAside.map(({ date }) => date);
  const facts = await readChoiceFacts(context.store, job, context.state, setAside);
  const { sealed } = facts;
  reportDamage(context, facts.damaged);
  await removeLocalLeftovers(context, [...sealed].sort().at(-1));
  await assertOwnDataset(context, job, sealed);
  const before = await readRunResult(context.state.lastRun);
  const notBeforeMs = before ? Date.parse(before.finished_at) : undefined;
  const choice = chooseDates(options.mode ?? 'unsealed', facts, options.range, notBeforeMs);
  await discardSealedStages(context, choice, sealed);
  const plan = await planDates(context.opened, context, choice);
  await keepLearnt(context);
  await noteRows(context, job, plan);
  onEvent({
    kind: 'planned',
    dates: plan.dates.map(({ date }) => date),
    rows: plan.dates.reduce<number | undefined>(
      (sum, { rows }) => (sum !== undefined && rows !== undefined ? sum + rows : undefined),
      0,
    ),
    pages: plan.dates.reduce((sum, { pages }) => sum + pages, 0),
  });
  const plannedDates = new Set(plan.dates.map(({ date }) => date));
  const results = [...listUnfinished(finished, plannedDates, (error) => describeFault(error, context.redact))];
  const held = [...plan.held];
  for (const planned of plan.dates) {
    // What a date taught is kept whatever becomes of it: a row limit that was learnt the hard way most of all.
    const result = await runDate(context, planned, sealed.has(planned.date), plan).finally(() => keepLearnt(context));
    if (result === undefined) continue;
    if ('held' in result) {
      held.push({ date: planned.date, reason: result.held });
      continue;
    }
    results.push(result);
    // Each window has used up its retries: the other dates would only wait for the same API.
    if (result.error && API_DOWN_CODES.has(result.error.code)) break;
  }
  await discardOldFiles(context, results);
  const known = { ...withoutMissing(plan, results), held };
  const clocks = readClocks(context, plan.ends?.rowMs());
  logHeld(context, held, clocks);
  const staged = await listStages(context.engine, { withRows: true });
  const { conditions, lostBefore, damaged } = await updateConditions(context, job, known, {
    before,
    staged,
    range: options.range,
  });
  const result: RunResult = {
    job: job.name,
    run_id: context.runId,
    dataset: job.drop.dataset,
    store: context.store.url,
    started_at: new Date(startedAtMs).toISOString(),
    finished_at: new Date(clock.now()).toISOString(),
    server_time: new Date(source.serverNow()).toISOString(),
    requests: source.stats.requests,
    retries: source.stats.retries,
    rate_limited: source.stats.rateLimited,
    splits,
    bytes: source.stats.bytes,
    row_limit: learnt.row_limit,
    dates: context.opened.kind === 'sql' ? results.filter(({ status }) => status !== 'missing') : results,
    held,
    clocks,
    ...(options.range ? { named: describeNamed(options.range, known, choice, sealed) } : {}),
    conditions: Object.fromEntries(conditions),
    damaged: Object.fromEntries([...damaged].filter(([date]) => isInRange(date, options.range))),
    ...findShortfall(conditions, plan.lookback.clipped, lostBefore, options.range),
    expires: Object.fromEntries(
      [...conditions]
        .filter(([, condition]) => condition === 'pending' && expires(job.source))
        .map(([date]) => [date, new Date(expiresAt(date)).toISOString()]),
    ),
  };
  // Chosen dates by hand are no tick of the schedule: the daemon must still catch up what it missed.
  await noteFailures(context.state.failures, results, result.finished_at);
  await noteMissing(context, results, plan, result.server_time);
  const isByHand = options.range !== undefined || options.mode !== undefined;
  await writeRunResult(isByHand ? context.state.lastBackfill : context.state.lastRun, result);
  return result;
}

/**
 * How the process should end: failed beats incomplete; `undefined` when all is well. A loss counts in the run that finds
 * it, and a gap for as long as it is inside the lookback; afterwards both are in `status`. Damage counts until it is mended.
 */
export function judgeRun(result: RunResult): 'failed' | 'incomplete' | undefined {
  if (result.dates.some(({ status }) => status === 'failed')) return 'failed';
  const isLacking = result.lost.length > 0 || result.gaps.length > 0 || Object.keys(result.damaged).length > 0;
  return isInVain(result) || isLacking || result.held.length > 0 ? 'incomplete' : undefined;
}

/** Of snapshots only: where rows can be counted, one request answers for all dates. */
async function noteMissing(
  { opened, source, state }: ExportContext,
  results: readonly DateResult[],
  { lookback }: RunPlan,
  askedAt: string,
): Promise<void> {
  if (opened.kind !== 'snapshots') return;
  const question = { url: source.url, symbols: opened.job.source.symbols };
  await noteAbsences(state.absences, results, question, { askedAt, firstWhole: lookback.firstWhole });
}

/** What can only be learnt by asking: dates that the source turned out to have nothing of. */
function withoutMissing(plan: RunPlan, results: readonly DateResult[]): RunPlan {
  const missing = results.filter(({ status }) => status === 'missing').map(({ date }) => date);
  return {
    ...plan,
    dates: plan.dates.filter(({ date }) => !missing.includes(date)),
    empty: new Set([...plan.empty, ...missing]),
  };
}

/** A clock that is wrong is told also when nothing was held back by it: next time something will be. */
function logHeld({ log }: ExportContext, held: readonly HeldDate[], { conflict, server, own }: ClockReading): void {
  if (conflict !== null)
    log.warn({ event: 'clocks-differ', server, own, reason: conflict }, `clocks differ: ${conflict}`);
  for (const { date, reason } of held) {
    log.warn({ event: 'date-held', date, reason }, `${date} is held back: ${reason}`);
  }
}

/** @returns `undefined` when the date's last rows are too fresh for it to be over */
async function runDate(
  context: ExportContext,
  planned: PlannedDate,
  restate: boolean,
  plan: RunPlan,
): Promise<DateResult | HeldBack | undefined> {
  const { source, onEvent } = context;
  const { date } = planned;
  const requestsBefore = source.stats.requests;
  try {
    assertNotAborted(context.signal);
    const exported = await exportDate(context, planned, restate, plan);
    if (exported === 'open') return undefined;
    if ('held' in exported) return exported;
    const { published, missing } = exported;
    const requests = source.stats.requests - requestsBefore;
    const lacking = missing.length > 0 ? { missing } : {};
    if (published === undefined) return { date, status: 'missing', rows: 0, requests, ...lacking };
    const { manifest, status, changes } = published;
    const { rows, revision, degraded_reason } = manifest;
    const [{ size }] = manifest.files;
    onEvent({ kind: 'sealed', date, rows, sizeBytes: size, requests });
    return {
      date,
      status,
      rows,
      requests,
      size,
      revision,
      ...(changes === undefined ? {} : { changes }),
      ...(degraded_reason === undefined ? {} : { degraded_reason }),
      ...lacking,
    };
  } catch (error) {
    // A wrong query or key fails every other date too, and an interruption is not the date's fault.
    if (!isFault(error) || error.kind === 'usage' || error.kind === 'interrupted') throw error;
    // No other date can be sealed either.
    if (isStoreChange(error)) throw error;
    const { redact } = context;
    context.log.error(
      { event: 'date-failed', date, code: error.code, reason: error.message },
      `${date} failed: ${error.message}`,
    );
    onEvent({ kind: 'failed', date, reason: redact(error.message) });
    return {
      date,
      status: 'failed',
      rows: 0,
      requests: source.stats.requests - requestsBefore,
      error: describeFault(error, redact),
    };
  }
}

/** Two jobs writing one dataset would each take the other's dates for sealed. */
async function assertOwnDataset(context: ExportContext, job: Job, sealed: ReadonlySet<string>): Promise<void> {
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

/** A run that was killed between the manifest and the end leaves a stage that nobody needs, unless it is to be restated. */
async function discardSealedStages(
  { engine }: ExportContext,
  choice: DateChoice,
  sealed: ReadonlySet<string>,
): Promise<void> {
  for (const date of await listStages(engine)) {
    if (sealed.has(date) && !choice.isWanted(date)) await discardStages(engine, date);
  }
}

/** The newest drop's file stays for the report; the others are in the store. */
async function discardOldFiles(context: ExportContext, results: readonly DateResult[]): Promise<void> {
  const done = results.filter(({ status }) => status !== 'failed' && status !== 'missing').map(({ date }) => date);
  for (const date of done.slice(0, -1)) await rm(context.state.drop(date), { force: true });
}

async function keepLearnt(context: ExportContext): Promise<void> {
  const { learnt, learntPath, source, clock } = context;
  // Of clocks that differ nobody knows which is wrong: the next run plans by its own until it is told better.
  const offsetMs = findConflict(context) === undefined ? source.serverNow() - clock.now() : 0;
  await saveLearnt(learntPath, {
    ...learnt,
    answer_ms: source.stats.answerMs || learnt.answer_ms,
    clock_offset_ms: offsetMs,
  });
}
