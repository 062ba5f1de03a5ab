/**
 * Counts of what is staged: rows and distinct ids by a key. Invariant: exact, and in bounded memory whatever the size of
 * the day, because the ids are counted in passes over a share of them each.
 */
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { listPasses } from '../engine/passes.ts';
import { selectRepeatedIds } from '../engine/repeated-ids.ts';
import { mergeUpdateMarks, repeatsSql, updateMarkSql } from '../engine/update-mark.ts';
import { secondOfDateSql } from '../engine/wall-clock.ts';
import type { Job } from '../job/job.ts';

export interface StageTotals {
  readonly rows: number;
  readonly ids: number;
}

export interface StagedCount extends StageTotals {
  /** When they were made, in short; empty where the job does not export it. */
  readonly mark: string;
}

export interface CountOptions {
  /** Only rows of this symbol. */
  readonly symbol?: string | undefined;
  /** Ids counted at once. */
  readonly passIds?: number;
}

/** The key that is the second of the day of a row, as `plan/statement.ts` counts it; for aggregating jobs that of the start of its grain. */
export function secondKey({ source }: Job, date: string): string {
  const day = quoteString(date);
  if (source.kind !== 'aggregate') return secondOfDateSql(quoteIdentifier('time'), day);
  if (source.grainSeconds >= 86_400) return '0';
  return secondOfDateSql(quoteIdentifier(source.timeColumn), day, source.grainSeconds);
}

/**
 * Counts by the values of `key`, an SQL expression. Rows of aggregating jobs have no ids: each counts as one.
 * @param table quoted name
 */
export async function countStaged<Key extends number | string>(
  engine: Engine,
  { source }: Job,
  table: string,
  key: string,
  { symbol, passIds }: CountOptions = {},
): Promise<ReadonlyMap<Key, StagedCount>> {
  const byId = source.kind === 'rows';
  const hasUpdates = byId && source.columns.some(({ name }) => name === 'updated_timestamp');
  const chosen = symbol === undefined ? [] : [`symbol = ${quoteString(symbol)}`];
  const passes = byId ? await listPasses(engine, table, 'id', passIds) : ['true'];
  const totals = new Map<Key, StagedCount>();
  for (const pass of passes) {
    const found = await engine.rows<{ k: Key; n: number; u: number; m: string }>(
      `SELECT ${key} AS k, count() AS n, ${byId ? 'uniqExact(id)' : 'count()'} AS u, ${hasUpdates ? updateMarkSql('updated_timestamp') : "''"} AS m FROM ${table} WHERE ${[...chosen, pass].join(' AND ')} GROUP BY k`,
    );
    for (const { k, n, u, m } of found) {
      const before = totals.get(k);
      totals.set(k, {
        rows: Number(n) + (before?.rows ?? 0),
        ids: Number(u) + (before?.ids ?? 0),
        mark: before === undefined ? m : mergeUpdateMarks(before.mark, m),
      });
    }
  }
  return totals;
}

/**
 * Rows beyond one for each version of an id, a version being its `updated_timestamp`; where that is not exported, beyond
 * one for each id. Rows of jobs without ids repeat none.
 * @param table quoted name
 */
export async function countRepeats(
  engine: Engine,
  { source }: Job,
  table: string,
  { passIds }: Pick<CountOptions, 'passIds'> = {},
): Promise<number> {
  if (source.kind !== 'rows') return 0;
  const hasUpdates = source.columns.some(({ name }) => name === 'updated_timestamp');
  let repeats = 0;
  for (const pass of await listPasses(engine, table, 'id', passIds)) {
    const [found] = await engine.rows<{ n: number }>(
      `SELECT ${repeatsSql(hasUpdates)} AS n FROM ${table} WHERE ${pass} AND id IN (${selectRepeatedIds(table, pass)})`,
    );
    repeats += Number(found?.n ?? 0);
  }
  return repeats;
}
