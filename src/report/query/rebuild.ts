/**
 * Builds the queries that let a reader rebuild the report's tables from the object, saved under its own name. Plain SQL
 * for ClickHouse and DuckDB: a double-quoted file name is a table in `duckdb` and in `clickhouse local`. They count the
 * same records as the report, with the rule written out. Pure.
 */

import type { Exclusions, RebuildQuery } from '../model.ts';
import { buildPartList, buildPremiumList } from '../number-values.ts';
import { buildCountedTable, buildFatesQuery, CODES, IS_SWEEP, KNOWN_PREMIUM } from '../records.ts';
import { buildUnknown } from './exclusions.ts';
import { buildExposureQueries, type ExposureScope } from './exposure-sql.ts';
import { selectSessions, selectSymbolHistory } from './past-sessions.ts';
import { buildStates, SELECT_CONTRACTS, selectVolumeAbove } from './series-state.ts';
import { EXPIRY_BUCKET, MONEYNESS_BUCKET } from './sums.ts';
import { buildDriversQuery, buildEarningsQuery, buildTradesQuery } from './trades.ts';

interface Rebuilt {
  readonly date: string;
  /** If the file has nothing to leave out, the queries omit the rule. */
  readonly exclusions: Exclusions;
  /** Whether records lack a premium or a size. */
  readonly hasGaps: boolean;
  /** URL of the chain drop of the date, which the reader saves under its last path segment; null without one. */
  readonly chain: string | null;
  /** The same of the market-structure drop. */
  readonly structure: string | null;
  /** Null if the report has no exposure. */
  readonly exposure: (ExposureScope & { readonly focus: readonly string[] }) | null;
  /** The sessions that the day is compared with, newest first. */
  readonly pastDates: readonly string[];
  readonly hasEarnings: boolean;
}

/** @param location URL of the object; the reader's file has its last path segment as name */
export function buildRebuildQueries(
  location: string,
  { date, exclusions, hasGaps, chain, structure, exposure, pastDates, hasEarnings }: Rebuilt,
): readonly RebuildQuery[] {
  const file = nameFile(location);
  const { cancelMessages, lateReports } = exclusions;
  const source = buildSource(file, cancelMessages.trades + lateReports.trades > 0, hasGaps);
  const prelude = source === null ? '' : `WITH counted AS ${source}\n`;
  const rest = source === null ? 'WITH' : `WITH counted AS ${source},`;
  const counted = source === null ? file : 'counted';
  const all = buildPremiumList(hasGaps);
  const parts = buildPartList(hasGaps);
  const states = `${rest}${buildStates(counted, date)}`;
  const tables: readonly (readonly [string, string])[] = [
    ['Headline', `${prelude}SELECT ${all}\nFROM ${counted}`],
    [
      'Symbols',
      `${prelude}SELECT symbol, ${all}\nFROM ${counted} GROUP BY symbol ORDER BY total_premium DESC NULLS LAST, symbol`,
    ],
    [
      'Half hours',
      `${prelude}SELECT EXTRACT(HOUR FROM time) AS hour, CASE WHEN EXTRACT(MINUTE FROM time) < 30 THEN 0 ELSE 30 END AS minute, ${all}\nFROM ${counted} GROUP BY 1, 2 ORDER BY 1, 2`,
    ],
    [
      'Expirations',
      `${prelude}SELECT ${EXPIRY_BUCKET} AS bucket, ${parts}\nFROM ${counted} GROUP BY 1 ORDER BY min(expiration_date)`,
    ],
    ['Moneyness', `${prelude}SELECT ${MONEYNESS_BUCKET} AS bucket, ${parts}\nFROM ${counted} GROUP BY 1 ORDER BY 1`],
    ['Biggest trades', `${prelude}${buildTradesQuery(counted, hasGaps ? ['premium IS NOT NULL'] : [])}`],
    [
      'Biggest sweeps',
      `${prelude}${buildTradesQuery(counted, [...(hasGaps ? ['premium IS NOT NULL'] : []), IS_SWEEP])}`,
    ],
    ['Contracts by premium', `${states}\n${SELECT_CONTRACTS}`],
    ['What moved the day', `${prelude}${buildDriversQuery(counted)}`],
    ...(hasEarnings ? [['Earnings within ten days', `${prelude}${buildEarningsQuery(counted)}`] as const] : []),
    ...(exposure === null
      ? []
      : buildExposureQueries(
          states,
          { counted, chain: chain && nameFile(chain), structure: structure && nameFile(structure) },
          exposure,
        )),
    ...buildComparisonQueries(rest, counted, pastDates),
    ['Volume above open interest', `${states}\n${selectVolumeAbove(hasGaps)}`],
    ['Records left out', buildFatesQuery(file, hasGaps ? KNOWN_PREMIUM : 'premium')],
    ...exclusions.unknownCodes.map(({ column }): readonly [string, string] => [
      `Unknown ${column}`,
      `${prelude}SELECT ${column}, count(*) AS trades, sum(premium) AS total_premium\nFROM ${counted} WHERE ${buildUnknown(CODES.find(([name]) => name === column)?.[1] ?? 'true')} GROUP BY 1 ORDER BY 2 DESC, 1`,
    ]),
  ];
  return tables.map(([table, sql]) => ({ table, sql: `${sql};` }));
}

/** The records that count, with premiums that can be summed; null if this is the unchanged file. */
function buildSource(file: string, leavesOut: boolean, hasGaps: boolean): string | null {
  const counted = leavesOut ? buildCountedTable(file) : file;
  if (hasGaps)
    return `(SELECT * REPLACE (${KNOWN_PREMIUM} AS premium) FROM ${counted}${leavesOut ? ' AS records' : ''})`;
  return leavesOut ? counted : null;
}

/** The file under its own name, as a table. */
function nameFile(location: string): string {
  return `"${location.slice(location.lastIndexOf('/') + 1).replaceAll('"', '""')}"`;
}

/**
 * @param with_ how a query begins: `WITH`, or `WITH counted AS (...),`
 * @param counted the counted records, for a FROM clause
 * @param dates the sessions that are compared, newest first; none: there is no query
 */
function buildComparisonQueries(
  with_: string,
  counted: string,
  dates: readonly string[],
): readonly (readonly [table: string, sql: string])[] {
  if (dates.length === 0) return [];
  const nameOf = (date: string) => `${date}.summary.parquet`;
  const past = dates.map((date) => ({ date, table: `"${nameOf(date)}"` }));
  const note = `-- Save summary.parquet of each session under its date: ${dates.map(nameOf).join(', ')}\n`;
  return [
    ['Sessions before', `${note}${selectSessions(past)}`],
    [
      'Symbols against the sessions before',
      `${note}${with_} past AS (${selectSymbolHistory(past)})
SELECT latest.symbol AS symbol, total, previous, mean, total / nullif(mean, 0) AS ratio, sessions
FROM (SELECT symbol, sum(premium) AS total FROM ${counted} GROUP BY symbol) AS latest LEFT JOIN past ON latest.symbol = past.symbol
WHERE total IS NOT NULL ORDER BY 5 DESC NULLS LAST, 1`,
    ],
  ];
}
