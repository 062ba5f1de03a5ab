/**
 * Ids that more than one row of a table has, and which of their rows are versions of one trade. Invariant: rows are
 * versions of each other only if id, symbol, time and contract are equal; an empty id does not count as an id. The
 * search runs in passes, because the engine must remember every id of the day; the repeated ids themselves are few.
 */
import { randomUUID } from 'node:crypto';
import type { Engine } from './engine.ts';
import { quoteIdentifier } from './literal.ts';
import { listPasses } from './passes.ts';

/**
 * Calls `use` with a temporary table of the repeated ids, which has one column `id` and exists only during the call.
 * @param table quoted name @param passIds ids per pass
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

/** Whether a row has a non-empty id. */
export const HAS_ID = "toString(id) != ''";

/**
 * The columns that versions of a trade share, as a list of SQL: id, symbol, time and contract, if there are such
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
