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
  const [all] = await engine.rows<{ n: number }>(`SELECT count() AS n FROM ${table}`);
  const passes = Math.max(1, Math.ceil(Number(all?.n ?? 0) / passKeys));
  if (passes === 1) return ['true'];
  return Array.from({ length: passes }, (_, pass) => `cityHash64(${key}) % ${passes} = ${pass}`);
}
