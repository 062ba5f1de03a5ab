/**
 * Compares a day with the sessions before it: each key number, the same number of the session before, and its mean over
 * up to five sessions. It reads the summaries beside the sessions' drops, some kilobytes per session, never the drops
 * themselves. Columns are read by name. The queries are those that readers get.
 *
 * A mean needs at least three sessions that have the number. The mean of a ratio or share is the mean of the sessions' values,
 * not the ratio of their sums; a session without the number (no calls, no premium) is left out of the mean.
 */
import { type Families, writeFamily } from '../../api-contract/family.ts';
import { parquetFile } from '../../engine/literal.ts';
import { type Amount, type EngineNumber, readNumber } from '../amount.ts';
import type { DropSource } from '../drop-source.ts';
import { FEWEST_IN_MEAN } from '../key-numbers.ts';
import type { Comparison } from '../model.ts';
import { COMPARED_SQL, readKeyNumbers, SUMMARY_COLUMNS, sumWhere } from '../number-values.ts';
import { type Compared, forCompared, type Premium } from '../numbers.ts';
import { IN_REPORT_SEGMENTS } from '../records.ts';

/** Sessions in the mean. */
export const MEAN_SESSIONS = 5;

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
}

/** The summary of a session, for the FROM clause. */
interface PastTable extends Pick<PastSession, 'date' | 'share'> {
  readonly table: string;
}

/** The sessions whose summary could be read, and the key numbers of each and of their mean, by `session`. */
export interface History {
  readonly sessions: readonly (PastSession & PastTable)[];
  readonly numbers: ReadonlyMap<string, Readonly<Record<Compared, Amount>>>;
}

const MEAN = 'mean';

/** @param before newest first; only the first `MEAN_SESSIONS` are used, in that order */
export async function queryHistory(
  source: DropSource,
  before: readonly PastSession[],
  families: Families,
): Promise<History> {
  const past = before
    .slice(0, MEAN_SESSIONS)
    .map((session) => ({ ...session, table: nameFamilies(parquetFile(session.path, SUMMARY), families) }));
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

/** The key numbers of each session, and their means. */
export function selectSessions(past: readonly PastTable[]): string {
  const sums = (part: string) =>
    SUMMARY_COLUMNS.map((name) => `CASE WHEN count(*) = 0 THEN 0 ELSE sum(${name})${part} END AS ${name}`).join(', ');
  const days = past.map(
    ({ date, table, share }) =>
      `  SELECT '${date}' AS session, ${sums(writePart(share))} FROM ${table} WHERE symbol = '' AND ${inHours(date)}`,
  );
  // One type of number, for both parts of the last UNION.
  const known = SUMMARY_COLUMNS.map((name) => `CASE WHEN isFinite(${name} * 1e0) THEN ${name} * 1e0 END AS ${name}`);
  const names = COMPARED_SQL.map(([name]) => `of_${name}`);
  const means = names.map((name) => `CASE WHEN count(${name}) >= ${FEWEST_IN_MEAN} THEN avg(${name}) END`);
  return `WITH past AS (
${days.join(' UNION ALL\n')}
),
known AS (SELECT session, ${known.join(', ')} FROM past),
sessions AS (SELECT session, ${COMPARED_SQL.map(([name, sql]) => `${sql} AS of_${name}`).join(', ')} FROM known)
SELECT session, ${names.join(', ')} FROM sessions
UNION ALL SELECT '${MEAN}' AS session, ${means.join(', ')} FROM sessions`;
}

function writePart(share = 1): string {
  return share === 1 ? '' : ` * ${share}`;
}

/** The hours of a summary that are compared. */
function inHours(date: string): string {
  return `session_date = '${date}' AND ${IN_REPORT_SEGMENTS}`;
}

/**
 * The symbols of the sessions: `symbol`, `mean` premium (a session without the symbol counts as 0, one with an unknown premium
 * not at all), `previous` premium (of the session before), and the number of `sessions` in which it traded.
 */
export function selectSymbolHistory(past: readonly PastTable[]): string {
  if (past.length === 0) return "SELECT '' AS symbol, 0. AS mean, 0. AS previous, 0 AS sessions WHERE 0";
  const days = past.map(
    ({ date, table, share }, index) =>
      `  SELECT symbol, CASE WHEN isFinite(sum(total_premium)) THEN sum(total_premium)${writePart(share)} END AS known_premium, sum(trades) AS trades, ${index === 0 ? 1 : 0} AS is_previous FROM ${table} WHERE symbol <> '' AND ${inHours(date)} GROUP BY symbol`,
  );
  const isPrevious = 'is_previous = 1';
  return `SELECT symbol, sum(known_premium) / nullif(${past.length} - ${sumWhere('known_premium IS NULL', '1')}, 0) AS mean,
  CASE WHEN ${sumWhere(`${isPrevious} AND known_premium IS NULL`, '1')} > 0 THEN NULL ELSE ${sumWhere(isPrevious, 'known_premium')} END AS previous,
  ${sumWhere('trades > 0', '1')} AS sessions
FROM (
${days.join(' UNION ALL\n')}
) AS days GROUP BY symbol`;
}

/**
 * @param volumeAboveOpenInterest premium of the date in series that traded more than their open interest
 * @param known sessions before the date that the ledger knows
 */
export function buildComparison(
  headline: Premium,
  volumeAboveOpenInterest: Amount,
  { sessions, numbers }: History,
  known: readonly string[],
): Comparison {
  const [previous] = sessions;
  const meanDates = sessions.map(({ date }) => date);
  const oldest = meanDates.at(-1);
  const latest = readKeyNumbers(headline, volumeAboveOpenInterest);
  const read = (session: string | undefined, key: Compared) => numbers.get(session ?? '')?.[key] ?? null;
  return {
    previousDate: previous?.date ?? null,
    share: sessions.find(({ share = 1 }) => share !== 1)?.share,
    meanDates,
    missingDates: known
      .filter((date) => oldest !== undefined && date > oldest && !meanDates.includes(date))
      .sort()
      .reverse(),
    degradedDates: sessions.filter(({ isDegraded }) => isDegraded === true).map(({ date }) => date),
    changes: forCompared(({ key }) => ({
      ...{ latest: latest[key], previous: read(previous?.date, key), mean: read(MEAN, key) },
    })),
  };
}
