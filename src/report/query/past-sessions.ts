/**
 * A day beside the sessions before it: each key number, the same number of the session before, and its mean over up to five
 * sessions. The sessions are read from the summaries beside their drops: some kilobytes a session, never the sessions
 * themselves. Invariant: columns are read by name, and a summary of an older definition, whose sums have cancel messages
 * and late reports in them, is not compared with a day that leaves them out.
 *
 * The mean of a ratio or share is the mean of the sessions' own, not the ratio of their sums; a session that has no such
 * number (no calls, no premium) is left out of its mean.
 */
import { quoteString } from '../../engine/literal.ts';
import type { Amount, EngineNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import type { Change, Comparison } from '../model.ts';
import { readKeyNumbers, readSummary, SUMMARY_COLUMNS } from '../number-values.ts';
import { COMPARED, type Compared, type Premium } from '../numbers.ts';

/** Sessions in the mean. */
export const MEAN_SESSIONS = 5;

/** The row of all symbols in a summary. */
const ALL = '';

/** Only summaries of counted records have it. */
const MARK = 'recorded_trades';

/** What is read of a summary; a column that the file does not have is null. */
const COLUMNS: readonly string[] = [...SUMMARY_COLUMNS, MARK];

export interface PastSession {
  readonly date: string;
  /** Local file of its summary. */
  readonly path: string;
  /** Its drop is degraded: the sums may lack trades. */
  readonly isDegraded?: boolean;
}

/** A session that can be compared with, and its key numbers. */
interface ComparableSession extends PastSession {
  readonly numbers: Readonly<Record<Compared, Amount>>;
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
  const rows = await source.rows<Readonly<Record<string, EngineNumber>>>(
    past
      .map(
        (session, index) =>
          `SELECT ${index} AS session, * FROM ${summaryOf(session)} WHERE symbol = ${quoteString(ALL)}`,
      )
      .join(' UNION ALL '),
  );
  const sessions = past.flatMap((session, index) => {
    const row = rows.find((candidate) => candidate['session'] === index);
    return row === undefined || row[MARK] === null ? [] : [{ ...session, numbers: readSummary(row) }];
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

/** @param volumeAboveOpenInterest premium of the date in series that traded more than their open interest */
export function buildComparison(
  headline: Premium,
  volumeAboveOpenInterest: Amount,
  { sessions, previous }: History,
): Comparison {
  const latest = readKeyNumbers(headline, volumeAboveOpenInterest);
  const changes = COMPARED.map((key): [Compared, Change] => [
    key,
    {
      latest: latest[key],
      previous: previous?.numbers[key] ?? null,
      mean: meanOf(sessions.map(({ numbers }) => numbers[key])),
    },
  ]);
  return {
    previousDate: previous?.date ?? null,
    meanDates: sessions.map(({ date }) => date),
    degradedDates: sessions.filter(({ isDegraded }) => isDegraded === true).map(({ date }) => date),
    pastShares: sessions.map(({ numbers }) => ({ calls: numbers.callShare, puts: numbers.putShare })),
    changes: Object.fromEntries(changes) as Record<Compared, Change>, // One entry for each of COMPARED.
  };
}

function meanOf(values: readonly Amount[]): Amount {
  const known = values.filter((value) => value !== null);
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return Number.isFinite(mean) ? mean : null;
}
