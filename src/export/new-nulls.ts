/**
 * Nulls in a column that was whole before: the rows are complete, but the vendor's model or reference data failed. A warning
 * of every job, in the manifest as the check `new-nulls`. A column that has often been null is no finding, nor is one that
 * has no earlier session, unless its nulls are values that could not be read or that the contract does not allow.
 */

import { previousSessions } from '../calendar/session.ts';
import { formatCount } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import type { CheckResult, Manifest } from '../ledger/manifest.ts';
import type { ExportRun } from '../run/run.ts';

type NullCounts = Pick<Manifest, 'date' | 'rows' | 'statistics'>;

/** Share of a column's values: more are a finding, in a column that had at most so few in each session before. */
const MOST = 0.01;
const WHOLE = 0.001;
/** Sessions that are compared with, and those among which they are looked for. */
const SESSIONS = 3;
const REACH = 5;

/**
 * @param known columns that another check reports already
 * @returns one failed result, or none
 * @throws StoreFault
 */
export async function findNewNulls(
  deps: Pick<ExportRun, 'ledger' | 'calendar'>,
  _job: Job,
  day: NullCounts & { readonly nulls: readonly { readonly column: string; readonly rows: number }[] },
  known: readonly (string | undefined)[],
): Promise<readonly CheckResult[]> {
  const names = day.statistics.map(({ column }) => column);
  let columns = names.filter((name) => shareOf(day, name) > MOST && !known.includes(name));
  const past: NullCounts[] = [];
  for (const date of previousSessions(day.date, REACH + 1, deps.calendar).toReversed()) {
    if (columns.length === 0 || past.length === SESSIONS) break;
    const manifest = date === day.date ? undefined : await deps.ledger.validManifest(date);
    if (manifest === undefined || manifest.rows === 0) continue;
    past.push(manifest);
    columns = columns.filter((name) => shareOf(manifest, name) <= WHOLE);
  }
  // Others may be as they always are.
  const unread = (name: string) => day.nulls.reduce((sum, { column, rows }) => sum + (column === name ? rows : 0), 0);
  const found = (name: string) => (past.length > 0 ? shareOf(day, name) : unread(name) / day.rows);
  columns = columns.filter((name) => found(name) > MOST);
  if (columns.length === 0) return [];
  const findings = columns.map((column) => {
    const share = found(column);
    const usual = Math.max(0, ...past.map((other) => shareOf(other, column)));
    const before = past.length === 0 ? '' : `, before ${usual === 0 ? 'none' : formatPercent(usual)}`;
    const says = `${formatPercent(share)} of "${column}" are null (${formatCount(Math.round(share * day.rows))} of ${formatCount(day.rows)})${before}`;
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

function formatPercent(share: number): string {
  return `${(share * 100).toFixed(share < WHOLE ? 3 : 1)}%`;
}
