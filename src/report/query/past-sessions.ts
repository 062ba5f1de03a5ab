/**
 * Compares a day with the sessions before it: each key number, the same number of the session before, and its mean over
 * up to five sessions. It reads the summaries beside the sessions' drops, some kilobytes per session, never the drops
 * themselves. Columns are read by name.
 *
 * A mean needs at least three sessions that have the number. The mean of a ratio or share is the mean of the sessions' values, not the ratio of their sums; a session without the
 * number (no calls, no premium) is left out of the mean.
 */
import { parquetFile, quoteString } from '../../engine/literal.ts';
import type { Amount, EngineNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import { FEWEST_IN_MEAN } from '../key-numbers.ts';
import type { Change, Comparison } from '../model.ts';
import { readKeyNumbers, readSummary, SUMMARY_COLUMNS } from '../number-values.ts';
import { COMPARED, type Compared, type Premium } from '../numbers.ts';

/** Sessions in the mean. */
export const MEAN_SESSIONS = 5;

/** Symbol of the summary row for all symbols. */
const ALL = '';

/** Columns read from a summary, with their types. */
const SUMMARY = ['symbol String', ...SUMMARY_COLUMNS.map((name) => `${name} Nullable(Float64)`)].join(', ');

export interface PastSession {
  readonly date: string;
  /** Local file of its summary. */
  readonly path: string;
  /** Whether its drop is degraded: then the sums may lack trades. */
  readonly isDegraded?: boolean;
}

/** A session with its key numbers. */
export interface ComparableSession extends PastSession {
  readonly numbers: Readonly<Record<Compared, Amount>>;
}

/** @param before newest first; only the first `MEAN_SESSIONS` are used @returns the same, in that order */
export async function queryHistory(
  source: DropSource,
  before: readonly PastSession[],
): Promise<readonly ComparableSession[]> {
  const past = before.slice(0, MEAN_SESSIONS);
  if (past.length === 0) return [];
  const rows = await source.rows<Readonly<Record<string, EngineNumber>>>(
    past
      .map(
        (session, index) =>
          `SELECT ${index} AS session, * FROM ${parquetFile(session.path, SUMMARY)} WHERE symbol = ${quoteString(ALL)}`,
      )
      .join(' UNION ALL '),
  );
  return past.flatMap((session, index) => {
    const row = rows.find((candidate) => candidate['session'] === index);
    return row === undefined ? [] : [{ ...session, numbers: readSummary(row) }];
  });
}

/**
 * A query for the symbols of the sessions: `symbol`, `mean` premium (a session without the symbol counts as 0),
 * `previous` premium (of the session before), and the number of `sessions` in which it traded.
 */
export function buildSymbolHistory(sessions: readonly ComparableSession[]): string {
  if (sessions.length === 0) return "SELECT '' AS symbol, 0. AS mean, 0. AS previous, 0 AS sessions WHERE 0";
  const parts = sessions.map(
    (session, index) =>
      `SELECT symbol, if(isFinite(total_premium), total_premium, NULL) AS premium, trades, ${index === 0 ? 1 : 0} AS is_previous FROM ${parquetFile(session.path, SUMMARY)} WHERE symbol != ${quoteString(ALL)}`,
  );
  // A session in which the symbol did not trade counts as 0; one with unknown premium is left out of the mean.
  return `SELECT symbol, sum(premium) / nullIf(${sessions.length} - countIf(isNull(premium)), 0) AS mean,
      if(countIf(is_previous AND isNull(premium)) > 0, NULL, ifNull(sumIf(premium, is_previous), 0)) AS previous, countIf(trades > 0) AS sessions
    FROM (${parts.join(' UNION ALL ')}) GROUP BY symbol`;
}

/**
 * @param volumeAboveOpenInterest premium of the date in series that traded more than their open interest
 * @param known sessions before the date that the ledger knows
 */
export function buildComparison(
  headline: Premium,
  volumeAboveOpenInterest: Amount,
  sessions: readonly ComparableSession[],
  known: readonly string[],
): Comparison {
  const [previous] = sessions;
  const meanDates = sessions.map(({ date }) => date);
  const oldest = meanDates.at(-1);
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
    meanDates,
    missingDates: known
      .filter((date) => oldest !== undefined && date > oldest && !meanDates.includes(date))
      .sort()
      .reverse(),
    degradedDates: sessions.filter(({ isDegraded }) => isDegraded === true).map(({ date }) => date),
    pastShares: sessions.map(({ numbers }) => ({ calls: numbers.callShare, puts: numbers.putShare })),
    changes: Object.fromEntries(changes) as Record<Compared, Change>, // One entry for each of COMPARED.
  };
}

function meanOf(values: readonly Amount[]): Amount {
  const known = values.filter((value) => value !== null);
  if (known.length < FEWEST_IN_MEAN) return null;
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return Number.isFinite(mean) ? mean : null;
}
