/**
 * The guarantees of `Document`, on a directory and on a real S3 server: two writers, a worker that dies at any of its
 * calls, an answer that is lost or late, a writer that wakes up long after.
 */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { Document } from '../../src/store/document.ts';
import type { Store } from '../../src/store/store.ts';
import { at, Died, dieAt, faultStore, loseAnswer, repeat, wait } from '../support/fault-store.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { STORES } from '../support/stores.ts';

const folder = await makeFolder();
afterAll(async () => await folder.remove());

type Names = readonly string[];

const KEPT_VERSIONS = 12;

const open = (store: Store) =>
  new Document<Names>(store, {
    prefix: '_flowdrop/test/names/v',
    suffix: '.json',
    kept: KEPT_VERSIONS,
    parse: (bytes) => (bytes.length > 2 ? (JSON.parse(Buffer.from(bytes).toString('utf8')) as Names) : undefined),
    format: (names) => Buffer.from(JSON.stringify(names)),
  });

/** A change says what shall be: made twice it is made once. */
const add =
  (name: string) =>
  (before: Names = []): Names =>
    [...new Set([...before, name])].sort();

describe.each(STORES)('a document in $name', ({ isMissing, open: openStore }) => {
  let store: Store;
  beforeEach(async () => {
    store = await openStore(folder.path);
  });
  const read = async () => (await open(store).read()).value;

  it.skipIf(isMissing)('is nothing at first, then what it was changed to; no change writes nothing', async () => {
    const counting = faultStore(store);
    const document = open(counting);
    expect(await document.read()).toEqual({ version: 0, value: undefined });
    expect(await document.update(add('a'))).toEqual({ version: 1, value: ['a'] });
    expect(await document.update(add('a'))).toEqual({ version: 1, value: ['a'] });
    expect(await document.update(() => undefined)).toEqual({ version: 1, value: ['a'] });
    expect(await document.update(add('b'))).toEqual({ version: 2, value: ['a', 'b'] });
    expect(counting.calls.filter((call) => call.startsWith('put'))).toHaveLength(2);
  });

  it.skipIf(isMissing)('has the changes of all writers at the same moment', async () => {
    const names = Array.from({ length: 8 }, (_, index) => `writer-${index}`);
    await Promise.all(names.map(async (name) => await open(store).update(add(name))));
    expect(await read()).toEqual(names);
    expect((await open(store).listVersions()).length).toBe(names.length);
  });

  it.skipIf(isMissing)('is as before or as after when a worker dies at any of its calls', async () => {
    await open(store).update(add('a'));
    let number = 0;
    for (;;) {
      number += 1;
      const name = `b${number}`;
      const before = (await read()) ?? [];
      const died = await open(faultStore(store, dieAt(number)))
        .update(add(name))
        .then(
          () => false,
          (error: unknown) => {
            expect(error).toBeInstanceOf(Died);
            return true;
          },
        );
      expect([before, add(name)(before)]).toContainEqual(await read());
      if (!died) break;
      // The next worker goes on.
      await open(store).update(add(`c${number}`));
      expect(await read()).toContain(`c${number}`);
    }
    expect(number).toBeGreaterThan(3);
  });

  it.skipIf(isMissing)('is changed once when the answer is lost, or the request sent twice on its way', async () => {
    const lost = faultStore(store, at(/^putIfAbsent/, loseAnswer, 1));
    await expect(open(lost).update(add('a'))).rejects.toThrow('EIO');
    await open(store).update(add('a'));
    expect(await open(store).read()).toEqual({ version: 1, value: ['a'] });
    await open(faultStore(store, at(/^putIfAbsent/, repeat, 1))).update(add('b'));
    expect(await open(store).read()).toEqual({ version: 2, value: ['a', 'b'] });
  });

  it.skipIf(isMissing)('loses nothing to a writer that wakes up when its number is free again', async () => {
    await open(store).update(add('a'));
    const others = async () => {
      for (let more = 0; more <= KEPT_VERSIONS; more += 1) await open(store).replace(['a', `other-${more}`]);
    };
    const asleep = faultStore(store, at(/^putIfAbsent/, wait(others), 1));
    await open(asleep).update(add('late'));
    expect(await read()).toEqual(['a', 'late', `other-${KEPT_VERSIONS}`]);
    expect((await open(store).listVersions()).length).toBe(KEPT_VERSIONS);
  });

  it.skipIf(isMissing)(
    'counts as none when its newest version is damaged, and is made again on top of it',
    async () => {
      await open(store).update(add('a'));
      await store.put(open(store).keyOf(2), { bytes: Buffer.from('{') });
      expect(await open(store).read()).toEqual({ version: 2, value: undefined });
      expect(await open(store).readVersion(1)).toEqual(['a']);
      expect(await open(store).update(add('b'))).toEqual({ version: 3, value: ['b'] });
    },
  );
});
