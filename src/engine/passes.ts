/**
 * Passes over a staged table or a file, each over a share of its keys: what has to remember every key it has seen does so
 * for a share at a time. Invariant: a key is in one pass, and the passes together have every row.
 */
import type { Engine } from './engine.ts';

/** Keys at once: the engine takes up to 140 bytes of each, so 10 million would take more than a gigabyte. */
const PASS_KEYS = 500_000;

/**
 * Conditions of the passes; one that always holds where a single pass will do.
 * @param table quoted name, or a table function @param key what is remembered, as SQL: an id, or several columns with commas
 */
export async function listPasses(
  engine: Engine,
  table: string,
  key: string,
  passKeys = PASS_KEYS,
): Promise<readonly string[]> {
  const [all] = await engine.rows<{ n: number }>(`SELECT count() AS n FROM ${table}`);
  const passes = Math.max(1, Math.ceil(Number(all?.n ?? 0) / passKeys));
  if (passes === 1) return ['true'];
  return Array.from({ length: passes }, (_, pass) => `cityHash64(${key}) % ${passes} = ${pass}`);
}
