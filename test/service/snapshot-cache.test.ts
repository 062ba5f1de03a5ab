/** Which snapshots are kept: the cache alone, with values made by the test. What callers share is in `chain.test.ts`. */
import { expect, test } from 'vitest';
import { createCache as createSnapshots } from '../../src/service/snapshot/snapshot.ts';

interface Value {
  readonly size: number;
}

const never = new AbortController().signal;

function createCache() {
  const computed: string[] = [];
  const cache = createSnapshots<Value>(10, ({ size }) => size);
  const get = (key: string, size: number) =>
    cache.get(key, never, async () => {
      computed.push(key);
      return { size };
    });
  return { cache, computed, get };
}

test('the least recently used values leave when the weight is too much', async () => {
  const { computed, get } = createCache();
  await get('a', 4);
  await get('b', 4);
  await get('a', 4);
  await get('c', 4);
  expect(computed).toEqual(['a', 'b', 'c']);
  await get('a', 4);
  await get('c', 4);
  expect(computed).toEqual(['a', 'b', 'c']);
  await get('b', 4);
  expect(computed).toEqual(['a', 'b', 'c', 'b']);
});

test('a value heavier than all may weigh is answered, not kept, and drives no other out', async () => {
  const { computed, get } = createCache();
  await get('a', 4);
  expect(await get('heavy', 11)).toEqual({ size: 11 });
  await get('heavy', 11);
  await get('a', 4);
  expect(computed).toEqual(['a', 'heavy', 'heavy']);
});

test('a failure reaches every caller and is not kept', async () => {
  const { cache, get } = createCache();
  const fail = () => cache.get('a', never, () => Promise.reject(new RangeError('once')));
  const results = await Promise.allSettled([fail(), fail()]);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await get('a', 1)).toEqual({ size: 1 });
});

test('a caller who has left already computes nothing', async () => {
  const { cache, computed } = createCache();
  await expect(cache.get('a', AbortSignal.abort(new RangeError('gone')), async () => ({ size: 1 }))).rejects.toThrow(
    'gone',
  );
  expect(computed).toEqual([]);
});
