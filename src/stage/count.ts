/**
 * Counts of staged rows: rows, distinct ids and sums of hashes by key, for comparison with a recount of the source.
 * Invariant: exact, and in bounded memory however large the day is, because ids are counted in passes, each over a
 * share of them.
 */
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { listPasses } from '../engine/passes.ts';
import { HAS_ID, selectRepeatedIds, tradeKeySql } from '../engine/repeated-ids.ts';
import { type HashedColumn, idHashSql, valueHashSql } from '../engine/row-hash.ts';
import { repeatsSql, updateMarkSql } from '../engine/update-mark.ts';
import { secondOfDateSql } from '../engine/wall-clock-sql.ts';
import type { Job } from '../job/job.ts';

export interface StageTotals {
  readonly rows: number;
  readonly ids: number;
}

export interface StagedCount extends StageTotals {
  /** Update mark; empty if the job does not export `updated_timestamp`. */
  readonly mark: string;
  /** Sums of hashes of the ids, and of the values; `undefined` if not requested. */
  readonly idHash: string | undefined;
  readonly valueHash: string | undefined;
}

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
  /** Count only rows of this symbol. */
  readonly symbol?: string | undefined;
  /** Columns whose values are hashed, beside the ids; if absent, nothing is hashed. */
  readonly hashed?: readonly HashedColumn[] | undefined;
  /** Ids counted per pass. */
  readonly passIds?: number;
}

/** SQL key: the second of the day of a row, as in `plan/statement.ts`; for aggregating jobs the start of its grain. */
export function secondKey({ source }: Job, date: string): string {
  const day = quoteString(date);
  if (source.kind !== 'aggregate') return secondOfDateSql(quoteIdentifier('time'), day);
  if (source.grainSeconds >= 86_400) return '0';
  return secondOfDateSql(quoteIdentifier(source.timeColumn), day, source.grainSeconds);
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
  const byId = source.kind === 'rows';
  const hasUpdates = byId && source.columns.some(({ name }) => name === 'updated_timestamp');
  const chosen = symbol === undefined ? [] : [`symbol = ${quoteString(symbol)}`];
  const passes = byId ? await listPasses(engine, table, 'id', passIds) : ['true'];
  // Sums need no passes: with several passes, each would read all of these columns again.
  const [first = 'true'] = passes.length === 1 ? passes : ['true'];
  const distinct = byId && passes.length === 1 ? 'uniqExact(id)' : byId ? 'toUInt64(0)' : 'count()';
  const sums = [
    `${hasUpdates ? updateMarkSql('updated_timestamp') : "''"} AS q_mark`,
    `${byId && hashed ? idHashSql() : 'NULL'} AS q_id_hash`,
    `${byId && hashed && hashed.length > 0 ? valueHashSql(hashed) : 'NULL'} AS q_value_hash`,
  ];
  const group = (what: readonly string[], pass: string) =>
    `SELECT ${key} AS q_key, ${what.join(', ')} FROM ${table} WHERE ${[...chosen, pass].join(' AND ')} GROUP BY q_key`;
  const found = await engine.rows<StagedRow<Key>>(group(['count() AS q_rows', `${distinct} AS q_ids`, ...sums], first));
  const totals = new Map<Key, StagedCount>();
  for (const { q_key, q_rows, q_ids, q_mark, q_id_hash, q_value_hash } of found) {
    const hashes = { idHash: q_id_hash ?? undefined, valueHash: q_value_hash ?? undefined };
    totals.set(q_key, { rows: Number(q_rows), ids: Number(q_ids), mark: q_mark, ...hashes });
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

/**
 * Number of rows beyond one per version of a trade, where `updated_timestamp` identifies the version; if the job does
 * not export it, beyond one per trade. Rows without an id, or with an empty one, never count as repeats.
 * @param table quoted name
 */
export async function countRepeats(
  engine: Engine,
  job: Job,
  table: string,
  options: Pick<CountOptions, 'passIds'> = {},
): Promise<number> {
  const hasUpdates = job.source.columns.some(({ name }) => name === 'updated_timestamp');
  return await sumRepeated(engine, job, table, repeatsSql(keyOfTrade(job), hasUpdates), options);
}

/** Counts rows that a newer or identical version of the same trade replaces: no drop contains them. */
export async function countReplaced(
  engine: Engine,
  job: Job,
  table: string,
  options: Pick<CountOptions, 'passIds'> = {},
): Promise<number> {
  return await sumRepeated(engine, job, table, repeatsSql(keyOfTrade(job), false), options);
}

function keyOfTrade({ source }: Job): string {
  return tradeKeySql(source.columns.map(({ name }) => name));
}

/** Sums a number over the rows whose id is repeated. */
async function sumRepeated(
  engine: Engine,
  { source }: Job,
  table: string,
  number: string,
  { passIds }: Pick<CountOptions, 'passIds'>,
): Promise<number> {
  if (source.kind !== 'rows') return 0;
  let sum = 0;
  for (const pass of await listPasses(engine, table, 'id', passIds)) {
    const [found] = await engine.rows<{ n: number }>(
      `SELECT ${number} AS n FROM ${table} WHERE ${pass} AND ${HAS_ID} AND id IN (${selectRepeatedIds(table, pass)})`,
    );
    sum += Number(found?.n ?? 0);
  }
  return sum;
}
