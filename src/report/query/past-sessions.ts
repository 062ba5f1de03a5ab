/**
 * Compares a day with the sessions before it: each key number, the same number of the session before, and its mean over
 * up to five sessions. It reads the summaries beside the sessions' drops, some kilobytes per session, never the drops
 * themselves. Invariant: columns are read by name; a summary of an older definition, whose sums include cancel messages
 * and late reports, is not compared with a day that leaves them out.
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

/** Column that only summaries of counted records have. */
const MARK = 'recorded_trades';

/** Column of summaries that count all codes of sweeps; sweeps of the others are not compared. */
const SWEEP_MARK = 'sweep_trades';

/** Columns read from a summary; one that the file lacks is null. */
const COLUMNS: readonly string[] = [...SUMMARY_COLUMNS, MARK, SWEEP_MARK];
/** The same with their types. */
const SUMMARY = ['symbol String', ...COLUMNS.map((name) => `${name} Nullable(Float64)`)].join(', ');

export interface PastSession {
  readonly date: string;
  /** Local file of its summary. */
  readonly path: string;
  /** Whether its drop is degraded: then the sums may lack trades. */
  readonly isDegraded?: boolean;
}

/** A session that is fit for comparison, with its key numbers. */
interface ComparableSession extends PastSession {
  readonly numbers: Readonly<Record<Compared, Amount>>;
}

export interface History {
  /** Newest first. */
  readonly sessions: readonly ComparableSession[];
  /** The session before the date; null if there is none, or it is not fit for comparison. */
  readonly previous: ComparableSession | null;
}

/** @param before newest first; only the first `MEAN_SESSIONS` are used */
export async function queryHistory(source: DropSource, before: readonly PastSession[]): Promise<History> {
  const past = before.slice(0, MEAN_SESSIONS);
  if (past.length === 0) return { sessions: [], previous: null };
  const rows = await source.rows<Readonly<Record<string, EngineNumber>>>(
    past
      .map(
        (session, index) =>
          `SELECT ${index} AS session, * FROM ${parquetFile(session.path, SUMMARY)} WHERE symbol = ${quoteString(ALL)}`,
      )
      .join(' UNION ALL '),
  );
  const sessions = past.flatMap((session, index) => {
    const row = rows.find((candidate) => candidate['session'] === index);
    if (row === undefined || row[MARK] === null) return [];
    const known = row[SWEEP_MARK] === null ? { ...row, sweep_premium: null } : row;
    return [{ ...session, numbers: readSummary(known) }];
  });
  return { sessions, previous: sessions.find(({ date }) => date === past[0]?.date) ?? null };
}

/**
 * A query for the symbols of the sessions: `symbol`, `mean` premium (a session without the symbol counts as 0),
 * `previous` premium (of the session before), and the number of `sessions` in which it traded.
 */
export function buildSymbolHistory({ sessions, previous }: History): string {
  if (sessions.length === 0) return "SELECT '' AS symbol, 0. AS mean, 0. AS previous, 0 AS sessions WHERE 0";
  const parts = sessions.map(
    (session) =>
      `SELECT symbol, if(isFinite(total_premium), total_premium, NULL) AS premium, trades, ${session === previous ? 1 : 0} AS is_previous FROM ${parquetFile(session.path, SUMMARY)} WHERE symbol != ${quoteString(ALL)}`,
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
  { sessions, previous }: History,
  known: readonly string[],
): Comparison {
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
