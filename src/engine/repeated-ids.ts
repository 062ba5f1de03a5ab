/**
 * Ids that more than one row of a table has, and which of their rows are versions of one trade. Invariant: a later
 * `updated_timestamp` is a newer version, whatever else changed. Rows of one stamp, or without one, that differ in
 * symbol, time or contract are several trades under one id: of such an id, rows are versions only if these agree. An
 * empty id does not count as an id. The search runs in passes, because the engine must remember every id of the day; the
 * repeated ids themselves are few.
 */
import { randomUUID } from 'node:crypto';
import type { Engine } from './engine.ts';
import { quoteIdentifier } from './literal.ts';
import { listPasses } from './passes.ts';

/**
 * Calls `use` with a temporary table of the repeated ids, which exists only during the call: `id`, and whether it is
 * `shared` by several trades.
 * @param table quoted name @param columns those of the table @param passIds ids per pass
 */
export async function withRepeatedIds<Result>(
  engine: Engine,
  table: string,
  columns: readonly string[],
  use: (repeated: string) => Promise<Result>,
  passIds?: number,
): Promise<Result> {
  const repeated = quoteIdentifier(`repeated_${randomUUID()}`);
  await engine.command(`CREATE TEMPORARY TABLE ${repeated} (id String, shared UInt8)`);
  try {
    for (const pass of await listPasses(engine, table, 'id', passIds)) {
      const shared = selectSharedIds(table, pass, columns);
      await engine.command(
        `INSERT INTO ${repeated} SELECT id, id IN (${shared}) FROM (${selectRepeatedIds(table, pass)})`,
      );
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

/** Ids of several trades, some of them more than once; also repeated ids with a row whose version is unknown. */
export function selectSharedIds(table: string, condition: string, columns: readonly string[]): string {
  const stamp = columns.includes('updated_timestamp') ? "ifNull(toString(updated_timestamp), '')" : "''";
  const trade = `cityHash64(${tradeKeySql(columns)})`;
  return `SELECT id FROM ${table} WHERE ${condition} GROUP BY id, ${stamp} HAVING min(${trade}) != max(${trade}) OR ${stamp} = ''`;
}

/** The columns that versions of a trade share, as a list of SQL. @param shared query for the ids of several trades */
export function versionKeySql(columns: readonly string[], shared: string): string {
  return `toString(id), if(id IN (${shared}), cityHash64(${tradeKeySql(columns)}), 0)`;
}

/** Whether a row has a non-empty id. */
export const HAS_ID = "toString(id) != ''";

/**
 * The columns that tell trades of one version apart, as a list of SQL: id, symbol, time and contract, if there are such
 * columns. The contract is its symbol; if that is empty or absent, side, strike and expiration.
 */
export function tradeKeySql(columns: readonly string[]): string {
  const has = (name: string) => columns.includes(name);
  const text = (name: string) => `ifNull(toString(${quoteIdentifier(name)}), '')`;
  const details = ['put_call', 'strike', 'expiration_date'].filter(has).map(text);
  const contract = has('option_symbol')
    ? [text('option_symbol'), ...details.map((detail) => `if(${text('option_symbol')} = '', ${detail}, '')`)]
    : details;
  return ['toString(id)', ...['symbol', 'time'].filter(has).map(text), ...contract].join(', ');
}
