/**
 * Passes over a staged table or a file, each over a share of its keys: an operation that must remember every key
 * handles one share at a time. Invariant: each key is in exactly one pass, and the passes together cover every row.
 */
import type { Engine } from './engine.ts';

/** Keys per pass: the engine takes up to 140 bytes for each, so 10 million would take more than a gigabyte. */
const PASS_KEYS = 500_000;

/**
 * Conditions of the passes; if one pass is enough, a condition that is always true.
 * @param table quoted name, or a table function
 * @param key SQL of the remembered key: an id, or several columns with commas
 */
export async function listPasses(
  engine: Pick<Engine, 'rows'>,
  table: string,
  key: string,
  passKeys = PASS_KEYS,
): Promise<readonly string[]> {
  const passes = Math.max(1, Math.ceil((await readNumber(engine, `SELECT count() FROM ${table}`)) / passKeys));
  if (passes === 1) return ['true'];
  return Array.from({ length: passes }, (_, pass) => `cityHash64(${key}) % ${passes} = ${pass}`);
}

/** Adds up over the passes what each counts. @param count SQL of one number, given the condition of a pass */
export async function sumPasses(
  engine: Pick<Engine, 'rows'>,
  table: string,
  count: (pass: string) => string,
  passKeys?: number,
): Promise<number> {
  let sum = 0;
  for (const pass of await listPasses(engine, table, 'id', passKeys)) sum += await readNumber(engine, count(pass));
  return sum;
}

/** The only value of an answer; 0 without one. */
export async function readNumber(engine: Pick<Engine, 'rows'>, sql: string): Promise<number> {
  const [row] = await engine.rows<Record<string, number | string | null>>(sql);
  return Number(Object.values(row ?? {})[0] ?? 0);
}
