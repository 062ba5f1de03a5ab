/**
 * The summary of a drop: one row per symbol and one for all symbols (empty symbol), each as a whole (empty segment) and by
 * segment of a session, so that comparisons over many days read only a few kilobytes per day and compare equal hours.
 * The sums are the report's, over the counted records; more columns count the other records. Segments add up to the whole.
 */
import { rm } from 'node:fs/promises';
import { REPORT_SEGMENTS, type Segment } from '../calendar/segments.ts';
import { type CalendarOverride, formatHalfHour, OPEN_HALF_HOUR } from '../calendar/session.ts';
import type { Engine } from '../engine/engine.ts';
import { formatSettings, parquetFile, quoteString } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { SUMS_WITH_GAPS, sumKnown, sumWhere, writeColumn } from '../report/number-values.ts';
import { chooseShown, OPEN_INTEREST, SHOWN_VALUES } from '../report/query/series-state.ts';
import {
  AT_ASK,
  AT_BID,
  buildFate,
  HALF_HOUR,
  IN_REPORT_SEGMENTS,
  IS_CALL,
  IS_PUT,
  IS_SWEEP,
  KNOWN_PREMIUM,
  SERIES_HASH,
  SUMMARIZED_COLUMNS,
  writePlace,
} from '../report/records.ts';
import { ALL_SYMBOLS, type DayShape, type SymbolShape } from './baseline.ts';
import { writeFooter } from './footer.ts';
import { COMPRESSION, type DropColumn, READ_BACK_SETTINGS } from './write-parquet.ts';

/** Columns and their SQL; `docs/data.md` has their meanings. */
type Measures = readonly (readonly [name: string, sql: string])[];

/** Premium is in dollars, contracts in lots. */
const SUMS: Measures = [
  ...SUMS_WITH_GAPS,
  ['call_ask_premium', sumKnown(`${IS_CALL} AND ${AT_ASK}`, 'premium')],
  ['call_bid_premium', sumKnown(`${IS_CALL} AND ${AT_BID}`, 'premium')],
  ['put_ask_premium', sumKnown(`${IS_PUT} AND ${AT_ASK}`, 'premium')],
  ['put_bid_premium', sumKnown(`${IS_PUT} AND ${AT_BID}`, 'premium')],
  ['sweep_trades', sumWhere(IS_SWEEP, '1')],
];

/** Half hours of a block, which regular trading does not exceed: a cell has those of one. */
const BLOCK = 14;

/** When the records of a cell traded. */
const TIMES: Measures = [
  ['expirations', 'any(expiration_date)'],
  ['last_trade_second', "max(dateDiff('second', toStartOfDay(time), time))"],
  ['in_block', `countResample(0, ${BLOCK}, 1)(half_hour % ${BLOCK})`],
];

/** What several of `MEASURES` share. */
const COMMON = ["fate = 'counted' AS is_counted", 'is_counted AND cells.volume > cells.shown AS is_above'];

/** The columns of the summary after the symbol, from the cells of `selectSummary`. */
const MEASURES: Measures = [
  ...SUMS.map(([name]) => [name, sumCounted(name)] as const),
  ['series', 'countIf(is_counted)'],
  ['volume_above_oi_series', 'countIf(is_above)'],
  ['unknown_oi_series', 'countIf(is_counted AND (isNull(cells.volume) OR isNull(cells.shown)))'],
  ['volume_above_oi_premium', orZero('sumIf(cells.total_premium, is_above)', 'volume_above_oi_series')],
  ...tally('cancel_message', "fate = 'cancel message'"),
  ...tally('cancelled_print', "fate = 'cancelled print'"),
  ...tally('late_report', "fate = 'late report'"),
  ...tally('recorded', 'true'),
  ['expirations', 'uniqExactIf(cells.expirations, is_counted)'],
  ['last_trade_second', 'maxIf(cells.last_trade_second, is_counted)'],
];

/** Sums of the same numbers in another order differ in their last digits. */
const RELATIVE_TOLERANCE = 1e-9;

const SUMMARY_SORT = ['symbol', 'session_date', 'segment'];

/** Whether a drop has a summary: only single trades with all needed columns have one. */
export function hasSummary(job: Pick<Job, 'source'>, columns: readonly Pick<DropColumn, 'name'>[]): boolean {
  const names = new Set(columns.map(({ name }) => name));
  return (
    (job.source.kind === 'rows' || job.source.kind === 'table') && SUMMARIZED_COLUMNS.every((name) => names.has(name))
  );
}

/** A drop's file on this disk, and the calendar that decides which session its records belong to. */
export interface SummarizedDrop {
  readonly path: string;
  readonly date: string;
  readonly calendar?: CalendarOverride | undefined;
}

/**
 * Writes the summary of a drop's file as Parquet, sorted by symbol, with the same footer as drops: sort order declared,
 * readable by version 1 readers.
 * @throws EngineFault; Fault `SEAL_UNVERIFIED`
 */
export async function writeSummary(engine: Engine, drop: SummarizedDrop, path: string): Promise<void> {
  await rm(path, { force: true });
  await engine.command(
    `${selectSummary(drop)} INTO OUTFILE ${quoteString(path)} FORMAT Parquet ${formatSettings({ ...READ_BACK_SETTINGS, output_format_parquet_compression_method: COMPRESSION, max_threads: 1 })}`,
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
export async function compareSummary(engine: Engine, drop: SummarizedDrop, path: string): Promise<readonly string[]> {
  const file = parquetFile(path);
  const described = await engine.rows<{ readonly name: string }>(`DESCRIBE TABLE ${file}`);
  const names = [...SUMMARY_SORT, ...MEASURES.map(([name]) => name), 'half_hours'];
  const missing = names.filter((name) => !described.some((column) => column.name === name));
  if (missing.length > 0) return [`the summary has no column ${missing.join(', ')}`];
  const expected = await readRows(engine, selectSummary(drop));
  const found = await readRows(engine, `SELECT * FROM ${file}`);
  const differences: string[] = [];
  for (const row of new Set([...expected.keys(), ...found.keys()])) {
    const [a, b] = [expected.get(row), found.get(row)];
    const wrong = a && b ? names.filter((name) => isOther(a[name], b[name])) : ['trades'];
    if (wrong.length > 0) differences.push(`the summary of ${row} differs from the drop's rows in ${wrong.join(', ')}`);
  }
  return differences.slice(0, MOST_NAMED);
}

type SummaryRow = Readonly<Record<string, number | string | null>>;

/** By what a row is of: `SPX`, `SPX, 2026-11-20 curb`. */
async function readRows(engine: Engine, sql: string): Promise<ReadonlyMap<string, SummaryRow>> {
  const rows = await engine.rows<SummaryRow>(sql);
  return new Map(
    rows.map((row) => {
      const segment = row['segment'] === '' ? '' : `, ${row['session_date']} ${row['segment']}`;
      return [`${row['symbol'] || 'all symbols'}${segment}`, row];
    }),
  );
}

function isOther(a: SummaryRow[string] | undefined, b: SummaryRow[string] | undefined): boolean {
  if (typeof a !== 'number' || typeof b !== 'number') return a !== b;
  return Math.abs(a - b) > RELATIVE_TOLERANCE * Math.max(1, Math.abs(a));
}

/**
 * The day of a summary as the check `baseline` compares it: the session's early, regular and late segments.
 * @param path of the summary @throws EngineFault
 */
export async function readShape(
  engine: Engine,
  { date, rows, statistics }: Pick<Manifest, 'date' | 'rows' | 'statistics'>,
  path: string,
): Promise<DayShape> {
  const numbers = ['trades', 'total_premium', 'call_premium', 'put_premium', 'expirations', 'last_trade_second'];
  const texts = ['symbol', 'session_date', 'segment', 'half_hours'];
  const structure = [...texts.map((name) => `${name} String`), ...numbers.map((name) => `${name} Nullable(Float64)`)];
  const found = await engine.rows<
    Omit<SymbolShape, 'halfHours'> & { readonly symbol: string; readonly hours: readonly string[] }
  >(
    `SELECT symbol, ifNull(sum(s.trades), 0) AS trades, sum(s.total_premium) AS premium, sum(s.call_premium) AS calls, sum(s.put_premium) AS puts, ifNull(max(s.expirations), 0) AS expirations, ifNull(max(s.last_trade_second), 0) AS lastTrade, groupArray(half_hours) AS hours FROM ${parquetFile(path, structure.join(', '))} AS s WHERE session_date = ${quoteString(date)} AND ${IN_REPORT_SEGMENTS} GROUP BY symbol`,
  );
  const none = { trades: 0, premium: 0, calls: 0, puts: 0, expirations: 0, lastTrade: 0, halfHours: [] };
  return {
    date,
    rows,
    nulls: new Map(statistics.map(({ column, nulls }) => [column, nulls])),
    symbols: new Map([
      [ALL_SYMBOLS, none],
      ...found.map(({ symbol, hours, ...shape }) => [symbol, { ...shape, halfHours: readHalfHours(hours) }] as const),
    ]),
  };
}

/** Trades of each half hour from the opening on; `undefined` in the list: none. */
function readHalfHours(segments: readonly string[]): readonly number[] {
  const halfHours: number[] = [];
  for (const segment of segments) {
    for (const [start, trades] of Object.entries(JSON.parse(segment) as Record<string, number>)) {
      const at = Number(start.slice(0, 2)) * 2 + (start.endsWith(':30') ? 1 : 0) - OPEN_HALF_HOUR;
      if (at >= 0) halfHours[at] = (halfHours[at] ?? 0) + trades;
    }
  }
  return Array.from(halfHours, (trades) => trades ?? 0);
}

/** The rows of the summary: by segment and as a whole, of each symbol and of all. */
const ROWS = 'GROUPING SETS ((root, session_date, segment), (root), (session_date, segment), ())';

/** Blocks are counted from a time before midnight, so that regular trading begins with one. */
const BEFORE_MIDNIGHT = 2 * BLOCK - OPEN_HALF_HOUR;
const HALF_HOUR_NAMES = `[${Array.from({ length: 48 }, (_, at) => `'${formatHalfHour(at)}'`).join(', ')}]`;

/**
 * Reads the file once, into cells by option series, segment, block of half hours and fate of the records, then sums the
 * cells. So a series' volume is known when it is compared with its open interest. Records without a symbol count only in the
 * rows of all symbols.
 * @returns a query for the rows of the summary, in its order
 */
function selectSummary({ path, date, calendar }: SummarizedDrop): string {
  const file = parquetFile(path);
  const places: (readonly [session: string, segment: Segment])[] = [];
  const place = writePlace(date, calendar, (session, segment) => {
    const known = places.findIndex((one) => one[0] === session && one[1] === segment);
    return String(known === -1 ? places.push([session, segment]) - 1 : known);
  });
  const ofPlace = (read: (session: string, segment: Segment) => string) =>
    `[${places.map((one) => quoteString(read(...one))).join(', ')}][place + 1]`;
  // Grouping by a hash of the key takes half the time, by a number less than by texts.
  const records = `SELECT * REPLACE (${KNOWN_PREMIUM} AS premium), ${buildFate(file, '_row_number')} AS fate, ${SERIES_HASH} AS series_hash, toUInt8(${place}) AS place, toUInt8(${HALF_HOUR} + ${BEFORE_MIDNIGHT}) AS half_hour FROM ${file}`;
  // Not named `symbol`, because the sums read the records' own.
  const sums = [...SUMS, ...TIMES].map(([name, sql]) => writeColumn([name, sql]));
  const cells = `SELECT ifNull(any(symbol), '') AS root, series_hash, fate, place, intDiv(half_hour, ${BLOCK}) AS block, ${OPEN_INTEREST} AS open_interest, ${SHOWN_VALUES} AS shown_values, ${sums.join(', ')}
    FROM (${records}) GROUP BY series_hash, fate, place, block`;
  // A report's hours are one part of a session: within it, a series has one volume and one open interest.
  const part = ofPlace((session, segment) => `${session} ${REPORT_SEGMENTS.includes(segment) ? '' : segment}`);
  const parts = `SELECT *, ${ofPlace((session) => session)} AS session_date, ${ofPlace((_, segment) => segment)} AS segment,
      sum(contracts) OVER part AS volume, groupArrayArray(shown_values) OVER part AS all_shown,
      if(count() OVER part = 1 OR empty(all_shown), max(open_interest) OVER part, ${chooseShown('all_shown')}) AS shown,
      arrayConcat(arrayWithConstant(block * ${BLOCK}, 0), in_block) AS half_hours
    FROM (${cells}) WINDOW part AS (PARTITION BY series_hash, fate, ${part})`;
  // Counts are signed in the file: few Parquet readers expect unsigned numbers.
  const columns = MEASURES.map(([name, sql]) => writeColumn([name, isOfPremium(name) ? sql : `toInt64(${sql})`]));
  const named = `arrayMap((trades, at) -> if(trades = 0, '', concat('"', ${HALF_HOUR_NAMES}[at - ${BEFORE_MIDNIGHT}], '":', toString(trades))), sums, arrayEnumerate(sumForEachIf(cells.half_hours, is_counted) AS sums))`;
  return `WITH ${COMMON.join(', ')} SELECT root AS symbol, session_date, segment, ${columns.join(', ')},
      concat('{', arrayStringConcat(arrayFilter(one -> one != '', ${named}), ','), '}') AS half_hours
    FROM (${parts}) AS cells GROUP BY ${ROWS} HAVING root != '' OR grouping(root) = 1 ORDER BY ${SUMMARY_SORT.join(', ')}`;
}

/** Over the counted records; other records are tallied by fate. */
function sumCounted(name: string): string {
  const sum = `sumIf(cells.${name}, is_counted)`;
  if (isOfPremium(name)) return orZero(sum, 'unpriced_trades');
  return isOfVolume(name) ? orZero(sum, 'unsized_trades') : sum;
}

function tally(name: string, condition: string): Measures {
  const premium = `sumIf(cells.total_premium, ${condition})`;
  return [
    [`${name}_trades`, `sumIf(cells.trades, ${condition})`],
    [`${name}_premium`, orZero(premium, `${name}_trades`)],
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
