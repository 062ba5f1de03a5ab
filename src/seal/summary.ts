/**
 * The summary of a drop: one row a symbol and one for all of them (symbol empty), so that a comparison over many days
 * reads some kilobytes a day instead of the days themselves. The sums are those of the report, over the records that
 * count; what does not count, and all that the file holds, is tallied beside them.
 */
import { rm } from 'node:fs/promises';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import { buildFate, COUNTED_COLUMNS } from '../measure/counted.ts';
import {
  AT_ASK,
  AT_BID,
  IS_CALL,
  IS_PUT,
  PREMIUM_COLUMNS,
  PREMIUM_MEASURES,
  SERIES_KEY,
  sumWhere,
} from '../measure/premium.ts';
import type { DropColumn } from './columns.ts';
import { writeFooter } from './footer.ts';
import { COMPRESSION } from './parquet.ts';

type Measures = readonly (readonly [string, string])[];

/** Column and its SQL. Premium is in dollars, contracts in lots. */
const SUMS: Measures = [
  ...PREMIUM_MEASURES,
  ['call_ask_premium', sumWhere(`${IS_CALL} AND ${AT_ASK}`, 'premium')],
  ['call_bid_premium', sumWhere(`${IS_CALL} AND ${AT_BID}`, 'premium')],
  ['put_ask_premium', sumWhere(`${IS_PUT} AND ${AT_ASK}`, 'premium')],
  ['put_bid_premium', sumWhere(`${IS_PUT} AND ${AT_BID}`, 'premium')],
];

/** What `selectCells` gives for a series is summed over those that count; the rest is tallied. */
const IS_COUNTED = "fate = 'counted'";
const IS_ABOVE = `${IS_COUNTED} AND cells.contracts > open_interest`;
const TALLIES: Measures = [
  ['series', `countIf(${IS_COUNTED})`],
  ['volume_above_oi_series', `countIf(${IS_ABOVE})`],
  ['volume_above_oi_premium', `sumIf(cells.total_premium, ${IS_ABOVE})`],
  ...tally('cancel_message', "fate = 'cancel message'"),
  ...tally('cancelled_print', "fate = 'cancelled print'"),
  ...tally('late_report', "fate = 'late report'"),
  ...tally('recorded', 'true'),
];

/** Only summaries whose sums leave records out have it; before, cancel messages and late reports were in every sum. */
const MARK = 'recorded_trades';

/** Columns of a drop that the measures are computed from. */
const NEEDED: readonly string[] = [...new Set(['symbol', 'oi', ...COUNTED_COLUMNS, ...PREMIUM_COLUMNS])];

/** Sums of the same numbers in another order differ in their last digits. */
const RELATIVE_TOLERANCE = 1e-9;

/** Whether a drop of these columns has a summary: one of single trades with all that it is computed from. */
export function hasSummary(job: Pick<Job, 'source'>, columns: readonly Pick<DropColumn, 'name'>[]): boolean {
  const names = new Set(columns.map(({ name }) => name));
  return (job.source.kind === 'rows' || job.source.kind === 'table') && NEEDED.every((name) => names.has(name));
}

/**
 * Writes the summary of a drop's file as Parquet, sorted by symbol, with a footer as drops have it: the order declared,
 * and readable to those that know version 1 alone.
 * @throws EngineFault; Fault `SEAL_UNVERIFIED`
 */
export async function writeSummary(engine: Engine, dropPath: string, path: string): Promise<void> {
  await rm(path, { force: true });
  await engine.command(
    `${selectSummary(dropPath)} ORDER BY symbol INTO OUTFILE ${quoteString(path)} FORMAT Parquet SETTINGS output_format_parquet_compression_method = '${COMPRESSION}', max_threads = 1`,
  );
  await writeFooter(path, { columns: [], sort: ['symbol'], keyValues: {} });
}

/**
 * What is wrong with a summary beside its drop, in words; empty when it says what the drop says. Of a summary that an
 * older version wrote, the sums are compared that it shares with today's, over the records that it counted. @throws EngineFault
 */
export async function compareSummary(engine: Engine, dropPath: string, path: string): Promise<readonly string[]> {
  const file = `file(${quoteString(path)}, Parquet)`;
  const described = await engine.rows<{ readonly name: string }>(`DESCRIBE TABLE ${file}`);
  const present = new Set(described.map(({ name }) => name));
  const names = (present.has(MARK) ? listNames() : SUMS.map(([name]) => name)).filter((name) => present.has(name));
  const missing = present.has(MARK) ? listNames().filter((name) => !present.has(name)) : [];
  if (missing.length > 0) return [`the summary has no column ${missing.join(', ')}`];
  const expected = present.has(MARK) ? selectSummary(dropPath) : selectGroups(SUMS, fileOf(dropPath));
  const differs = names.map((name) => {
    const [a, b] = [`a.${quoteIdentifier(name)}`, `b.${quoteIdentifier(name)}`];
    return `abs(${a} - ${b}) > ${RELATIVE_TOLERANCE} * greatest(1, abs(${a}))`;
  });
  const list = ['symbol', ...names].map(quoteIdentifier).join(', ');
  const found = await engine.rows<{ symbol: string; names: readonly string[] }>(
    `SELECT if(a.here = 1, a.symbol, b.symbol) AS symbol,
       if(a.here + b.here < 2, ['trades'], arrayFilter((n, d) -> d, [${names.map(quoteString).join(', ')}], [${differs.join(', ')}])) AS names
     FROM (SELECT ${list}, 1 AS here FROM (${expected})) AS a
     FULL OUTER JOIN (SELECT ${list}, 1 AS here FROM ${file}) AS b ON a.symbol = b.symbol
     WHERE notEmpty(names) ORDER BY symbol LIMIT 3`,
  );
  return found.map(
    ({ symbol, names: wrong }) =>
      `the summary of ${symbol === '' ? 'all symbols' : symbol} has another ${wrong.join(', ')} than the drop's rows give`,
  );
}

/**
 * The file is read once: into cells of an option series and what became of its records, which are then added up. So a
 * series' volume is known where it is compared with its open interest.
 */
function selectSummary(dropPath: string): string {
  const file = fileOf(dropPath);
  // Grouped by a hash of the key, which takes half the time of the key itself.
  const records = `SELECT *, ${buildFate(file, '_row_number')} AS fate, cityHash64(${SERIES_KEY}) AS series_hash FROM ${file}`;
  const cells = `SELECT any(symbol) AS symbol, fate, max(oi) AS open_interest, ${SUMS.map(([name, sql]) => `${sql} AS ${name}`).join(', ')}
    FROM (${records}) GROUP BY series_hash, fate`;
  const sums = SUMS.map(([name]): Measures[number] => [name, `sumIf(cells.${name}, ${IS_COUNTED})`]);
  return selectGroups([...sums, ...TALLIES], `(${cells}) AS cells`);
}

/** Records whose symbol is empty are in the row of all symbols only. */
function selectGroups(measures: Measures, table: string): string {
  // Counts are signed in the file: few readers of Parquet expect unsigned numbers.
  const list = measures.map(
    ([name, sql]) => `${isDollars(name) ? sql : `toInt64(${sql})`} AS ${quoteIdentifier(name)}`,
  );
  return `SELECT symbol, ${list.join(', ')} FROM ${table} GROUP BY GROUPING SETS ((symbol), ()) HAVING symbol != '' OR grouping(symbol) = 1`;
}

function tally(name: string, condition: string): Measures {
  return [
    [`${name}_trades`, `sumIf(cells.trades, ${condition})`],
    [`${name}_premium`, `sumIf(cells.total_premium, ${condition})`],
  ];
}

function isDollars(name: string): boolean {
  return name.endsWith('_premium');
}

function listNames(): readonly string[] {
  return [...SUMS, ...TALLIES].map(([name]) => name);
}

function fileOf(path: string): string {
  return `file(${quoteString(path)}, Parquet)`;
}
