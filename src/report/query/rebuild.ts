/**
 * Builds the queries that let a reader rebuild the report's tables from the object, saved under its own name. Plain SQL
 * for ClickHouse and DuckDB: a double-quoted file name is a table in `duckdb` and in `clickhouse local`. They count the
 * same records as the report, with the rule written out. Pure.
 */

import type { Families } from '../../api-contract/family.ts';
import type { Exclusions, RebuildQuery } from '../model.ts';
import { buildPartList, buildPremiumList } from '../number-values.ts';
import {
  buildCountedTable,
  buildFatesQuery,
  buildLeftOutTable,
  IS_SWEEP,
  KNOWN_PREMIUM,
  nameKnown,
  writeColumns,
} from '../records.ts';
import { selectUnknown } from './exclusions.ts';
import { buildExposureQueries, nameChain, type RebuiltExposure } from './exposure-sql.ts';
import { nameFamilies, type PastSession, selectSessions, selectSymbolHistory } from './past-sessions.ts';
import { buildStates, selectContracts } from './series-state.ts';
import { fillSql } from './sql.ts';
import { EXPIRY_BUCKET, MONEYNESS_BUCKET } from './sums.ts';
import { selectBiggestTrades, selectEarnings, selectMoved } from './trades.ts';

interface Rebuilt {
  readonly date: string;
  /** The condition for the hours of the report; null if all records are in these. */
  readonly hours: string | null;
  /** If the file has nothing to leave out, the queries omit the rule. */
  readonly exclusions: Exclusions;
  /** Whether records lack a premium or a size. */
  readonly hasGaps: boolean;
  readonly families: Families;
  /** The same if the file has symbols that are shown under another; else null. */
  readonly merged: Families | null;
  /** URL of the chain drop of the date, which the reader saves under its last path segment; null without one. */
  readonly chain: string | null;
  /** The same of the market-structure drop. */
  readonly structure: string | null;
  /** Null if the report has no exposure. */
  readonly exposure: RebuiltExposure | null;
  /** The sessions that the day is compared with, newest first. */
  readonly past: readonly Pick<PastSession, 'date' | 'share'>[];
  readonly hasEarnings: boolean;
}

/** @param location URL of the object; the reader's file has its last path segment as name */
export function buildRebuildQueries(
  location: string,
  { date, hours, exclusions, hasGaps, families, merged, chain, structure, exposure, past, hasEarnings }: Rebuilt,
): readonly RebuildQuery[] {
  const file = nameFile(location);
  const { cancelMessages, lateReports } = exclusions;
  const leavesOut = cancelMessages.trades + lateReports.trades > 0;
  const source = buildSource(file, leavesOut, writeColumns(hasGaps, merged), hours);
  const prelude = source === null ? '' : `WITH counted AS ${source}\n`;
  const rest = source === null ? 'WITH' : `WITH counted AS ${source},`;
  const counted = source === null ? file : 'counted';
  const values = { counted, numbers: buildPremiumList(hasGaps), parts: buildPartList(hasGaps) };
  const states = `${rest}\n${buildStates(counted, date)}`;
  const tables: readonly (readonly [string, string])[] = [
    ['Headline', `${prelude}${fillSql('headline', values)}`],
    ['Symbols', `${prelude}${fillSql('symbols', values)}`],
    ['Half hours', `${prelude}${fillSql('half-hours', values)}`],
    ['Expirations', `${prelude}${fillSql('expirations', { ...values, bucket: EXPIRY_BUCKET })}`],
    ['Moneyness', `${prelude}${fillSql('moneyness', { ...values, bucket: MONEYNESS_BUCKET })}`],
    ['Biggest trades', `${prelude}${selectBiggestTrades(counted, hasGaps)}`],
    ['Biggest sweeps', `${prelude}${selectBiggestTrades(counted, hasGaps, { isChosen: IS_SWEEP })}`],
    ['Contracts by premium', `${states}\n${selectContracts()}`],
    ['What moved the day', `${prelude}${selectMoved(counted)}`],
    ...(hasEarnings ? [['Earnings within ten days', `${prelude}${selectEarnings(counted)}`] as const] : []),
    ...(exposure === null
      ? []
      : buildExposureQueries(
          states,
          {
            counted,
            chain: chain && nameChain(nameFile(chain), families),
            structure: structure && nameFile(structure),
          },
          exposure,
        )),
    ...buildComparisonQueries(rest, counted, past, families),
    ['Volume above open interest', `${states}\n${fillSql('volume-above')}`],
    ...(leavesOut
      ? [
          [
            'Biggest left out',
            selectBiggestTrades(nameKnown(buildLeftOutTable(file), merged), true, { also: ', record' }),
          ] as const,
        ]
      : []),
    ['Records left out', buildFatesQuery(file, hasGaps ? KNOWN_PREMIUM : 'premium', hours)],
    ...exclusions.unknownCodes.map(
      ({ column }) => [`Unknown ${column}`, `${prelude}${selectUnknown(counted, column)}`] as const,
    ),
  ];
  return tables.map(([table, sql]) => ({ table, sql: `${sql};` }));
}

/** The records that count, with premiums that can be summed; null if this is the unchanged file. */
function buildSource(file: string, leavesOut: boolean, columns: string, hours: string | null): string | null {
  const counted = leavesOut ? buildCountedTable(file) : file;
  if (columns === '*' && hours === null) return leavesOut ? counted : null;
  return `(SELECT ${columns} FROM ${counted}${leavesOut ? ' AS records' : ''}${hours === null ? '' : ` WHERE ${hours}`})`;
}

/** The file under its own name, as a table. */
function nameFile(location: string): string {
  return `"${location.slice(location.lastIndexOf('/') + 1).replaceAll('"', '""')}"`;
}

/**
 * @param with_ how a query begins: `WITH`, or `WITH counted AS (...),`
 * @param counted the counted records, for a FROM clause
 * @param sessions those that are compared, newest first; none: there is no query
 */
function buildComparisonQueries(
  with_: string,
  counted: string,
  sessions: Rebuilt['past'],
  families: Families,
): readonly (readonly [table: string, sql: string])[] {
  if (sessions.length === 0) return [];
  const nameOf = (date: string) => `${date}.summary.parquet`;
  const past = sessions.map(({ date, share }) => ({
    ...{ date, share },
    table: nameFamilies(`"${nameOf(date)}"`, families),
  }));
  const note = `-- Save summary.parquet of each session under its date: ${past.map(({ date }) => nameOf(date)).join(', ')}\n`;
  return [
    ['Sessions before', `${note}${selectSessions(past)}`],
    [
      'Symbols against the sessions before',
      `${note}${with_}\n${fillSql('symbols-before', { counted, past: selectSymbolHistory(past) })}`,
    ],
  ];
}
