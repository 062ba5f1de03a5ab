/**
 * The export of a job: plan, then for each unsealed date, soonest expiry first: fetch, recount, seal; the audits of the other
 * dates come after, when the caller asks for them. Invariant: a failed date does not stop the others, unless the query or the
 * key is wrong. Staged and sealed rows are always kept, and the next call goes on from there.
 */
import { type DateRange, isInRange } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { Finished } from '../ledger/finish.ts';
import { type Conditions, findShortfall, noteRows, updateConditions } from '../ledger/update-conditions.ts';
import { expiresAt } from '../plan/dates.ts';
import { expires } from '../plan/lookback.ts';
import type { HeldDate } from '../plan/witness.ts';
import type { ExportRun } from '../run/run.ts';
import { API_DOWN_CODES } from '../source/source.ts';
import { discardStages, listStages } from '../stage/list.ts';
import { addFailures, addUnavailable, type KnownDates } from '../state/job-state.ts';
import type { OnRunEvent, RunEvent } from '../state/run-events.ts';
import type { DateResult, RunResult } from '../state/run-result.ts';
import { type Audited, auditSealed } from './audits/source-audit.ts';
import { type ClockReading, readClocks } from './clocks.ts';
import { type BackfillMode, type DateSelection, selectDates } from './date-selection.ts';
import { withUnmatched } from './empty-dates.ts';
import { type RunPlan, withHeld } from './export-plan.ts';
import { discardOldFiles, type ExportedDates, exportPlanned, saveLimits } from './export-planned.ts';
import { finishLeftovers, mendDerived, removeLocalLeftovers, reportDamage } from './leftovers.ts';
import { describeNamed } from './named-dates.ts';
import { planDates } from './planner.ts';
import { readSelectionFacts } from './selection-facts.ts';
import { LikeSessions } from './trades/like-sessions.ts';
import { updateTable } from './update-table.ts';

export interface RunOptions {
  /** Only these dates. Default: every date inside the lookback. */
  readonly range?: DateRange | undefined;
  /** Default: `unsealed`. */
  readonly mode?: BackfillMode;
  /** Who asked that the source's rows replace the sealed ones, however doubtful the change. */
  readonly acceptedBy?: string | undefined;
}

/** An export that has sealed what it could. */
export interface ExportedJob {
  readonly result: RunResult;
  /**
   * Compares the other sealed dates with the source, and returns the result with what that found. Apart from the export,
   * because reports are mailed first. Absent: nothing is compared, by a backfill for instance.
   * @throws Fault of kind `interrupted`, `STORE_CHANGED`; StoreFault
   */
  readonly audit?: (() => Promise<RunResult>) | undefined;
}

/** Runs the export part of a job. Reports are sent by `deliver`. @throws Fault when nothing could be started at all */
export async function runExport(given: ExportRun, job: Job, options: RunOptions = {}): Promise<ExportedJob> {
  let splits = 0;
  const onEvent: OnRunEvent = (event) => {
    if (event.kind === 'split') splits += 1;
    given.onEvent(event);
  };
  const run = { ...given, onEvent };
  const startedAtMs = run.clock.now();
  onEvent({ kind: 'phase', date: '', phase: 'planning' });
  const start = await prepareExport(run, job, options);
  const { opened } = run;
  const like = opened.kind === 'sql' ? new LikeSessions(run, opened.job, start.sealed) : undefined;
  const plan = await planDates(opened, { ...run, like }, start.selection);
  await saveLimits(run);
  await noteRows(run.ledger, run.log, job, withHeld(plan));
  onEvent(describePlan(plan));
  const exported = await exportPlanned(run, plan, start);
  const known = await withUnmatched(run, withoutMissing(plan, exported.results), start.before?.conditions);
  const end = { options, start, plan: known, startedAtMs };
  const { result, updated } = await concludeExport(run, job, { ...end, exported, splits });
  await recordResult(run, result, exported.results, plan);
  if (isByHand(options) || exported.results.some(({ error }) => error && API_DOWN_CODES.has(error.code))) {
    return { result };
  }
  const audit = async () => {
    const { audits, results } = await auditOthers(run, start, exported.results);
    if (Object.keys(audits).length === 0 && results.length === 0) return result;
    const all = { ...exported, results: [...exported.results, ...results], audits };
    const concluded = await concludeExport(run, job, {
      ...{ ...end, exported: all, splits, before: updated },
      isTableCurrent: results.length === 0,
    });
    await recordResult(run, concluded.result, results, plan);
    return concluded.result;
  };
  return { result, audit };
}

/** A backfill does only what it was asked for. */
function isByHand({ range, mode }: RunOptions): boolean {
  return range !== undefined || mode !== undefined;
}

/** The state at the start of an export. */
interface ExportStart {
  readonly finished: Finished;
  /** Dates that have a manifest. */
  readonly sealed: ReadonlySet<string>;
  /** Of these, the ones with damaged or missing files. */
  readonly damaged: ReadonlySet<string>;
  readonly selection: DateSelection;
  /** What the job's last run knew. */
  readonly before: KnownDates | undefined;
}

/** Finishes the work of killed workers, lists what is sealed, and selects the dates. */
async function prepareExport(run: ExportRun, job: Job, options: RunOptions): Promise<ExportStart> {
  const finished = await finishLeftovers(run);
  const setAside = finished.setAside.map(({ date }) => date);
  const found = await readSelectionFacts(run.ledger, run.state, setAside);
  const facts = await mendDerived(run, job, found, setAside);
  const { sealed } = facts;
  reportDamage(run, facts.damaged);
  await removeLocalLeftovers(run, [...sealed].sort().at(-1));
  await assertOwnDataset(run, job, sealed);
  const before = await run.state.known.read();
  const notBeforeMs = before ? Date.parse(before.at) : undefined;
  const selection = selectDates(options.mode ?? 'unsealed', facts, options.range, notBeforeMs);
  await discardSealedStages(run, selection, sealed);
  return { finished, sealed, damaged: new Set(facts.damaged.keys()), selection, before };
}

function describePlan({ dates }: RunPlan): RunEvent {
  const rows = dates.map((planned) => planned.rows);
  return {
    kind: 'planned',
    dates: dates.map(({ date }) => date),
    rows: rows.includes(undefined) ? undefined : rows.reduce<number>((sum, one) => sum + (one ?? 0), 0),
    pages: dates.reduce((sum, { pages }) => sum + pages, 0),
  };
}

/** Compares the sealed dates that this run did not export with the source. */
async function auditOthers(
  run: ExportRun,
  { sealed, damaged }: ExportStart,
  exported: readonly DateResult[],
): Promise<Audited> {
  const done = new Set(exported.map(({ date }) => date));
  const dates = [...sealed].filter((date) => !done.has(date) && !damaged.has(date));
  // Limits found while auditing are kept as well.
  const audited = await auditSealed(run, run.opened, dates, exported).finally(() => saveLimits(run));
  const all = [...exported, ...audited.results];
  await discardOldFiles(
    run,
    all.toSorted((a, b) => (a.date < b.date ? -1 : 1)),
  );
  return audited;
}

interface ExportEnd {
  readonly options: RunOptions;
  readonly start: ExportStart;
  readonly plan: RunPlan;
  readonly exported: ExportedDates;
  readonly startedAtMs: number;
  readonly splits: number;
  /** After audits: what the export concluded. A loss that it found is still this run's news. */
  readonly before?: Conditions | undefined;
  /** After audits that restated nothing: the table has every revision. */
  readonly isTableCurrent?: boolean | undefined;
}

interface ConcludedExport {
  readonly result: RunResult;
  readonly updated: Conditions;
}

/** Updates the conditions and returns the result of the export. */
async function concludeExport(run: ExportRun, job: Job, end: ExportEnd): Promise<ConcludedExport> {
  const { source, limits } = run;
  const { start, plan, startedAtMs, splits } = end;
  const { results, held, open, audits = {} } = end.exported;
  const { range } = end.options;
  const known = { ...plan, held };
  const clocks = readClocks(run, plan.ends?.rowMs());
  logHeld(run, held, clocks);
  const staged = await listStages(run.engine, { withRows: true });
  const memory = { before: start.before, staged, range, audits };
  const found = await updateConditions(run.ledger, run.log, withHeld(known), memory);
  const { lostBefore, knownBefore, conditions: concluded } = end.before ?? found;
  // A condition that the audits have changed is news.
  const isKnown = (date: string) => concluded.get(date) === found.conditions.get(date);
  const updated = { ...found, lostBefore, knownBefore: new Set([...knownBefore].filter(isKnown)) };
  const { conditions, damaged } = updated;
  if (!end.isTableCurrent) await updateTable(run, job);
  const pending = [...conditions].filter(([, condition]) => condition === 'pending' && expires(job.source));
  const result: RunResult = {
    job: job.name,
    run_id: run.runId,
    dataset: job.drop.dataset,
    store: run.ledger.store.url,
    started_at: new Date(startedAtMs).toISOString(),
    finished_at: new Date(run.clock.now()).toISOString(),
    server_time: new Date(source.serverNow()).toISOString(),
    requests: source.stats.requests,
    retries: source.stats.retries,
    rate_limited: source.stats.rateLimited,
    splits,
    bytes: source.stats.bytes,
    row_limit: limits.rowLimit,
    dates: run.opened.kind === 'sql' ? results.filter(({ status }) => status !== 'missing') : [...results],
    audits,
    held,
    open: Object.fromEntries([...open].map(([date, atMs]) => [date, new Date(atMs).toISOString()])),
    clocks,
    named: range && describeNamed(range, known, start.selection, start.sealed),
    conditions: Object.fromEntries(conditions),
    damaged: Object.fromEntries([...damaged].filter(([date]) => isInRange(date, range))),
    ...findShortfall(updated, plan.lookback.clipped, range),
    expires: Object.fromEntries(pending.map(([date]) => [date, new Date(expiresAt(date)).toISOString()])),
  };
  return { result, updated };
}

/** Saves the result on this machine for `status` and the next run. */
async function recordResult(
  run: ExportRun,
  result: RunResult,
  results: readonly DateResult[],
  plan: RunPlan,
): Promise<void> {
  const { state } = run;
  await state.failures.change({}, (before) => addFailures(before, results, result.finished_at));
  await noteMissing(run, results, plan, result.server_time);
  const { finished_at: at, store, conditions } = result;
  await state.known.write({ at, store, conditions });
}

/** For snapshots only: where rows can be counted, one request covers all dates. */
async function noteMissing(
  { opened, source, state }: ExportRun,
  results: readonly DateResult[],
  { lookback }: RunPlan,
  askedAt: string,
): Promise<void> {
  if (opened.kind !== 'snapshots') return;
  const question = { url: source.url, symbols: opened.job.source.symbols };
  const asked = { askedAt, firstWhole: lookback.firstWhole };
  await state.unavailable.change({}, (before) => addUnavailable(before, results, question, asked));
}

/** Dates for which the source turned out to have no rows. */
function withoutMissing(plan: RunPlan, results: readonly DateResult[]): RunPlan {
  const missing = results.filter(({ status }) => status === 'missing').map(({ date }) => date);
  return {
    ...plan,
    dates: plan.dates.filter(({ date }) => !missing.includes(date)),
    empty: new Set([...plan.empty, ...missing]),
  };
}

/** Reports a wrong clock even if no date was held back this time: the next run may hold one back. */
function logHeld({ log }: ExportRun, held: readonly HeldDate[], { conflict, server, own }: ClockReading): void {
  if (conflict !== null)
    log.warn({ event: 'clocks-differ', server, own, reason: conflict }, `clocks differ: ${conflict}`);
  for (const { date, reason } of held) {
    log.warn({ event: 'date-held', date, reason }, `${date} is held back: ${reason}`);
  }
}

/** Two jobs with one dataset would each treat the other's dates as sealed. */
async function assertOwnDataset(run: ExportRun, job: Job, sealed: ReadonlySet<string>): Promise<void> {
  const newest = [...sealed].sort().at(-1);
  if (newest === undefined) return;
  const owner = (await run.ledger.validManifest(newest))?.job_id;
  if (owner === undefined || owner === job.name) return;
  throw new Fault(
    'DATASET_TAKEN',
    `${run.ledger.store.url}/${job.drop.dataset} belongs to the job "${owner}", not to "${job.name}"`,
    {
      kind: 'usage',
      hint: 'Give this job its own dataset (drop.dataset), or its old name back.',
    },
  );
}

/** A run that was killed after the manifest leaves a stage that is not needed, unless the date is to be restated. */
async function discardSealedStages(
  { engine }: ExportRun,
  selection: DateSelection,
  sealed: ReadonlySet<string>,
): Promise<void> {
  for (const date of await listStages(engine)) {
    if (sealed.has(date) && !selection.isWanted(date)) await discardStages(engine, date);
  }
}
