/**
 * Which of a plan's dates without rows have rows in the table, but none that meets the job's own condition or SQL. They are
 * no gap, and nothing is lost when they expire. Costs one request, at most two, and only if such a date is new. Invariant:
 * a source that may still be loading a date, or that does not answer, says nothing about it.
 */
import { describeError, isFault } from '../core/errors.ts';
import type { ServerSource, SqlSource } from '../job/job.ts';
import type { Condition } from '../plan/conditions.ts';
import { buildDatesWithRows } from '../plan/statement.ts';
import type { ExportRun } from '../run/run.ts';
import { SourceFault } from '../source/source.ts';
import { doClocksAgree } from './clocks.ts';
import type { RunPlan } from './export-plan.ts';
import { buildTableDates } from './server-table/table-statement.ts';
import { isRefusal } from './trades/session-ends.ts';

/** @param before conditions that the last run left */
export async function withUnmatched(
  run: ExportRun,
  plan: RunPlan,
  before: Readonly<Record<string, Condition>> = {},
): Promise<RunPlan> {
  const { opened, log } = run;
  if (opened.kind === 'snapshots' || !canLeaveOut(opened.job.source)) return plan;
  const dates = [...plan.empty].sort();
  const fresh = dates.filter((date) => before[date] !== 'empty');
  const unmatched = new Set(dates.filter((date) => before[date] === 'empty'));
  let unknown: readonly string[] = [];
  try {
    const present = fresh.length === 0 ? [] : await listPresent(run, fresh);
    const newest = [...present, ...plan.dates.map(({ date }) => date)].sort().at(-1) ?? '';
    for (const date of present) {
      if (date < newest || (await isOver(run, plan, date))) unmatched.add(date);
      else unknown = [...unknown, date];
    }
  } catch (error) {
    if (!isFault(error) || error.kind === 'interrupted') throw error;
    const reason = describeError(error);
    log.warn(
      { event: 'empty-unknown', dates: fresh, reason },
      `no row of ${fresh.join(', ')} meets the job's condition, and whether the table has others is unknown: ${reason}`,
    );
    unknown = fresh;
  }
  return { ...plan, empty: new Set(dates.filter((date) => !unknown.includes(date))), unmatched };
}

function canLeaveOut(source: SqlSource | ServerSource): boolean {
  return ('where' in source && source.where !== '') || ('sql' in source && source.sql !== '');
}

/** Dates of which the table has rows, whatever the job's condition. */
async function listPresent(run: ExportRun, dates: readonly string[]): Promise<readonly string[]> {
  const { opened, signal } = run;
  if (opened.kind === 'table') {
    const { types } = await opened.source.describe(signal);
    const all = buildTableDates({ ...opened.job.source, where: '' }, types, dates[0] ?? '', dates.at(-1) ?? '');
    const found = await opened.source.rows<{ d: string }>(all, { signal });
    return dates.filter((date) => found.some(({ d }) => d === date));
  }
  if (opened.kind === 'snapshots') return [];
  try {
    const { firstRow } = await opened.source.ask(buildDatesWithRows(opened.job, dates), { signal });
    const found: unknown = firstRow?.['dates'];
    return Array.isArray(found) ? dates.filter((date) => found.includes(date)) : dates;
  } catch (error) {
    // Too many rows to count are rows.
    if (error instanceof SourceFault && isRefusal(error)) return dates;
    throw error;
  }
}

/** Whether the source shows that its newest date is over; of a server's own table the next run asks again. */
async function isOver(run: ExportRun, { ends }: RunPlan, date: string): Promise<boolean> {
  const { opened, signal } = run;
  if (ends === undefined || opened.kind !== 'sql' || run.clockRule === 'source') return true;
  return (await ends.explain({ source: opened.source, signal }, date, date, doClocksAgree(run))) === undefined;
}
