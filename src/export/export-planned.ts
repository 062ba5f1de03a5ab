/**
 * The planned dates of a run, each exported by itself. Invariant: one that fails does not stop the others, unless its error
 * means that they fail too: a wrong query or key, an interruption, a store that has changed, an API that is down.
 */
import { rm } from 'node:fs/promises';
import { assertNotAborted, isFault } from '../core/errors.ts';
import type { Finished } from '../ledger/finish.ts';
import type { HeldDate } from '../plan/witness.ts';
import type { DateResult, RunResult } from '../state/run-result.ts';
import { isStoreChange } from '../store/identity.ts';
import { API_DOWN_CODES } from './api-down.ts';
import { findConflict } from './clocks.ts';
import type { ExportContext } from './export-context.ts';
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
  context: ExportContext,
  plan: RunPlan,
  { finished, sealed }: { readonly finished: Finished; readonly sealed: ReadonlySet<string> },
): Promise<ExportedDates> {
  const planned = new Set(plan.dates.map(({ date }) => date));
  const results = [...listUnfinished(finished, planned, (error) => describeFault(error, context.redact))];
  const held = [...plan.held];
  const open = new Map(plan.open);
  for (const one of plan.dates) {
    // Limits found while exporting are kept even when the date fails.
    const result = await runDate(context, one, sealed.has(one.date), plan).finally(() => saveLimits(context));
    if ('settlesAtMs' in result) open.set(one.date, result.settlesAtMs);
    else if ('held' in result) held.push({ date: one.date, reason: result.held });
    else results.push(result);
    // Every window has used up its retries: the other dates would wait for the same API.
    if ('error' in result && result.error !== undefined && API_DOWN_CODES.has(result.error.code)) break;
  }
  await discardOldFiles(context, results);
  return { results, held, open };
}

async function runDate(
  context: ExportContext,
  planned: PlannedDate,
  restate: boolean,
  plan: RunPlan,
): Promise<DateResult | HeldBack | OpenDate> {
  const { source, onEvent } = context;
  const { date } = planned;
  const requestsBefore = source.stats.requests;
  try {
    assertNotAborted(context.signal);
    const exported = await exportDate(context, planned, restate, plan);
    if ('settlesAtMs' in exported || 'held' in exported) return exported;
    const { published, missing } = exported;
    const requests = source.stats.requests - requestsBefore;
    const lacking = missing.length > 0 ? { missing } : {};
    if (published === undefined) return { date, status: 'missing', rows: 0, requests, ...lacking };
    return { ...describeSealedDate(context, published, requests), ...lacking };
  } catch (error) {
    // A wrong query or key fails every date, and an interruption is not the date's fault.
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

/** The newest drop's local file is kept for the report; the others are in the store. */
export async function discardOldFiles(context: ExportContext, results: readonly DateResult[]): Promise<void> {
  const done = results.filter(({ status }) => status !== 'failed' && status !== 'missing').map(({ date }) => date);
  for (const date of done.slice(0, -1)) await rm(context.state.drop(date), { force: true });
}

/** For the next run of any job with the same query. */
export async function saveLimits(context: ExportContext): Promise<void> {
  const { limits, source, clock } = context;
  // When clocks differ, nobody knows which is wrong: the next run starts with its own clock.
  limits.clockOffsetMs = findConflict(context) === undefined ? source.serverNow() - clock.now() : 0;
  limits.answerMs = source.stats.answerMs || limits.answerMs;
  await limits.save();
}

/**
 * @param restate whether the date is sealed already
 * @param plan that the date is of
 * @throws Fault when the date cannot be sealed; staged rows are kept
 */
async function exportDate(
  context: ExportContext,
  planned: PlannedDate,
  restate: boolean,
  plan: RunPlan,
): Promise<ExportOutcome> {
  const { opened } = context;
  switch (opened.kind) {
    case 'sql':
      return await exportTrades(context, opened, planned, restate, plan);
    case 'snapshots':
      return await exportSnapshots(context, opened, planned, restate);
    case 'table':
      return await exportTable(context, opened, planned, restate);
    default:
      return opened satisfies never;
  }
}
