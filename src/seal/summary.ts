/**
 * The summary of a drop: one row per symbol and one for all symbols (empty symbol), so that comparisons over many days
 * read only a few kilobytes per day. The sums are the report's, over the counted records; more columns count the other
 * records.
 */
import { rm } from 'node:fs/promises';
import { CLOSE_HALF_HOUR, formatHalfHour, OPEN_HALF_HOUR } from '../calendar/session.ts';
import type { Engine } from '../engine/engine.ts';
import { formatSettings, parquetFile, quoteString } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { SUMS_WITH_GAPS, sumKnown, sumWhere, writeColumn } from '../report/number-values.ts';
import { NUMBERS } from '../report/numbers.ts';
import { OPEN_INTEREST } from '../report/query/series-state.ts';
import {
  AT_ASK,
  AT_BID,
  buildFate,
  HALF_HOUR,
  IS_CALL,
  IS_PUT,
  IS_SWEEP,
  KNOWN_PREMIUM,
  SERIES_HASH,
  SUMMARIZED_COLUMNS,
} from '../report/records.ts';
import type { DayShape, SymbolShape } from './baseline.ts';
import type { DropColumn } from './drop-columns.ts';
import { writeFooter } from './footer.ts';
import { COMPRESSION, READ_BACK_SETTINGS } from './write-parquet.ts';

/** Column, its SQL, and its meaning; a number of the report has its own in `NUMBERS`. */
type Measures = readonly (readonly [name: string, sql: string, meaning?: string])[];

/** Premium is in dollars, contracts in lots. */
const SUMS: Measures = [
  ...SUMS_WITH_GAPS,
  ['call_ask_premium', sumKnown(`${IS_CALL} AND ${AT_ASK}`, 'premium'), 'Premium of calls at or above the ask'],
  ['call_bid_premium', sumKnown(`${IS_CALL} AND ${AT_BID}`, 'premium'), 'Premium of calls at or below the bid'],
  ['put_ask_premium', sumKnown(`${IS_PUT} AND ${AT_ASK}`, 'premium'), 'Premium of puts at or above the ask'],
  ['put_bid_premium', sumKnown(`${IS_PUT} AND ${AT_BID}`, 'premium'), 'Premium of puts at or below the bid'],
  ['sweep_trades', sumWhere(IS_SWEEP, '1'), 'Trades of intermarket sweep orders'],
];

/** When the records of a cell traded. */
const TIMES: Measures = [
  ['expirations', 'any(expiration_date)'],
  ['last_trade_second', "max(dateDiff('second', toStartOfDay(time), time))"],
  // One array in place of 14 columns: the engine needs longer to plan the statement than to read a small drop.
  ['half_hours', `countResample(${OPEN_HALF_HOUR}, ${CLOSE_HALF_HOUR + 1}, 1)(half_hour)`],
];

/** The columns `trades_0930` to `trades_1600`. */
const HALF_HOURS: Measures = Array.from({ length: CLOSE_HALF_HOUR - OPEN_HALF_HOUR + 1 }, (_, index) => {
  const start = formatHalfHour(OPEN_HALF_HOUR + index);
  return [`trades_${start.replace(':', '')}`, `half_hours[${index + 1}]`, `Trades of the half hour from ${start}`];
});

/** What several of `MEASURES` share. */
const COMMON = [
  "fate = 'counted' AS is_counted",
  'is_counted AND cells.contracts > open_interest AS is_above',
  'sumForEachIf(cells.half_hours, is_counted) AS half_hours',
];

/** The columns of the summary after the symbol, from the cells of `selectSummary`. */
const MEASURES: Measures = [
  ...SUMS.map(([name, , ...meaning]) => [name, sumCounted(name), ...meaning] as const),
  ['series', 'countIf(is_counted)', 'Contracts that traded'],
  ['volume_above_oi_series', 'countIf(is_above)', 'Contracts that traded more than their open interest'],
  [
    'unknown_oi_series',
    'countIf(is_counted AND (isNull(cells.contracts) OR isNull(open_interest)))',
    'Contracts that traded, of unknown volume or open interest',
  ],
  [
    'volume_above_oi_premium',
    orZero('sumIf(cells.total_premium, is_above)', 'volume_above_oi_series'),
    'Premium of these contracts',
  ],
  ...tally('cancel_message', "fate = 'cancel message'", 'cancel messages, left out of all sums above'),
  ...tally('cancelled_print', "fate = 'cancelled print'", 'prints that were cancelled, left out'),
  ...tally('late_report', "fate = 'late report'", 'late reports, left out'),
  ...tally('recorded', 'true', 'all records of the drop, including those left out'),
  ['expirations', 'uniqExactIf(cells.expirations, is_counted)', 'Distinct expiration dates that traded'],
  [
    'last_trade_second',
    'maxIf(cells.last_trade_second, is_counted)',
    'Time of the last trade, since midnight in New York',
  ],
  ...HALF_HOURS,
];

/** A column of the summary, as its readers need it. */
export interface SummaryColumn {
  readonly name: string;
  readonly type: 'string' | 'int64' | 'double';
  /** Null: no counted record has the number. */
  readonly nullable: boolean;
  readonly unit: string;
  readonly meaning: string;
}

/** Sums of the same numbers in another order differ in their last digits. */
const RELATIVE_TOLERANCE = 1e-9;

const SUMMARY_SORT = ['symbol'];

/** Whether a drop has a summary: only single trades with all needed columns have one. */
export function hasSummary(job: Pick<Job, 'source'>, columns: readonly Pick<DropColumn, 'name'>[]): boolean {
  const names = new Set(columns.map(({ name }) => name));
  return (
    (job.source.kind === 'rows' || job.source.kind === 'table') && SUMMARIZED_COLUMNS.every((name) => names.has(name))
  );
}

/** The columns of the summary, in the order of the file. */
export function listSummaryColumns(): readonly SummaryColumn[] {
  const labels = new Map(NUMBERS.map(({ column, name, label }) => [column ?? name, label]));
  const symbol = { name: 'symbol', type: 'string', nullable: false, unit: '' } as const;
  return [
    { ...symbol, meaning: 'Underlying symbol; empty in the row of all symbols' },
    ...MEASURES.map(([name, , meaning]): SummaryColumn => {
      const isPremium = isOfPremium(name);
      const isVolume = isOfVolume(name);
      return {
        name,
        type: isPremium ? 'double' : 'int64',
        nullable: isPremium || isVolume,
        unit: isPremium ? 'dollars' : isVolume ? 'contracts' : (UNITS[name] ?? 'trades'),
        meaning: meaning ?? labels.get(name) ?? '',
      };
    }),
  ];
}

/** Units of counts that are not of trades. */
const UNITS: Readonly<Record<string, string>> = {
  series: 'series',
  volume_above_oi_series: 'series',
  unknown_oi_series: 'series',
  expirations: 'dates',
  last_trade_second: 'seconds',
};

/**
 * Writes the summary of a drop's file as Parquet, sorted by symbol, with the same footer as drops: sort order declared,
 * readable by version 1 readers.
 * @throws EngineFault; Fault `SEAL_UNVERIFIED`
 */
export async function writeSummary(engine: Engine, dropPath: string, path: string): Promise<void> {
  await rm(path, { force: true });
  await engine.command(
    `${selectSummary(parquetFile(dropPath))} INTO OUTFILE ${quoteString(path)} FORMAT Parquet ${formatSettings({ ...READ_BACK_SETTINGS, output_format_parquet_compression_method: COMPRESSION, max_threads: 1 })}`,
    // One core computes it, while the file is verified.
    { beside: true },
  );
  await writeFooter(path, { columns: [], sort: SUMMARY_SORT, keyValues: {} });
}

/** Symbols named at most. */
const MOST_NAMED = 3;

/**
 * Describes the differences between a summary and its drop; empty if there are none. Both are read and compared here: the
 * engine needs longer to compile such a comparison than to compute the summary. @throws EngineFault
 */
export async function compareSummary(engine: Engine, dropPath: string, path: string): Promise<readonly string[]> {
  const file = parquetFile(path);
  const described = await engine.rows<{ readonly name: string }>(`DESCRIBE TABLE ${file}`);
  const names = listSummaryColumns().flatMap(({ name }) => (name === 'symbol' ? [] : [name]));
  const missing = names.filter((name) => !described.some((column) => column.name === name));
  if (missing.length > 0) return [`the summary has no column ${missing.join(', ')}`];
  const expected = await readSymbols(engine, selectSummary(parquetFile(dropPath)));
  const found = await readSymbols(engine, `SELECT * FROM ${file}`);
  const differences: string[] = [];
  for (const symbol of [...new Set([...expected.keys(), ...found.keys()])].sort()) {
    const [a, b] = [expected.get(symbol), found.get(symbol)];
    const wrong = a && b ? names.filter((name) => isOther(a[name], b[name])) : ['trades'];
    const of = symbol === '' ? 'all symbols' : symbol;
    if (wrong.length > 0) differences.push(`the summary of ${of} differs from the drop's rows in ${wrong.join(', ')}`);
  }
  return differences.slice(0, MOST_NAMED);
}

type Sums = Readonly<Record<string, number | null>>;

async function readSymbols(engine: Engine, sql: string): Promise<ReadonlyMap<string, Sums>> {
  const rows = await engine.rows<{ readonly symbol: string } & Sums>(sql);
  return new Map(rows.map((row) => [row.symbol, row]));
}

function isOther(a: number | null | undefined, b: number | null | undefined): boolean {
  if (typeof a !== 'number' || typeof b !== 'number') return a !== b;
  return Math.abs(a - b) > RELATIVE_TOLERANCE * Math.max(1, Math.abs(a));
}

/**
 * The day of a summary as the check `baseline` compares it. @param path of the summary @throws EngineFault
 */
export async function readShape(
  engine: Engine,
  { date, rows, statistics }: Pick<Manifest, 'date' | 'rows' | 'statistics'>,
  path: string,
): Promise<DayShape> {
  const halfHours = HALF_HOURS.map(([name]) => name);
  const names = ['trades', 'total_premium', 'expirations', 'last_trade_second', ...halfHours];
  const structure = ['symbol String', ...names.map((name) => `${name} Nullable(Float64)`)].join(', ');
  const known = (name: string) => `ifNull(s.${name}, 0)`;
  const found = await engine.rows<{ readonly symbol: string } & SymbolShape>(
    `SELECT symbol, ${known('trades')} AS trades, s.total_premium AS premium, ${known('expirations')} AS expirations, ${known('last_trade_second')} AS lastTrade, [${halfHours.map(known).join(', ')}] AS halfHours FROM ${parquetFile(path, structure)} AS s`,
  );
  return {
    date,
    rows,
    nulls: new Map(statistics.map(({ column, nulls }) => [column, nulls])),
    symbols: new Map(found.map(({ symbol, ...shape }) => [symbol, shape])),
  };
}

/**
 * Reads the file once, into cells by option series and by fate of the records, then sums the cells. So a series' volume
 * is known when it is compared with its open interest. Records without a symbol count only in the row of all symbols.
 * @param file the drop, as SQL reads it @returns a query for the rows of the summary, in its order
 */
function selectSummary(file: string): string {
  // Grouping by a hash of the key takes half the time.
  const records = `SELECT * REPLACE (${KNOWN_PREMIUM} AS premium), ${buildFate(file, '_row_number')} AS fate, ${SERIES_HASH} AS series_hash, ${HALF_HOUR} AS half_hour FROM ${file}`;
  // Not named `symbol`, because the sums read the records' own.
  const sums = [...SUMS, ...TIMES].map(([name, sql]) => writeColumn([name, sql]));
  const cells = `SELECT ifNull(any(symbol), '') AS root, fate, ${OPEN_INTEREST} AS open_interest, ${sums.join(', ')}
    FROM (${records}) GROUP BY series_hash, fate`;
  // Counts are signed in the file: few Parquet readers expect unsigned numbers.
  const columns = MEASURES.map(([name, sql]) => writeColumn([name, isOfPremium(name) ? sql : `toInt64(${sql})`]));
  return `WITH ${COMMON.join(', ')} SELECT root AS symbol, ${columns.join(', ')} FROM (${cells}) AS cells
    GROUP BY GROUPING SETS ((root), ()) HAVING root != '' OR grouping(root) = 1 ORDER BY ${SUMMARY_SORT.join(', ')}`;
}

/** Over the counted records; other records are tallied by fate. */
function sumCounted(name: string): string {
  const sum = `sumIf(cells.${name}, is_counted)`;
  if (isOfPremium(name)) return orZero(sum, 'unpriced_trades');
  return isOfVolume(name) ? orZero(sum, 'unsized_trades') : sum;
}

function tally(name: string, condition: string, records: string): Measures {
  const premium = `sumIf(cells.total_premium, ${condition})`;
  return [
    [`${name}_trades`, `sumIf(cells.trades, ${condition})`, `Number of ${records}`],
    [`${name}_premium`, orZero(premium, `${name}_trades`), `Premium of ${records}`],
  ];
}

/** A sum without numbers is 0 if no record could lack one, otherwise null (unknown). @param lacking how many could */
function orZero(sum: string, lacking: string): string {
  return `coalesce(${sum}, if(${lacking} = 0, 0, NULL))`;
}

function isOfPremium(name: string): boolean {
  return name.endsWith('_premium');
}

function isOfVolume(name: string): boolean {
  return name.endsWith('contracts');
}
