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
