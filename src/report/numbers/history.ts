/**
 * The sessions before a date, read from the summaries beside their drops: some kilobytes a session, never the sessions
 * themselves. Invariant: columns are read by name, and a summary of an older definition, whose sums have cancel messages
 * and late reports in them, is not compared with a day that leaves them out.
 */
import { quoteString } from '../../engine/literal.ts';
import type { DropSource } from '../source.ts';

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
  const rows = await source.rows<SessionTotals & { readonly session: number }>(
    past
      .map(
        (session, index) =>
          `SELECT ${index} AS session, * FROM ${summaryOf(session)} WHERE symbol = ${quoteString(ALL)}`,
      )
      .join(' UNION ALL '),
  );
  const sessions = past.flatMap((session, index) => {
    const totals = rows.find((row) => row.session === index);
    return totals === undefined || totals.recorded_trades === null ? [] : [{ ...session, totals }];
  });
  return { sessions, previous: sessions.find(({ date }) => date === past[0]?.date) ?? null };
}

/**
 * A query for the symbols of the sessions: `symbol`, `mean` premium (a session without the symbol counts as 0), `previous`
 * premium (of the session before), and in how many `sessions` it traded.
 */
export function buildSymbolHistory({ sessions, previous }: History): string {
  if (sessions.length === 0) return "SELECT '' AS symbol, 0. AS mean, 0. AS previous, 0 AS sessions WHERE 0";
  const parts = sessions.map(
    (session) =>
      `SELECT symbol, ifNull(total_premium, 0) AS premium, trades, ${session === previous ? 1 : 0} AS is_previous FROM ${summaryOf(session)} WHERE symbol != ${quoteString(ALL)}`,
  );
  return `SELECT symbol, sum(premium) / ${sessions.length} AS mean, sumIf(premium, is_previous) AS previous, countIf(trades > 0) AS sessions
    FROM (${parts.join(' UNION ALL ')}) GROUP BY symbol`;
}

function summaryOf({ path }: PastSession): string {
  const structure = ['symbol String', ...COLUMNS.map((name) => `${name} Nullable(Float64)`)].join(', ');
  return `file(${quoteString(path)}, Parquet, ${quoteString(structure)})`;
}
