/**
 * What is odd about a date beside the sessions before it: the checks `baseline` of the job, and of every job `new-nulls`.
 */
import { dirname, join } from 'node:path';
import { isHalfDay, previousSessions } from '../calendar/session.ts';
import { formatCount, formatPercent } from '../core/units.ts';
import type { BaselineCheck } from '../job/job.ts';
import type { CheckResult, Manifest } from '../ledger/manifest.ts';
import type { ExportRun } from '../run/run.ts';
import { type DayShape, judgeBaseline } from '../seal/baseline.ts';
import { readShape } from '../seal/summary.ts';

/** What the manifest of a date says, or will say. */
type NullCounts = Pick<Manifest, 'date' | 'rows' | 'statistics'>;

/** Sessions before the date among which those to compare with are looked for, for each one wanted. */
const BASELINE_REACH = 3;

/**
 * Fetches the summaries of the sessions before a date that is about to be sealed, some kilobytes each.
 * @param summaryPath its own summary on this disk
 * @returns one result for each check `baseline` of the job
 */
export async function compareWithBaseline(
  run: ExportRun,
  day: NullCounts,
  summaryPath: string,
): Promise<readonly CheckResult[]> {
  const checks = run.opened.job.checks.filter((check): check is BaselineCheck => check.check === 'baseline');
  if (checks.length === 0) return [];
  const most = Math.max(...checks.map(({ sessions }) => sessions));
  const past = await readPast(run, day.date, most, join(dirname(summaryPath), 'baseline.parquet'));
  const today = await readShape(run.engine, day, summaryPath);
  return checks.map((check) => judgeBaseline(check, today, past.slice(0, check.sessions), run.calendar));
}

/** Newest first. A session that is degraded, a half day, or damaged is not compared with. */
async function readPast(run: ExportRun, date: string, count: number, path: string): Promise<readonly DayShape[]> {
  const { engine, ledger, calendar, log, signal } = run;
  const [earliest = date] = previousSessions(date, count * BASELINE_REACH + 1, calendar);
  const sealed = await ledger.dates();
  const before = sealed.filter((other) => other < date && other >= earliest && !isHalfDay(other, calendar)).reverse();
  const past: DayShape[] = [];
  for (const other of before) {
    if (past.length === count) break;
    const manifest = await ledger.validManifest(other);
    if (manifest?.condition !== 'available' || manifest.summary === null) continue;
    const read = async (at: string) => await readShape(engine, manifest, at);
    const shape = await ledger.withFile(manifest, manifest.summary, path, read, signal);
    if (shape !== undefined) past.push(shape);
    else {
      const reason = `its ${manifest.summary} is missing in the store, or has other bytes`;
      log.warn({ event: 'baseline-left-out', date: other, reason }, `${date} is not compared with ${other}: ${reason}`);
    }
  }
  return past;
}

/** Share of a column's values: more are a finding, in a column that had at most so few in each session before. */
const MOST = 0.01;
const WHOLE = 0.001;
/** Sessions that are compared with, and those among which they are looked for. */
const SESSIONS = 3;
const REACH = 5;

/**
 * Nulls in a column that was whole before: the rows are complete, but the vendor's model or reference data failed. A column
 * that has often been null is no finding, nor is one that has no earlier session, unless its nulls are values that could not
 * be read or that the contract does not allow.
 * @param known columns that another check reports already
 * @returns one failed result, or none
 * @throws StoreFault
 */
export async function findNewNulls(
  { ledger, calendar }: ExportRun,
  day: NullCounts & { readonly nulls: readonly { readonly column: string; readonly rows: number }[] },
  known: readonly (string | undefined)[],
): Promise<readonly CheckResult[]> {
  const names = day.statistics.map(({ column }) => column);
  let columns = names.filter((name) => shareOf(day, name) > MOST && !known.includes(name));
  const past: NullCounts[] = [];
  for (const date of previousSessions(day.date, REACH + 1, calendar).toReversed()) {
    if (columns.length === 0 || past.length === SESSIONS) break;
    const manifest = date === day.date ? undefined : await ledger.validManifest(date);
    if (manifest === undefined || manifest.rows === 0) continue;
    past.push(manifest);
    columns = columns.filter((name) => shareOf(manifest, name) <= WHOLE);
  }
  // Others may be as they always are.
  const unread = (name: string) => day.nulls.reduce((sum, { column, rows }) => sum + (column === name ? rows : 0), 0);
  const found = (name: string) => (past.length > 0 ? shareOf(day, name) : unread(name) / day.rows);
  columns = columns.filter((name) => found(name) > MOST);
  if (columns.length === 0) return [];
  const percent = (share: number) => formatPercent(share, share < WHOLE ? 3 : 1);
  const findings = columns.map((column) => {
    const share = found(column);
    const usual = Math.max(0, ...past.map((other) => shareOf(other, column)));
    const before = past.length === 0 ? '' : `, before ${usual === 0 ? 'none' : percent(usual)}`;
    const says = `${percent(share)} of rows have no ${column} (${formatCount(share * day.rows)} of ${formatCount(day.rows)})${before}`;
    return { about: 'nulls', column, found: share, usual, says };
  });
  const sessions = past.map(({ date }) => date);
  return [
    { check: 'new-nulls', on_failure: 'warn', passed: false, found: findings.length, allowed: 0, findings, sessions },
  ];
}

function shareOf({ rows, statistics }: NullCounts, name: string): number {
  return rows === 0 ? 0 : (statistics.find(({ column }) => column === name)?.nulls ?? 0) / rows;
}
