/**
 * Counts of staged rows: rows, distinct ids and sums of hashes by key, for comparison with a recount of the source.
 * Invariant: exact, and in bounded memory however large the day is, because ids are counted in passes, each over a
 * share of them.
 */
import { SYMBOL_TAIL } from '../api-contract/trade.ts';
import type { Axis } from '../calendar/window.ts';
import type { JsonRows } from '../core/json-bytes.ts';
import type { Engine } from '../engine/engine.ts';
import { localFile, quoteIdentifier, quoteString } from '../engine/literal.ts';
import { listPasses, readNumber, sumPasses } from '../engine/passes.ts';
import { HAS_ID, selectRepeatedIds, selectSharedIds, tradeKeySql, versionKeySql } from '../engine/repeated-ids.ts';
import { type HashedColumn, idHashSql, ROW_ID_HASH, ROW_VALUE_HASH, valueHashSql } from '../engine/row-hash.ts';
import { repeatsSql, updateMarkSql } from '../engine/update-mark.ts';
import { secondOfDateSql } from '../engine/wall-clock-sql.ts';
import type { Job } from '../job/job.ts';
import { compareCells, readCell } from '../plan/axis.ts';
import type { CellCount, CountTotals, DayCounts } from '../plan/counts.ts';
import { READ_SETTINGS, withSpooled } from './intake.ts';
import { readType, type StagedTable, WINDOW_COLUMN } from './stage-table.ts';

/** Of rows with one key. An update mark is empty if the job does not export `updated_timestamp`. */
export type StagedCount = Omit<CellCount, 'symbol' | 'second'>;

/** These names avoid the column names of user SQL: an alias would hide such a column. */
interface StagedRow<Key> {
  readonly q_key: Key;
  readonly q_rows: number;
  readonly q_ids: number;
  readonly q_mark: string;
  readonly q_id_hash: string | null;
  readonly q_value_hash: string | null;
}

export interface CountOptions {
  readonly symbol?: string | undefined;
  /** Columns whose values are hashed, beside the ids; if absent, nothing is hashed. */
  readonly hashed?: readonly HashedColumn[] | undefined;
  /** Ids counted per pass; 0: distinct ids are not counted. */
  readonly passIds?: number | undefined;
}

/** SQL key: the second of the day of a row, as in `plan/statement.ts`; for aggregating jobs the start of its grain. */
export function secondKey({ source }: Job, date: string): string {
  const { timeColumn, grainSeconds } = 'timeColumn' in source ? source : { timeColumn: 'time', grainSeconds: 1 };
  if (grainSeconds >= 86_400) return '0';
  return secondOfDateSql(quoteIdentifier(timeColumn), quoteString(date), grainSeconds);
}

export function cellKey(job: Job, date: string, axis: Axis): string {
  return axis === 'symbol' ? 'symbol' : secondKey(job, date);
}

/** Counts by the key of an axis as cells, ascending. @param symbol of which all rows are */
export function asCells(axis: Axis, counts: ReadonlyMap<number | string, StagedCount>, symbol?: string): DayCounts {
  return [...counts].map(([key, count]) => ({ symbol, ...readCell(axis, key), ...count })).sort(compareCells);
}

/**
 * Counts by the values of `key`, an SQL expression. Rows of aggregating jobs have no ids: each counts as one id, and
 * nothing is hashed.
 * @param table quoted name
 */
export async function countStaged<Key extends number | string>(
  engine: Engine,
  { source }: Job,
  table: string,
  key: string,
  { symbol, hashed, passIds }: CountOptions = {},
): Promise<ReadonlyMap<Key, StagedCount>> {
  const byId = source.kind === 'rows' && passIds !== 0;
  const chosen = symbol === undefined ? [] : [`symbol = ${quoteString(symbol)}`];
  const passes = byId ? await listPasses(engine, table, 'id', passIds) : ['true'];
  // Sums need no passes: with several passes, each would read all of these columns again.
  const [first = 'true'] = passes.length === 1 ? passes : ['true'];
  const distinct = byId && passes.length === 1 ? 'uniqExact(id)' : byId ? 'toUInt64(0)' : 'count()';
  const sums = selectSums(source, hashed);
  const group = (what: readonly string[], pass: string) =>
    `SELECT ${key} AS q_key, ${what.join(', ')} FROM ${table} WHERE ${[...chosen, pass].join(' AND ')} GROUP BY q_key`;
  const found = await engine.rows<StagedRow<Key>>(group(['count() AS q_rows', `${distinct} AS q_ids`, ...sums], first));
  const totals = new Map<Key, StagedCount>();
  for (const row of found) {
    const hashes = { idHash: row.q_id_hash ?? undefined, valueHash: row.q_value_hash ?? undefined };
    totals.set(row.q_key, { rows: Number(row.q_rows), ids: Number(row.q_ids), mark: row.q_mark, ...hashes });
  }
  for (const pass of passes.length === 1 ? [] : passes) {
    const ids = await engine.rows<Pick<StagedRow<Key>, 'q_key' | 'q_ids'>>(group(['uniqExact(id) AS q_ids'], pass));
    for (const { q_key, q_ids } of ids) {
      const before = totals.get(q_key);
      if (before) totals.set(q_key, { ...before, ids: before.ids + Number(q_ids) });
    }
  }
  return totals;
}

function selectSums(source: Job['source'], hashed: readonly HashedColumn[] | undefined): readonly string[] {
  const byId = source.kind === 'rows';
  const hasUpdates = byId && source.columns.some(({ name }) => name === 'updated_timestamp');
  return [
    `${hasUpdates ? updateMarkSql('updated_timestamp') : "''"} AS q_mark`,
    `${byId && hashed ? idHashSql() : 'NULL'} AS q_id_hash`,
    `${byId && hashed && hashed.length > 0 ? valueHashSql(hashed) : 'NULL'} AS q_value_hash`,
  ];
}

/** Ids per pass of `countTotals`: a hash takes half the memory of an id. */
const PASS_HASHES = 1_000_000;

/**
 * Rows and distinct ids of a date. Ids are counted by a hash of 64 bits: as many hashes as rows are as many ids. With fewer,
 * the ids themselves are counted, so that two ids with one hash never count as one.
 */
export async function countTotals({ engine, job, table }: StagedTable): Promise<CountTotals> {
  if (job.source.kind === 'rows') {
    const rows = await readNumber(engine, `SELECT count() FROM ${table}`);
    const hashes = 'uniqExactIf(cityHash64(id), isNotNull(id))';
    const count = (pass: string) => `SELECT ${hashes} FROM ${table} WHERE ${pass}`;
    if ((await sumPasses(engine, table, count, PASS_HASHES)) === rows) return { rows, ids: rows };
  }
  const found = (await countStaged<number>(engine, job, table, '0')).get(0);
  return { rows: found?.rows ?? 0, ids: found?.ids ?? 0 };
}

/**
 * Number of rows beyond one per version of a trade, where `updated_timestamp` identifies the version; if the job does
 * not export it, or by `key`, beyond one per id, symbol, time and contract. Rows without an id, or with an empty one,
 * never count as repeats.
 */
export async function countRepeats(stage: StagedTable, one: 'version' | 'key', passIds?: number): Promise<number> {
  const columns = namesOf(stage.job);
  const number = repeatsSql(tradeKeySql(columns), one === 'version' && columns.includes('updated_timestamp'));
  return await sumRepeated(stage, () => number, passIds);
}

/** Counts rows that a newer or identical version of the same trade replaces: no drop contains them. */
export async function countReplaced(stage: StagedTable, passIds?: number): Promise<number> {
  const columns = namesOf(stage.job);
  const number = (rows: string) =>
    `count() - uniqExact(${versionKeySql(columns, selectSharedIds(stage.table, rows, columns))})`;
  return await sumRepeated(stage, number, passIds);
}

function namesOf({ source }: Job): readonly string[] {
  return source.columns.map(({ name }) => name);
}

/** Sums a number over the rows whose id is repeated. @param number an aggregate, given the condition of its rows */
async function sumRepeated(
  { engine, job: { source }, table }: StagedTable,
  number: (rows: string) => string,
  passIds: number | undefined,
): Promise<number> {
  if (source.kind !== 'rows') return 0;
  const count = (pass: string) => {
    const rows = `${pass} AND ${HAS_ID} AND id IN (${selectRepeatedIds(table, pass)})`;
    return `SELECT ${number(rows)} FROM ${table} WHERE ${rows}`;
  };
  return await sumPasses(engine, table, count, passIds);
}

/** The roots of the contracts of each symbol asked for; with an empty one if a contract has no option symbol. */
export async function listRoots({ engine, table }: StagedTable): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = await engine.rows<{ asked: string; roots: readonly string[] }>(
    `SELECT splitByChar(' ', ${WINDOW_COLUMN})[1] AS asked, groupUniqArray(left(replaceAll(ifNull(option_symbol, ''), ' ', ''), -${SYMBOL_TAIL})) AS roots FROM ${table} GROUP BY asked`,
  );
  return new Map(found.map(({ asked, roots }) => [asked, roots]));
}

/** Contracts by strike (thousandths), ascending, of each symbol asked for. */
export async function countByStrike({
  engine,
  table,
}: StagedTable): Promise<ReadonlyMap<string, readonly (readonly [strike: number, contracts: number])[]>> {
  const found = await engine.rows<{ asked: string; k: number; n: number }>(
    `SELECT splitByChar(' ', ${WINDOW_COLUMN})[1] AS asked, toInt64(round(toFloat64OrZero(ifNull(toString(strike), '')) * 1000)) AS k, count() AS n FROM ${table} GROUP BY asked, k HAVING k > 0 ORDER BY asked, k`,
  );
  const strikes = new Map<string, (readonly [number, number])[]>();
  for (const { asked, k, n } of found) {
    strikes.set(asked, [...(strikes.get(asked) ?? []), [Number(k), Number(n)] as const]);
  }
  return strikes;
}

/**
 * Reads an answer to `buildHashedRows`: this separates a difference in form (such as a decimal that a source writes as text)
 * from a difference in rows. Nothing is staged.
 * @returns sums of hashes as the `source` computed them, and as computed here from the received values
 * @throws EngineFault if the rows do not fit the columns
 */
export async function readHashedRows(
  { engine, job, spool }: StagedTable,
  page: JsonRows,
  hashed: readonly HashedColumn[],
) {
  const names = ['id', ...hashed.map(({ name }) => name)];
  const columns = job.source.columns.filter(({ name }) => names.includes(name));
  const structure = [
    ...columns.map((column) => `${quoteIdentifier(column.name)} Nullable(${readType(column)})`),
    ...[ROW_ID_HASH, ROW_VALUE_HASH].map((name) => `${name} String`),
  ];
  const sums = [ROW_ID_HASH, ROW_VALUE_HASH].map((name) => `toString(sum(toUInt64OrZero(${name})))`);
  return await withSpooled(spool, page.data, async (path) => {
    const [found] = await engine.rows<
      Readonly<Record<'q_rows' | 'q_source_ids' | 'q_source_values' | 'q_ids' | 'q_values', string>>
    >(
      `SELECT count() AS q_rows, ${sums[0]} AS q_source_ids, ${sums[1]} AS q_source_values, ${idHashSql()} AS q_ids, ${valueHashSql(hashed)} AS q_values FROM ${localFile(path, 'JSONEachRow', structure.join(', '))} SETTINGS ${READ_SETTINGS}`,
    );
    return {
      rows: Number(found?.q_rows ?? 0),
      source: { idHash: found?.q_source_ids ?? '', valueHash: found?.q_source_values ?? '' },
      own: { idHash: found?.q_ids ?? '', valueHash: found?.q_values ?? '' },
    };
  });
}
