/**
 * The planned dates of a run, each exported by itself. Invariant: one that fails does not stop the others, unless its error
 * means that they fail too: a wrong query or key, an interruption, a store that has changed, an API that is down.
 */
import { rm } from 'node:fs/promises';
import { assertNotAborted } from '../core/errors.ts';
import type { Finished } from '../ledger/finish.ts';
import type { HeldDate } from '../plan/witness.ts';
import type { ExportRun } from '../run/run.ts';
import { API_DOWN_CODES } from '../source/source.ts';
import type { DateResult, RunResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { findConflict } from './clocks.ts';
import type { PlannedDate, RunPlan } from './export-plan.ts';
import { describeSealedDate, type ExportOutcome, type HeldBack, type OpenDate } from './exported.ts';
import { describeFault, listUnfinished } from './leftovers.ts';
import { exportTable } from './server-table/table-date.ts';
import { exportSnapshots } from './snapshots/snapshot-date.ts';
import { exportTrades } from './trades/trades.ts';

export interface ExportedDates {
  readonly results: readonly DateResult[];
  readonly held: readonly HeldDate[];
  readonly open: ReadonlyMap<string, number>;
  readonly audits?: RunResult['audits'];
}

/** The planned dates, one after the other. */
export async function exportPlanned(
  run: ExportRun,
  plan: RunPlan,
  { finished, sealed }: { readonly finished: Finished; readonly sealed: ReadonlySet<string> },
): Promise<ExportedDates> {
  const planned = new Set(plan.dates.map(({ date }) => date));
  const results = [...listUnfinished(finished, planned, (error) => describeFault(error, run.redact))];
  const held = [...plan.held];
  const open = new Map(plan.open);
  for (const one of plan.dates) {
    // Limits found while exporting are kept even when the date fails.
    const result = await runDate(run, one, sealed.has(one.date), plan).finally(() => saveLimits(run));
    if ('settlesAtMs' in result) open.set(one.date, result.settlesAtMs);
    else if ('held' in result) held.push({ date: one.date, reason: result.held });
    else results.push(result);
    // Every window has used up its retries: the other dates would wait for the same API.
    if ('error' in result && result.error !== undefined && API_DOWN_CODES.has(result.error.code)) break;
  }
  await discardOldFiles(run, results);
  return { results, held, open };
}

async function runDate(
  run: ExportRun,
  planned: PlannedDate,
  restate: boolean,
  plan: RunPlan,
): Promise<DateResult | HeldBack | OpenDate> {
  const { source, onEvent } = run;
  const { date } = planned;
  const requestsBefore = source.stats.requests;
  const seal = async (): Promise<DateResult | HeldBack | OpenDate> => {
    assertNotAborted(run.signal);
    const exported = await exportDate(run, planned, restate, plan);
    if ('settlesAtMs' in exported || 'held' in exported) return exported;
    const { published, missing } = exported;
    const requests = source.stats.requests - requestsBefore;
    const lacking = missing.length > 0 ? { missing } : {};
    if (published === undefined) return { date, status: 'missing', rows: 0, requests, ...lacking };
    return { ...describeSealedDate(run, published, requests), ...lacking };
  };
  return await attempt(seal, (error) => {
    // A wrong query or key fails every date.
    if (error.kind === 'usage') throw error;
    const { redact } = run;
    run.log.error(
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
  });
}

/** The newest drop's local file is kept for the report; the others are in the store. */
export async function discardOldFiles(run: ExportRun, results: readonly DateResult[]): Promise<void> {
  const done = results.filter(({ status }) => status !== 'failed' && status !== 'missing').map(({ date }) => date);
  for (const date of done.slice(0, -1)) await rm(run.state.drop(date), { force: true });
}

/** For the next run of any job with the same query. */
export async function saveLimits(run: ExportRun): Promise<void> {
  const { limits, source, clock } = run;
  // When clocks differ, nobody knows which is wrong: the next run starts with its own clock.
  limits.clockOffsetMs = findConflict(run) === undefined ? source.serverNow() - clock.now() : 0;
  limits.answerMs = source.stats.answerMs || limits.answerMs;
  await limits.save();
}

/**
 * @param restate whether the date is sealed already
 * @param plan that the date is of
 * @throws Fault when the date cannot be sealed; staged rows are kept
 */
async function exportDate(
  run: ExportRun,
  planned: PlannedDate,
  restate: boolean,
  plan: RunPlan,
): Promise<ExportOutcome> {
  const { opened } = run;
  switch (opened.kind) {
    case 'sql':
      return await exportTrades(run, opened, planned, restate, plan);
    case 'snapshots':
      return await exportSnapshots(run, opened, planned, restate);
    case 'table':
      return await exportTable(run, opened, planned, restate);
    default:
      return opened satisfies never;
  }
}
