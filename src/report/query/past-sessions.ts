/**
 * Compares a day with the sessions before it: each key number, the same number of the session before, its median over up to
 * twenty sessions, and how many of these were lower. It reads the summaries beside the sessions' drops, some kilobytes per
 * session, never the drops themselves. Columns are read by name. The queries are those that readers get.
 *
 * A median needs at least three sessions that have the number; a session without it (no calls, no premium) is left out.
 */
import { type Families, writeFamily } from '../../api-contract/family.ts';
import { parquetFile } from '../../engine/literal.ts';
import { type Amount, type EngineNumber, readNumber } from '../amount.ts';
import { compare, compareLevels, type Measured, type SessionLevels } from '../changes.ts';
import type { DropSource } from '../drop-source.ts';
import type { Comparison, ContractFlow } from '../model.ts';
import { COMPARED_SQL, readKeyNumbers, SUMMARY_COLUMNS, sumWhere } from '../number-values.ts';
import { type Compared, forCompared, type Premium } from '../numbers.ts';
import { IN_REPORT_SEGMENTS } from '../records.ts';

/** Most sessions in the median: a month of trading. */
export const COMPARED_SESSIONS = 20;

/** Columns read from a summary, with their types. */
const SUMMARY = [
  ...['symbol', 'session_date', 'segment'].map((name) => `${name} String`),
  ...SUMMARY_COLUMNS.map((name) => `${name} Nullable(Float64)`),
].join(', ');

export interface PastSession {
  readonly date: string;
  /** Local file of its summary. */
  readonly path: string;
  /** Whether its drop is degraded: then the sums may lack trades. */
  readonly isDegraded?: boolean;
  /** Part of its sums that is compared: of a whole day before a half day, the hours that this has. Default: all. */
  readonly share?: number | undefined;
  /** Of the report that was mailed of it, not checked; absent if none was. */
  readonly levels?: SessionLevels | undefined;
  readonly contracts?: readonly Partial<ContractFlow>[] | undefined;
}

/** The summary of a session, for the FROM clause. */
interface PastTable extends Pick<PastSession, 'date' | 'share'> {
  readonly table: string;
}

/** The sessions whose summary could be read, and the key numbers of each, by its date. */
export interface History {
  readonly sessions: readonly (PastSession & PastTable)[];
  readonly numbers: ReadonlyMap<string, Readonly<Record<Compared, Amount>>>;
}

/** @param before in any order, which the result keeps */
export async function queryHistory(
  source: DropSource,
  before: readonly PastSession[],
  families: Families,
): Promise<History> {
  const past = before.map((session) => ({
    ...session,
    table: nameFamilies(parquetFile(session.path, SUMMARY), families),
  }));
  if (past.length === 0) return { sessions: [], numbers: new Map() };
  const rows = await source.rows<Readonly<Record<string, EngineNumber>>>(selectSessions(past));
  const numbers = new Map(
    rows.map((row) => [String(row['session']), forCompared(({ name }) => readNumber(row[`of_${name}`] ?? null))]),
  );
  return { sessions: past.filter(({ date }) => numbers.has(date)), numbers };
}

/** A summary under the symbols of families, for the FROM clause. */
export function nameFamilies(summary: string, families: Families): string {
  return `(SELECT * REPLACE (${writeFamily(families)} AS symbol) FROM ${summary})`;
}

/** The key numbers of each session: a session without records in these hours has sums of 0. */
export function selectSessions(past: readonly PastTable[]): string {
  const sums = SUMMARY_COLUMNS.map(
    (name) => `CASE WHEN count(nullif(summed.session, '')) = 0 THEN 0 ELSE sum(${name} * share) END AS ${name}`,
  );
  // One type of number, whatever the file has.
  const known = SUMMARY_COLUMNS.map((name) => `CASE WHEN isFinite(${name} * 1e0) THEN ${name} * 1e0 END AS ${name}`);
  return `WITH summaries AS (
${selectSummaries(past, SUMMARY_COLUMNS)}
),
sums AS (
  SELECT listed.session AS session, ${sums.join(', ')}
  FROM (${listSessions(past)}) AS listed
  LEFT JOIN (SELECT * FROM summaries WHERE symbol = '') AS summed ON summed.session = listed.session
  GROUP BY listed.session
),
known AS (SELECT session, ${known.join(', ')} FROM sums)
SELECT session, ${COMPARED_SQL.map(([name, sql]) => `${sql} AS of_${name}`).join(', ')} FROM known`;
}

/** The compared hours of the summaries, one row per symbol and segment; the symbol is empty for the whole day. */
function selectSummaries(past: readonly PastTable[], columns: readonly string[]): string {
  return past
    .map(
      ({ date, table, share = 1 }) =>
        `  SELECT '${date}' AS session, ${share} AS share, symbol, ${columns.join(', ')} FROM ${table} WHERE session_date = '${date}' AND ${IN_REPORT_SEGMENTS}`,
    )
    .join(' UNION ALL\n');
}

function listSessions(past: readonly PastTable[]): string {
  return past.map(({ date }) => `SELECT '${date}' AS session`).join(' UNION ALL ');
}

/**
 * The symbols of the sessions: `median` of their premium (a session without the symbol counts as 0, one with an unknown
 * premium not at all), `previous` premium (of the session before), and the number of `sessions` in which it traded.
 */
export function selectSymbolHistory(past: readonly PastTable[]): string {
  const [previous] = past;
  if (previous === undefined) return "SELECT '' AS symbol, 0. AS median, 0. AS previous, 0 AS sessions WHERE 0";
  const premium = 'CASE WHEN coalesce(days.trades, 0) = 0 THEN 0 ELSE days.premium END';
  const before = `listed.session = '${previous.date}'`;
  return `WITH days AS (
  SELECT symbol, session, CASE WHEN isFinite(sum(total_premium)) THEN sum(total_premium * share) END AS premium, sum(trades) AS trades
  FROM (
${selectSummaries(past, ['total_premium', 'trades'])}
  ) AS summaries WHERE symbol <> '' GROUP BY symbol, session
)
SELECT names.symbol AS symbol, median(${premium}) AS median, max(CASE WHEN ${before} THEN ${premium} END) AS previous,
  ${sumWhere('days.trades > 0', '1')} AS sessions
FROM (SELECT DISTINCT symbol FROM days) AS names
CROSS JOIN (${listSessions(past)}) AS listed
LEFT JOIN days ON days.symbol = names.symbol AND days.session = listed.session
GROUP BY names.symbol`;
}

/**
 * @param volumeAboveOpenInterest premium of the date in series that traded more than their open interest
 * @param known sessions before the date that the ledger knows
 * @param measured exposure and volatility of the date
 */
export function buildComparison(
  headline: Premium,
  volumeAboveOpenInterest: Amount,
  { sessions, numbers }: History,
  known: readonly string[],
  measured: Measured,
): Comparison {
  const [previous] = sessions;
  const dates = sessions.map(({ date }) => date);
  const oldest = dates.at(-1);
  const latest = readKeyNumbers(headline, volumeAboveOpenInterest);
  const read = (session: string, key: Compared) => numbers.get(session)?.[key] ?? null;
  return {
    previousDate: previous?.date ?? null,
    share: sessions.find(({ share = 1 }) => share !== 1)?.share,
    dates,
    missingDates: known
      .filter((date) => oldest !== undefined && date > oldest && !dates.includes(date))
      .sort()
      .reverse(),
    degradedDates: sessions.filter(({ isDegraded }) => isDegraded === true).map(({ date }) => date),
    changes: forCompared(({ key }) =>
      compare(
        latest[key],
        previous === undefined ? null : read(previous.date, key),
        dates.map((date) => read(date, key)),
      ),
    ),
    levels: compareLevels(
      measured,
      sessions.map(({ levels }) => levels ?? null),
    ),
  };
}
