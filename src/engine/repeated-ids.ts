/**
 * Ids that more than one row of a table has. They are looked for in passes, because the engine would remember every id of
 * the day for it, and are few beside them.
 */
import { randomUUID } from 'node:crypto';
import type { Engine } from './engine.ts';
import { quoteIdentifier } from './literal.ts';
import { listPasses } from './passes.ts';

/**
 * Calls with a table of the repeated ids, which has one column `id` and lives as long as the call.
 * @param table quoted name @param passIds ids looked at at once
 */
export async function withRepeatedIds<Result>(
  engine: Engine,
  table: string,
  use: (repeated: string) => Promise<Result>,
  passIds?: number,
): Promise<Result> {
  const repeated = quoteIdentifier(`repeated_${randomUUID()}`);
  await engine.command(`CREATE TEMPORARY TABLE ${repeated} (id String)`);
  try {
    for (const pass of await listPasses(engine, table, 'id', passIds)) {
      await engine.command(`INSERT INTO ${repeated} ${selectRepeatedIds(table, pass)}`);
    }
    return await use(repeated);
  } finally {
    await engine.command(`DROP TABLE IF EXISTS ${repeated}`);
  }
}

/** @param pass one of `listPasses` */
export function selectRepeatedIds(table: string, pass: string): string {
  return `SELECT id FROM ${table} WHERE ${pass} GROUP BY id HAVING count() > 1`;
}
