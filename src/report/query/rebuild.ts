/**
 * Builds the queries that let a reader rebuild the report's tables from the object, saved under its own name. Plain SQL
 * for ClickHouse and DuckDB: a double-quoted file name is a table in `duckdb` and in `clickhouse local`. They count the
 * same records as the report, with the rule written out. Pure.
 */

import type { Exclusions, RebuildQuery } from '../model.ts';
import { buildPartList, buildPremiumList, sumKnown, sumWhere } from '../number-values.ts';
import {
  buildCountedTable,
  buildFate,
  CODES,
  hasAdjustedRoot,
  hasOddSize,
  IS_CALL,
  IS_PUT,
  KNOWN_PREMIUM,
  SERIES_KEY,
} from '../records.ts';
import { BIGGEST_TRADES } from './biggest-trades.ts';
import { buildDriversQuery } from './drivers.ts';
import { buildUnknown } from './exclusions.ts';
import { TOP_EXPOSURES } from './exposure-query.ts';
import { EXPIRY_BUCKET, MONEYNESS_BUCKET, TOP_SYMBOLS } from './sums.ts';
import { buildContractsQuery } from './top-contracts.ts';

const TRADE_LIST =
  'time, symbol, put_call, strike, expiration_date, size, price, premium, side, sentiment, underlying_price, oi, iv, option_activity_type, id';

/**
 * @param location URL of the object; the reader's file has its last path segment as name
 * @param exclusions if the file has nothing to leave out, the queries omit the rule
 * @param hasGaps whether records lack a premium or a size
 * @param chain URL of the chain drop of the date, which the reader saves under its last path segment; null without one
 */
export function buildRebuildQueries(
  location: string,
  exclusions: Exclusions,
  hasGaps: boolean,
  chain: string | null = null,
): readonly RebuildQuery[] {
  const file = nameFile(location);
  const { cancelMessages, lateReports } = exclusions;
  const source = buildSource(file, cancelMessages.trades + lateReports.trades > 0, hasGaps);
  const prelude = source === null ? '' : `WITH counted AS ${source}\n`;
  const rest = source === null ? 'WITH' : `WITH counted AS ${source},`;
  const counted = source === null ? file : 'counted';
  const all = buildPremiumList(hasGaps);
  const parts = buildPartList(hasGaps);
  const sum = hasGaps ? sumKnown : sumWhere;
  const tables: readonly (readonly [string, string])[] = [
    ['Headline', `${prelude}SELECT ${all}\nFROM ${counted}`],
    [
      'Symbols',
      `${prelude}SELECT symbol, ${all}\nFROM ${counted} GROUP BY symbol ORDER BY total_premium DESC NULLS LAST, symbol LIMIT ${TOP_SYMBOLS}`,
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
    [
      'Biggest trades',
      `${prelude}SELECT ${TRADE_LIST}\nFROM ${counted}${hasGaps ? ' WHERE premium IS NOT NULL' : ''} ORDER BY premium DESC, time, id LIMIT ${BIGGEST_TRADES}`,
    ],
    ['Contracts by premium', `${prelude}${buildContractsQuery(counted)}`],
    ['What moved the day', `${prelude}${buildDriversQuery(counted)}`],
    ['GEX by symbol', `${rest}${buildExposureQuery(counted)}`],
    ...(chain === null
      ? []
      : [['GEX of whole chains', `${rest}${buildChainQuery(counted, nameFile(chain))}`] as const]),
    [
      'Volume above open interest',
      `${prelude}SELECT ${sumWhere('volume > open_interest', '1')} AS series, count(*) AS of_series, ${sumWhere('volume IS NULL OR open_interest IS NULL', '1')} AS unknown_series, ${sum('volume > open_interest', 'total_premium')} AS premium\nFROM (SELECT sum(size) AS volume, max(oi) AS open_interest, sum(premium) AS total_premium FROM ${counted} GROUP BY ${SERIES_KEY}) AS series`,
    ],
    ['Records left out', buildLeftOutQuery(file, hasGaps)],
    ...exclusions.unknownCodes.map(({ column }): readonly [string, string] => [
      `Unknown ${column}`,
      `${prelude}SELECT ${column}, count(*) AS trades, sum(premium) AS total_premium\nFROM ${counted} WHERE ${buildUnknown(conditionOf(column))} GROUP BY 1 ORDER BY 2 DESC, 1`,
    ]),
  ];
  return tables.map(([table, sql]) => ({ table, sql: `${sql};` }));
}

function conditionOf(column: string): string {
  return CODES.find(([name]) => name === column)?.[1] ?? 'true';
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

/** The exposure of every contract of the chain, at the symbol's last price of the underlying in the records. */
function buildChainQuery(counted: string, chain: string): string {
  const weigh = (right: string, sign: string) =>
    `${sign}100 * 0.01 * spot * spot * ${sumWhere(`${right} AND isFinite(gamma) AND gamma > 0 AND open_interest > 0 AND NOT ${hasAdjustedRoot('option_symbol')}`, 'gamma * open_interest')}`;
  return `
spots AS (${SPOTS.replace('COUNTED', counted)}
)
SELECT chain.symbol AS symbol, spot, ${weigh(IS_CALL, '')} AS call_gex, ${weigh(IS_PUT, '-')} AS put_gex
FROM ${chain} AS chain INNER JOIN spots ON chain.symbol = spots.symbol GROUP BY chain.symbol, spot ORDER BY 1`;
}

/** The last price of the underlying of each symbol. */
const SPOTS = `
  SELECT symbol, underlying_price AS spot FROM (
    SELECT symbol, underlying_price, row_number() OVER (PARTITION BY symbol ORDER BY time DESC, id DESC) AS age
    FROM COUNTED WHERE underlying_price > 0 AND isFinite(underlying_price)
  ) AS aged WHERE age = 1`;

/**
 * Uses each series' latest record with a gamma, and each symbol's last price of the underlying. Formula and conventions
 * are those of `exposure.ts`.
 */
function buildExposureQuery(counted: string): string {
  const weigh = (right: string, sign: string) => `${sign}100 * 0.01 * spot * spot * ${sumWhere(right, 'gamma_lots')}`;
  const latest = 'time DESC, id DESC';
  const known = 'CASE WHEN isFinite(gamma) THEN 0 ELSE 1 END';
  const paid = (dollars: string) => `CASE WHEN isFinite(premium) AND isFinite(price * size) THEN ${dollars} ELSE 0 END`;
  return `
series AS (
  SELECT symbol, put_call, CASE WHEN ${hasAdjustedRoot('option_symbol')} OR ${hasOddSize('paid', 'standard')} THEN 0 WHEN isFinite(gamma) AND gamma > 0 AND oi > 0 THEN gamma * oi ELSE 0 END AS gamma_lots FROM (
    SELECT ${SERIES_KEY}, oi, gamma, row_number() OVER (PARTITION BY ${SERIES_KEY} ORDER BY ${known}, ${latest}) AS age,
      sum(${paid('premium')}) OVER (PARTITION BY ${SERIES_KEY}) AS paid, sum(${paid('price * size * 100')}) OVER (PARTITION BY ${SERIES_KEY}) AS standard
    FROM ${counted}
  ) AS aged WHERE age = 1
),
spots AS (${SPOTS.replace('COUNTED', counted)}
),
exposures AS (
  SELECT series.symbol AS symbol, spot, ${weigh(IS_CALL, '')} AS call_gex, ${weigh(IS_PUT, '-')} AS put_gex
  FROM series INNER JOIN spots ON series.symbol = spots.symbol GROUP BY series.symbol, spot
)
SELECT symbol, spot, call_gex, put_gex, call_gex + put_gex AS net_gex
FROM exposures ORDER BY abs(call_gex + put_gex) DESC, symbol LIMIT ${TOP_EXPOSURES}`;
}

function buildLeftOutQuery(file: string, hasGaps: boolean): string {
  return `SELECT ${buildFate(file, 'id')} AS record, count(*) AS trades, sum(${hasGaps ? KNOWN_PREMIUM : 'premium'}) AS total_premium\nFROM ${file} GROUP BY 1 ORDER BY 1`;
}
