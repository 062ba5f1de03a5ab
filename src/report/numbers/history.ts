/**
 * The sessions before a date, read from the summaries beside their drops: some kilobytes a session, never the sessions
 * themselves. Invariant: columns are read by name, and a summary of an older definition, whose sums have cancel messages
 * and late reports in them, is not compared with a day that leaves them out.
 */
import { quoteString } from '../../engine/literal.ts';
import type { DropSource } from '../source.ts';
import { type EngineNumber, readNumber } from './premium.ts';

/** Sessions in the mean. */
export const MEAN_SESSIONS = 5;

/** The row of all symbols in a summary. */
const ALL = '';

/** What is read of a summary; a column that the file does not have is null. */
const COLUMNS = [
  'trades',
  'contracts',
  'call_contracts',
  'put_contracts',
  'total_premium',
  'call_premium',
  'put_premium',
  'net_call_premium',
  'net_put_premium',
  'bullish_premium',
  'bearish_premium',
  'neutral_premium',
  'zero_dte_premium',
  'multi_leg_premium',
  'sweep_premium',
  'volume_above_oi_premium',
  // Only summaries of counted records have it.
  'recorded_trades',
] as const;

export type SessionTotals = Readonly<Record<(typeof COLUMNS)[number], number | null>>;

export interface PastSession {
  readonly date: string;
  /** Local file of its summary. */
  readonly path: string;
  /** Its drop is degraded: the sums may lack trades. */
  readonly isDegraded?: boolean;
}

/** A session that can be compared with, and its totals. */
export interface ComparableSession extends PastSession {
  readonly totals: SessionTotals;
}

export interface History {
  /** Newest first. */
  readonly sessions: readonly ComparableSession[];
  /** The session before the date; null when there is none, or none that can be compared with. */
  readonly previous: ComparableSession | null;
}

/** @param before newest first; more than `MEAN_SESSIONS` are not looked at */
export async function queryHistory(source: DropSource, before: readonly PastSession[]): Promise<History> {
  const past = before.slice(0, MEAN_SESSIONS);
  if (past.length === 0) return { sessions: [], previous: null };
  const rows = await source.rows<Readonly<Record<keyof SessionTotals, EngineNumber>> & { readonly session: number }>(
    past
      .map(
        (session, index) =>
          `SELECT ${index} AS session, * FROM ${summaryOf(session)} WHERE symbol = ${quoteString(ALL)}`,
      )
      .join(' UNION ALL '),
  );
  const sessions = past.flatMap((session, index) => {
    const totals = rows.find((row) => row.session === index);
    return totals === undefined || totals.recorded_trades === null ? [] : [{ ...session, totals: readTotals(totals) }];
  });
  return { sessions, previous: sessions.find(({ date }) => date === past[0]?.date) ?? null };
}

function readTotals(row: Readonly<Record<keyof SessionTotals, EngineNumber>>): SessionTotals {
  const entries = COLUMNS.map((name) => [name, readNumber(row[name])]);
  return Object.fromEntries(entries) as SessionTotals; // One entry for each of COLUMNS.
}

/**
 * A query for the symbols of the sessions: `symbol`, `mean` premium (a session without the symbol counts as 0), `previous`
 * premium (of the session before), and in how many `sessions` it traded.
 */
export function buildSymbolHistory({ sessions, previous }: History): string {
  if (sessions.length === 0) return "SELECT '' AS symbol, 0. AS mean, 0. AS previous, 0 AS sessions WHERE 0";
  const parts = sessions.map(
    (session) =>
      `SELECT symbol, if(isFinite(total_premium), total_premium, NULL) AS premium, trades, ${session === previous ? 1 : 0} AS is_previous FROM ${summaryOf(session)} WHERE symbol != ${quoteString(ALL)}`,
  );
  // A session in which the symbol did not trade counts as 0, one in which nobody knows its premium not at all.
  return `SELECT symbol, sum(premium) / nullIf(${sessions.length} - countIf(isNull(premium)), 0) AS mean,
      if(countIf(is_previous AND isNull(premium)) > 0, NULL, ifNull(sumIf(premium, is_previous), 0)) AS previous, countIf(trades > 0) AS sessions
    FROM (${parts.join(' UNION ALL ')}) GROUP BY symbol`;
}

function summaryOf({ path }: PastSession): string {
  const structure = ['symbol String', ...COLUMNS.map((name) => `${name} Nullable(Float64)`)].join(', ');
  return `file(${quoteString(path)}, Parquet, ${quoteString(structure)})`;
}
