/** Lists the dates that have a stage in an engine, and a stage's columns; drops stages. For its contents see `stage.ts`. */
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { parseStageDate, stageTablePrefix } from './stage-table.ts';

/** Dates that have a stage, ascending: all of them, or only those with rows. */
export async function listStages(engine: Engine, { withRows = false } = {}): Promise<readonly string[]> {
  const tables = await listStageTables(engine, stageTablePrefix(), withRows ? 1 : 0);
  return [...new Set(tables.map(parseStageDate))].sort();
}

/** Drops every stage of a date. */
export async function discardStages(engine: Engine, date: string): Promise<void> {
  for (const name of await listStageTables(engine, stageTablePrefix(date))) {
    await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(name)} SYNC`);
  }
}

/** @param prefix of the table names */
export async function listStageTables(engine: Engine, prefix: string, minRows = 0): Promise<readonly string[]> {
  const filled = minRows === 0 ? '' : ` AND ifNull(total_rows, 0) >= ${minRows}`;
  const tables = await engine.rows<{ name: string }>(
    `SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, ${quoteString(prefix)})${filled} ORDER BY name`,
  );
  return tables.map(({ name }) => name);
}

/** @param name of a stage's table, unquoted */
export async function listColumns(engine: Engine, name: string): Promise<readonly string[]> {
  const columns = await engine.rows<{ name: string }>(
    `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = ${quoteString(name)} ORDER BY position`,
  );
  return columns.map((column) => column.name);
}

/** Those of these text columns in which a row is not empty. @param table quoted name */
export async function listFilledColumns(
  engine: Engine,
  table: string,
  names: readonly string[],
): Promise<readonly string[]> {
  if (names.length === 0) return [];
  const filled = names.map((name) => `max(${quoteIdentifier(name)} != '')`);
  const [found] = await engine.rows<{ filled: readonly number[] }>(
    `SELECT [${filled.join(', ')}] AS filled FROM ${table}`,
  );
  return names.filter((_, index) => Number(found?.filled[index] ?? 0) === 1);
}
