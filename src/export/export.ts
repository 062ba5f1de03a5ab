/**
 * The export of a job: plan, then for each unsealed date, soonest expiry first: fetch, recount, seal; the audits of the other
 * dates come after, when the caller asks for them. Invariant: a failed date does not stop the others, unless the query or the
 * key is wrong. Staged and sealed rows are always kept, and the next call goes on from there.
 */

import { isSession, listSessions } from '../calendar/session.ts';
import { addDays, type DateRange, isInRange } from '../calendar/wall-clock.ts';
import { updateCatalog } from '../catalog/rest-catalog.ts';
import { describeError, Fault } from '../core/errors.ts';
import { commitTable } from '../ledger/iceberg/table.ts';
import { type Conditions, findShortfall, noteRows, updateConditions } from '../ledger/update-conditions.ts';
import { expires, expiresAt } from '../plan/dates.ts';
import type { OpenedSource } from '../run/open-source.ts';
import type { ExportRun } from '../run/run.ts';
import { API_DOWN_CODES } from '../source/source.ts';
import { discardStages, listStages } from '../stage/stage-table.ts';
import { addUnavailable } from '../state/job-state.ts';
import type { RunEvent } from '../state/run-events.ts';
import type { DateResult, NamedDates, RunResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { type DateSource, type ExportPlan, withHeld } from './date-source.ts';
import { discardOldFiles, exportPlanned, saveLimits } from './export-dates.ts';
import { finishLeftovers, mendDerived, removeLocalLeftovers } from './leftovers.ts';
import { type BackfillMode, type DateSelection, readStoredDates, selectDates } from './select-dates.ts';
import { TableDates } from './server-table/table-dates.ts';
import { SnapshotDates } from './snapshots/snapshot-dates.ts';
import { TradeDates } from './trades/trade-dates.ts';

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
export async function runExport(given: ExportRun, options: RunOptions = {}): Promise<ExportedJob> {
  let splits = 0;
  const run: ExportRun = {
    ...given,
    onEvent: (event) => {
      if (event.kind === 'split') splits += 1;
      given.onEvent(event);
    },
  };
  const { ledger, log, state, source, opened, clocks, onEvent } = run;
  const { job } = opened;
  const { range, mode } = options;
  const startedAtMs = run.clock.now();
  onEvent({ kind: 'phase', date: '', phase: 'planning' });
  const start = await prepareExport(run, options);
  const dates = openDates(opened);
  const plan = await dates.plan(start.selection, run);
  await saveLimits(run);
  await noteRows(ledger, log, job, withHeld(plan));
  onEvent(describePlan(plan));
  const exported = await exportPlanned(run, dates, plan, start.finished, start.selection.sealed);
  const { held } = exported;
  const turnedOut = withoutMissing({ ...plan, held }, exported.results);
  const known = await withUnmatched(run, dates, turnedOut, start.before?.conditions);

  /**
   * Updates the conditions, and saves the result on this machine for `status` and the next run.
   * @param news results that are not saved yet @param before what the export concluded: a loss that it found is still this
   *   run's news
   */
  const conclude = async (
    results: readonly DateResult[],
    news: readonly DateResult[],
    audits: RunResult['audits'],
    before?: Conditions,
  ) => {
    const read = clocks.read();
    logHeld(run, held, read);
    const staged = await listStages(run.engine, { withRows: true });
    const memory = { before: start.before, staged, range, audits };
    const found = await updateConditions(ledger, log, withHeld(known), memory);
    const { lostBefore, knownBefore, conditions: concluded } = before ?? found;
    // A condition that the audits have changed is news.
    const isKnown = (date: string) => concluded.get(date) === found.conditions.get(date);
    const updated = { ...found, lostBefore, knownBefore: new Set([...knownBefore].filter(isKnown)) };
    const { conditions, damaged } = updated;
    if (before === undefined || news.length > 0) await updateTable(run);
    const pending = [...conditions].filter(([, condition]) => condition === 'pending' && expires(job.source));
    const { requests, retries, rateLimited, bytes } = source.stats;
    const result: RunResult = {
      job: job.name,
      run_id: run.runId,
      dataset: job.drop.dataset,
      store: ledger.store.url,
      started_at: new Date(startedAtMs).toISOString(),
      finished_at: new Date(run.clock.now()).toISOString(),
      server_time: new Date(source.serverNow()).toISOString(),
      ...{ requests, retries, rate_limited: rateLimited, splits, bytes, row_limit: run.limits.rowLimit },
      dates: results.filter(({ status, missing }) => status !== 'missing' || missing !== undefined),
      audits,
      held,
      open: Object.fromEntries([...exported.open].map(([date, atMs]) => [date, new Date(atMs).toISOString()])),
      clocks: read,
      named: range && describeNamed(range, known, start.selection),
      conditions: Object.fromEntries(conditions),
      damaged: Object.fromEntries([...damaged].filter(([date]) => isInRange(date, range))),
      ...findShortfall(updated, plan.lookback.clipped, range),
      expires: Object.fromEntries(pending.map(([date]) => [date, new Date(expiresAt(date)).toISOString()])),
    };
    const { question } = dates;
    if (question !== undefined) {
      const asked = { askedAt: result.server_time, firstWhole: plan.lookback.firstWhole };
      const unavailable = (await state.unavailable.read()) ?? {};
      await state.unavailable.write(addUnavailable(unavailable, news, question, asked));
    }
    await state.known.write({ at: result.finished_at, store: result.store, conditions: result.conditions });
    return { result, updated };
  };

  const { result, updated } = await conclude(exported.results, exported.results, {});
  const isDown = exported.results.some(({ error }) => error && API_DOWN_CODES.has(error.code));
  // A backfill does only what it was asked for.
  const compare = dates.audit?.bind(dates);
  if (range !== undefined || mode !== undefined || isDown || compare === undefined) return { result };
  const audit = async () => {
    const done = new Set(exported.results.map(({ date }) => date));
    const others = [...start.selection.sealed].filter((date) => !done.has(date) && !start.damaged.has(date));
    // Limits found while auditing are kept as well.
    const { audits, results } = await compare(run, others, exported.results).finally(() => saveLimits(run));
    const all = [...exported.results, ...results];
    await discardOldFiles(run, all);
    if (Object.keys(audits).length === 0 && results.length === 0) return result;
    return (await conclude(all, results, audits, updated)).result;
  };
  return { result, audit };
}

/** Finishes the work of killed workers, lists what is sealed, and selects the dates. */
async function prepareExport(run: ExportRun, { mode = 'unsealed', range }: RunOptions) {
  const { ledger, state, history, engine } = run;
  const finished = await finishLeftovers(run);
  const stored = await readStoredDates(ledger, state, history);
  const { sealed } = stored;
  const damaged = await mendDerived(run, stored.damaged);
  const setAside = finished.setAside.flatMap(({ date }) => (sealed.has(date) ? [date] : []));
  const again = new Set([...damaged.keys(), ...setAside]);
  const newest = [...sealed].sort().at(-1);
  await removeLocalLeftovers(run, newest);
  if (newest !== undefined) await assertOwnDataset(run, newest);
  const before = await state.known.read();
  const selection = selectDates(mode, { ...stored, again }, range, before ? Date.parse(before.at) : undefined);
  // A run that was killed after the manifest leaves a stage that is not needed, unless the date is to be restated.
  for (const date of await listStages(engine)) {
    if (sealed.has(date) && !selection.isWanted(date)) await discardStages(engine, date);
  }
  return { finished, damaged: new Set(damaged.keys()), selection, before };
}

/** Two jobs with one dataset would each treat the other's dates as sealed. */
async function assertOwnDataset({ ledger, opened }: ExportRun, newest: string): Promise<void> {
  const { name, drop } = opened.job;
  const owner = (await ledger.validManifest(newest))?.job_id;
  if (owner === undefined || owner === name) return;
  throw new Fault(
    'DATASET_TAKEN',
    `${ledger.store.url}/${drop.dataset} belongs to the job "${owner}", not to "${name}"`,
    { kind: 'usage', hint: 'Give this job its own dataset (drop.dataset), or its old name back.' },
  );
}

function describePlan({ dates }: ExportPlan): RunEvent {
  const rows = dates.map((planned) => planned.rows);
  return {
    kind: 'planned',
    dates: dates.map(({ date }) => date),
    rows: rows.includes(undefined) ? undefined : rows.reduce<number>((sum, one) => sum + (one ?? 0), 0),
    pages: dates.reduce((sum, { pages }) => sum + pages, 0),
  };
}

/** Without the dates for which the source turned out to have no rows. */
function withoutMissing(plan: ExportPlan, results: readonly DateResult[]): ExportPlan {
  const missing = results.filter(({ status }) => status === 'missing').map(({ date }) => date);
  return {
    ...plan,
    dates: plan.dates.filter(({ date }) => !missing.includes(date)),
    empty: new Set([...plan.empty, ...missing]),
  };
}

/**
 * Which of a plan's dates without rows have rows in the table, but none that meets the job's own condition or SQL. They are
 * no gap, and nothing is lost when they expire. Costs one request, at most two, and only if such a date is new. Invariant:
 * a source that may still be loading a date, or that does not answer, says nothing about it.
 * @param before conditions that the last run left
 */
async function withUnmatched(
  run: ExportRun,
  dates: DateSource,
  plan: ExportPlan,
  before: RunResult['conditions'] = {},
): Promise<ExportPlan> {
  const { opened, log } = run;
  const { source } = opened.job;
  const canLeaveOut = ('where' in source && source.where !== '') || ('sql' in source && source.sql !== '');
  const findPresent = dates.findPresent?.bind(dates);
  if (!canLeaveOut || findPresent === undefined) return plan;
  const empty = [...plan.empty].sort();
  const fresh = empty.filter((date) => before[date] !== 'empty');
  const newest = plan.dates.map(({ date }) => date).sort();
  const find = async () => {
    return fresh.length === 0 ? { over: [], unsure: [] } : await findPresent(fresh, newest.at(-1) ?? '');
  };
  const { over, unsure } = await attempt<Awaited<ReturnType<typeof findPresent>>>(find, (error) => {
    const reason = describeError(error);
    log.warn(
      { event: 'empty-unknown', dates: fresh, reason },
      `no row of ${fresh.join(', ')} meets the job's condition, and whether the table has others is unknown: ${reason}`,
    );
    return { over: [], unsure: fresh };
  });
  const unmatched = new Set([...empty.filter((date) => before[date] === 'empty'), ...over]);
  return { ...plan, empty: new Set(empty.filter((date) => !unsure.includes(date))), unmatched };
}

/** Reports a wrong clock even if no date was held back this time: the next run may hold one back. */
function logHeld({ log }: ExportRun, held: RunResult['held'], { conflict, server, own }: RunResult['clocks']): void {
  if (conflict !== null)
    log.warn({ event: 'clocks-differ', server, own, reason: conflict }, `clocks differ: ${conflict}`);
  for (const { date, reason } of held) {
    log.warn({ event: 'date-held', date, reason }, `${date} is held back: ${reason}`);
  }
}

/**
 * Why named dates were not exported: sealed before, no session, no rows, not over yet. Invariant: every named date is
 * reported. @param plan as it turned out: dates without rows are no longer in it
 */
function describeNamed(
  range: DateRange,
  { dates, empty, lookback, held }: ExportPlan,
  { isWanted, sealed }: DateSelection,
): NamedDates {
  const { lastSettled = '', calendar } = lookback;
  const planned = new Set([...dates, ...held].map(({ date }) => date));
  const sessions = listSessions(range.from, range.to, calendar);
  // A sealed date that was exported again is already among the results.
  const left = sessions.filter((date) => isWanted(date) && !planned.has(date));
  // A table lists all of its dates in one answer.
  const isEmpty = (date: string) => empty.has(date) || (lookback.edge === '' && date <= lastSettled);
  const days: string[] = [];
  for (let date = range.from; date <= range.to; date = addDays(date, 1)) days.push(date);
  return {
    sealed: [...sealed].filter((date) => isInRange(date, range) && !planned.has(date)).sort(),
    no_session: days.filter((date) => !isSession(date, calendar) && !planned.has(date) && !sealed.has(date)),
    no_rows: left.filter(isEmpty),
    not_over: left.filter((date) => !isEmpty(date)),
  };
}

/**
 * The last step of an export of a job with `drop.table`: commits what is sealed to the table, and the table to the catalog
 * of `drop.catalog`. A failure fails no run: the drops are sealed, and the next run commits them too. Call it after the
 * conditions are written. @throws Fault of kind `interrupted`, `STORE_CHANGED`
 */
async function updateTable({ ledger, log, clock, catalog, opened, signal }: ExportRun): Promise<void> {
  if (opened.job.drop.table === null) return;
  const { dataset } = ledger;
  const commit = async () => {
    const { version, dates, unfit } = await commitTable(ledger, clock.now());
    for (const [date, reason] of unfit) log.warn({ event: 'table-unfit', dataset, date, reason }, reason);
    if (dates.length > 0)
      log.info(
        { event: 'table-committed', dataset, version, dates },
        `${dataset}: version ${version} of its Iceberg table`,
      );
  };
  await attempt(commit, ({ message: reason, hint }) =>
    log.warn(
      { event: 'table-uncommitted', dataset, reason, hint },
      `${dataset}: its Iceberg table was not updated, the next run tries again: ${reason}`,
    ),
  );
  if (catalog === undefined) return;
  const { place } = catalog;
  const register = async () => {
    const done = await updateCatalog(ledger.store, dataset, catalog, signal);
    if (done === 'none' || done === 'current') return;
    log.info({ event: 'catalog-committed', dataset, place, done }, `${dataset}: ${done} in the catalog ${place}`);
  };
  await attempt(register, ({ message: reason, hint }) =>
    log.warn(
      { event: 'catalog-uncommitted', dataset, place, reason, hint },
      `${dataset}: the catalog was not updated, the next run tries again: ${reason}`,
    ),
  );
}

/** The one place that asks of which kind the source of a job is. */
export function openDates(opened: OpenedSource): DateSource {
  switch (opened.kind) {
    case 'sql':
      return new TradeDates(opened);
    case 'snapshots':
      return new SnapshotDates(opened);
    case 'table':
      return new TableDates(opened);
    default:
      return opened satisfies never;
  }
}
