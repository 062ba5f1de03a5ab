/** Lists the dates that have a stage in an engine, and drops stages. For the contents of a stage see `stage.ts`. */
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
