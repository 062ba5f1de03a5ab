/** What a store has, for tests that look at it from outside. */
import type { Store } from '../../src/store/store.ts';

export async function listKeys(store: Store, prefix = ''): Promise<readonly string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list(prefix)) keys.push(key);
  return keys;
}

export async function readText(store: Store, key: string): Promise<string | undefined> {
  const bytes = await store.get(key);
  return bytes && Buffer.from(bytes).toString('utf8');
}

/** Of these keys, those of each document's newest version. */
export function pickNewest(keys: readonly string[]): readonly string[] {
  const newest = new Map<string, number>();
  for (const key of keys) {
    const [, prefix = '', number] = /^(.*\/v)(\d+)\.json$/.exec(key) ?? [];
    if (number !== undefined) newest.set(prefix, Math.max(newest.get(prefix) ?? 0, Number(number)));
  }
  return [...newest].map(([prefix, number]) => `${prefix}${number}.json`);
}
