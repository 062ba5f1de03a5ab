/**
 * The contract of `Store`, as facts that hold for every implementation: a directory, and a real S3 server.
 * Network and disk faults, aborts, and what only one implementation can do, are in `test/store/`.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, unlinkSync, watch, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isTemporaryName } from '../../src/core/atomic-file.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import { MAX_GET_BYTES, type Store } from '../../src/store/store.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { type S3Server, startS3, useS3Credentials } from '../support/s3-server.ts';

const s3 = await startS3();

/** A store whose next writes are taken and not kept: what was there before is there again before anybody looks. */
interface LossyStore {
  readonly store: Store;
  lose(times: number): void;
  close(): Promise<void>;
}

const IMPLEMENTATIONS = [
  {
    name: 'directory',
    isMissing: false,
    hasLinks: false,
    open: (base: string) => openDirectoryStore(join(base, 'root')),
    openLossy: (base: string) => openLossyDirectory(join(base, 'lossy')),
  },
  {
    name: 's3',
    hasLinks: true,
    // Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
    isMissing: s3.server === undefined,
    open: async () => {
      if (s3.server === undefined) throw new Error(s3.reason);
      useS3Credentials(s3.server);
      return await openS3Store({ ...s3.server, prefix: `contract/${randomUUID()}` });
    },
    openLossy: async () => {
      if (s3.server === undefined) throw new Error(s3.reason);
      return await openLossyS3(s3.server);
    },
  },
];

/** Another program undoes what it sees appear; the watcher hears of a name before the store can look at it. */
async function openLossyDirectory(root: string): Promise<LossyStore> {
  await mkdir(root);
  const store = await openDirectoryStore(root);
  const before = new Map<string, Buffer>();
  let losses = 0;
  const watcher = watch(root, (_, name) => {
    if (name === null || isTemporaryName(name) || losses === 0) return;
    const path = join(root, name);
    const [now, then] = [existsSync(path) ? readFileSync(path) : undefined, before.get(name)];
    if (now === undefined || (then !== undefined && now.equals(then))) return;
    losses -= 1;
    if (then === undefined) unlinkSync(path);
    else writeFileSync(path, then);
  });
  return {
    store,
    lose(times) {
      losses = times;
      before.clear();
      for (const { name } of readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isFile()))
        before.set(name, readFileSync(join(root, name)));
    },
    async close() {
      watcher.close();
      await store.close();
    },
  };
}

/** The service answers as if it had stored what came. */
async function openLossyS3(server: S3Server): Promise<LossyStore> {
  const proxy = await startFaultProxy(server.endpoint);
  const store = await openS3Store({ ...server, prefix: `lossy/${randomUUID()}`, endpoint: proxy.url });
  return {
    store,
    lose: (times) => proxy.follow([{ on: ({ method }) => method === 'PUT', fault: { kind: 'not-kept' }, times }]),
    async close() {
      await store.close();
      await proxy.close();
    },
  };
}

describe.each(IMPLEMENTATIONS)('$name store', ({ isMissing, hasLinks, open, openLossy }) => {
  // Skipped only where no S3 server can be had, which `support/s3-server.ts` says aloud; CI never skips it.
  describe.skipIf(isMissing)('contract', () => {
    let base: string;
    let store: Store;

    beforeAll(async () => {
      base = await mkdtemp(join(tmpdir(), 'flowdrop-store-'));
      store = await open(base);
    });

    afterAll(async () => {
      await store?.close();
      if (base) await rm(base, { recursive: true, force: true });
    });

    const putText = (key: string, text: string) => store.put(key, { bytes: Buffer.from(text) });
    const getText = async (key: string) => {
      const bytes = await store.get(key);
      return bytes === undefined ? undefined : Buffer.from(bytes).toString();
    };
    const listKeys = async (prefix: string, after?: string) => {
      const keys: string[] = [];
      for await (const { key } of store.list(prefix, after)) keys.push(key);
      return keys;
    };

    test('an object that is not there is undefined, not an error', async () => {
      expect(await store.get('nowhere/at-all')).toBeUndefined();
      expect(await store.head('nowhere/at-all')).toBeUndefined();
      expect(await listKeys('nowhere/')).toEqual([]);
    });

    test('the prefix of a key is no object', async () => {
      await putText('folder/inside', 'x');
      expect(await store.get('folder')).toBeUndefined();
      expect(await store.head('folder')).toBeUndefined();
      await store.remove('folder');
      expect(await getText('folder/inside')).toBe('x');
    });

    test('an object that is none of the small ones is not read into memory', async () => {
      const path = join(base, 'large');
      await writeFile(path, '');
      await truncate(path, MAX_GET_BYTES + 1);
      await store.put('large', { path });
      await expect(store.get('large')).rejects.toMatchObject({ code: 'OBJECT_TOO_LARGE' });
      expect(await store.head('large')).toEqual({ key: 'large', sizeBytes: MAX_GET_BYTES + 1 });
    });

    test('put replaces the whole object, which is got with its size', async () => {
      await putText('replace/me', 'a long first version');
      await putText('replace/me', 'short');
      expect(await getText('replace/me')).toBe('short');
      expect(await store.head('replace/me')).toEqual({ key: 'replace/me', sizeBytes: 5 });
    });

    test('readers see the old object or the new one, never a mixture', async () => {
      const versions = ['a', 'b'].map((letter) => letter.repeat(300_000));
      await putText('mixture', versions[0] ?? '');
      let isWriting = true;
      const writing = (async () => {
        for (let round = 0; round < 20; round += 1) await putText('mixture', versions[round % 2] ?? '');
        isWriting = false;
      })();
      const seen = new Set<boolean>();
      while (isWriting) seen.add(versions.includes((await getText('mixture')) ?? ''));
      await writing;
      expect([...seen]).toEqual([true]);
    });

    test('an empty object is an object', async () => {
      await store.put('empty', { bytes: new Uint8Array() });
      expect(await store.head('empty')).toEqual({ key: 'empty', sizeBytes: 0 });
      expect(await store.get('empty')).toHaveLength(0);
      await writeFile(join(base, 'empty'), '');
      await store.put('empty-file', { path: join(base, 'empty') });
      expect(await store.download('empty-file', join(base, 'empty-copy'))).toBe(true);
      expect(await readFile(join(base, 'empty-copy'))).toHaveLength(0);
    });

    test('a file of 20 MB comes back byte for byte', async () => {
      const bytes = randomBytes(20_000_123);
      await writeFile(join(base, 'large'), bytes);
      await store.put('large.parquet', { path: join(base, 'large') });
      expect(await store.head('large.parquet')).toEqual({ key: 'large.parquet', sizeBytes: bytes.length });
      expect(await store.download('large.parquet', join(base, 'deep/er/large'))).toBe(true);
      expect(hash(await readFile(join(base, 'deep/er/large')))).toBe(hash(bytes));
      expect(await readdir(join(base, 'deep/er'))).toEqual(['large']);
    });

    test('downloading a missing object is false and touches nothing', async () => {
      await writeFile(join(base, 'kept'), 'kept');
      expect(await store.download('nowhere/at-all', join(base, 'kept'))).toBe(false);
      expect(await readFile(join(base, 'kept'), 'utf8')).toBe('kept');
    });

    test('download replaces a local file', async () => {
      await putText('fresh', 'fresh');
      await writeFile(join(base, 'stale'), 'a longer stale text');
      expect(await store.download('fresh', join(base, 'stale'))).toBe(true);
      expect(await readFile(join(base, 'stale'), 'utf8')).toBe('fresh');
    });

    test('of eight parallel putIfAbsent exactly one wins, and its bytes stay', async () => {
      for (let round = 0; round < 5; round += 1) {
        const key = `race/${round}`;
        const won = await Promise.all(
          Array.from({ length: 8 }, (_, writer) => store.putIfAbsent(key, Buffer.from(`writer ${writer}`))),
        );
        expect(won.filter(Boolean)).toHaveLength(1);
        expect(await getText(key)).toBe(`writer ${won.indexOf(true)}`);
      }
    });

    test('keys with blanks, unicode and signs are kept as they are', async () => {
      const keys = [
        'k/session=2026-11-19/a b.json',
        'k/é日本+%2B&?#.json',
        'k/100%.txt',
        'k/😀',
        'k/～',
        "k/(')!*~$,;:@",
      ];
      for (const key of keys) await putText(key, key);
      for (const key of keys) expect(await getText(key)).toBe(key);
      for (const key of keys) await store.copy(key, `copied/${key}`);
      expect((await listKeys('copied/k/')).toSorted()).toEqual(keys.map((key) => `copied/${key}`).toSorted());
    });

    test('a listing is in the order of UTF-8 bytes, and begins anywhere in a name', async () => {
      const ordered = ['o/a', 'o/a b', 'o/a-b/x', 'o/a.txt', 'o/aa/1', 'o/aa/2', 'o/b', 'o/～', 'o/😀'];
      for (const key of ordered.toReversed()) await putText(key, 'x');
      expect(await listKeys('o/')).toEqual(ordered);
      expect(await listKeys('o/a')).toEqual(ordered.filter((key) => key.startsWith('o/a')));
      expect(await listKeys('o/aa/')).toEqual(['o/aa/1', 'o/aa/2']);
      expect(await listKeys('o/aa/1')).toEqual(['o/aa/1']);
      expect(await listKeys('')).toEqual(expect.arrayContaining(ordered));
    });

    test('a listing begins behind any key, or behind the name of a folder, whatever sorts around the separator', async () => {
      const ordered = ['b/a-b/1', 'b/a.b', 'b/a/x', 'b/a0', 'b/aa/1', 'b/aa/2', 'b/b', 'b/～', 'b/😀'];
      for (const key of ordered.toReversed()) await store.put(key, { bytes: Buffer.from('x') });
      const all = await listKeys('b/');
      expect(all).toEqual(ordered);
      for (const [index, key] of all.entries()) expect(await listKeys('b/', key)).toEqual(all.slice(index + 1));
      expect(await listKeys('b/', 'b/aa/')).toEqual(['b/aa/1', 'b/aa/2', 'b/b', 'b/～', 'b/😀']);
      expect(await listKeys('b/aa', 'b/aa/1')).toEqual(['b/aa/2']);
      expect(await listKeys('b/', 'b/zz')).toEqual(['b/～', 'b/😀']);
      expect(await listKeys('b/', 'c')).toEqual([]);
      expect(await listKeys('b/', 'a')).toEqual(all);
    });

    test('folders are listed by name, without what is below them', async () => {
      for (const key of ['f/b/1', 'f/a-1/x/2', 'f/a/3', 'f/file', 'fx/y/4'])
        await store.put(key, { bytes: new Uint8Array([1]) });
      expect(await store.listFolders('f/')).toEqual(['a-1', 'a', 'b']);
      expect(await store.listFolders('f/a-1/')).toEqual(['x']);
      expect(await store.listFolders('none/')).toEqual([]);
    });

    test('a listing of more than a page has every key once', async () => {
      const keys = Array.from({ length: 1005 }, (_, index) => `page/${String(index).padStart(5, '0')}`);
      for (let start = 0; start < keys.length; start += 32) {
        await Promise.all(keys.slice(start, start + 32).map((key) => putText(key, 'x')));
      }
      expect(await listKeys('page/')).toEqual(keys);
    });

    test('a listing tells sizes, and when each object was written', async () => {
      await putText('sizes/one', '1');
      await putText('sizes/three', '333');
      const found = [];
      for await (const info of store.list('sizes/')) found.push(info);
      expect(found).toEqual([
        { key: 'sizes/one', sizeBytes: 1, modifiedAtMs: expect.any(Number), version: expect.any(String) },
        { key: 'sizes/three', sizeBytes: 3, modifiedAtMs: expect.any(Number), version: expect.any(String) },
      ]);
      for (const { modifiedAtMs } of found) expect(Math.abs(Date.now() - modifiedAtMs)).toBeLessThan(60_000);
    });

    test('the version in a listing changes with the bytes, even of the same size at the same moment', async () => {
      const readVersion = async () => {
        for await (const { version } of store.list('version/')) return version;
        return undefined;
      };
      await putText('version/one', 'aaaa');
      const before = await readVersion();
      expect(await readVersion()).toBe(before);
      await putText('version/one', 'bbbb');
      expect(await readVersion()).not.toBe(before);
    });

    test('copy replaces its target and keeps its source', async () => {
      await putText('c/from', 'source');
      await putText('c/to', 'to be replaced');
      await store.copy('c/from', 'c/to');
      expect([await getText('c/from'), await getText('c/to')]).toEqual(['source', 'source']);
      await putText('c/from', 'changed later');
      expect(await getText('c/to')).toBe('source');
    });

    test('copying a missing object is a fault', async () => {
      await expect(store.copy('nowhere/at-all', 'c/never')).rejects.toMatchObject({ code: 'STORE_FAILED' });
      expect(await store.head('c/never')).toBeUndefined();
    });

    test('remove is idempotent', async () => {
      await putText('r/gone', 'x');
      await store.remove('r/gone');
      await store.remove('r/gone');
      expect(await getText('r/gone')).toBeUndefined();
      expect(await listKeys('r/')).toEqual([]);
    });

    test('a put that is aborted before it begins leaves nothing', async () => {
      const options = { signal: AbortSignal.abort() };
      await expect(store.put('aborted', { bytes: Buffer.from('x') }, options)).rejects.toMatchObject({
        code: 'INTERRUPTED',
        kind: 'interrupted',
      });
      expect(await store.head('aborted')).toBeUndefined();
    });

    test('a file that does not exist cannot be put', async () => {
      const putting = store.put('never', { path: join(base, 'no-such-file') });
      await expect(putting).rejects.toMatchObject({ code: 'STORE_FAILED', hint: expect.any(String) });
      expect(await store.head('never')).toBeUndefined();
    });

    test.each([
      '',
      '/a',
      'a/',
      'a//b',
      '.',
      '..',
      'a/../b',
      'a\\b',
      'a\0b',
      'a\nb',
      '\ud800',
      '.flowdrop-0123456789abcdef.tmp',
    ])('the key %j is refused by every operation', async (key) => {
      const fault = { code: 'KEY_INVALID', kind: 'usage', hint: expect.any(String) };
      await expect(store.get(key)).rejects.toMatchObject(fault);
      await expect(store.head(key)).rejects.toMatchObject(fault);
      await expect(store.put(key, { bytes: new Uint8Array() })).rejects.toMatchObject(fault);
      await expect(store.putIfAbsent(key, new Uint8Array())).rejects.toMatchObject(fault);
      await expect(store.download(key, join(base, 'no'))).rejects.toMatchObject(fault);
      await expect(store.copy(key, 'ok')).rejects.toMatchObject(fault);
      await expect(store.copy('ok', key)).rejects.toMatchObject(fault);
      await expect(store.remove(key)).rejects.toMatchObject(fault);
      await expect(store.link(key, 60)).rejects.toMatchObject(fault);
    });

    test('a link, where a store has one, gives the bytes of that object to anybody', async () => {
      const key = 'k/session=2026-11-19/a b+é.parquet';
      const bytes = randomBytes(300_000);
      await store.put(key, { bytes });
      const link = await store.link(key, 7 * 86_400);
      expect(link === undefined).toBe(!hasLinks);
      if (link === undefined) return;
      const answer = await fetch(link.url);
      expect(answer.status).toBe(200);
      expect(hash(new Uint8Array(await answer.arrayBuffer()))).toBe(hash(bytes));
    });

    describe('that takes a write and does not keep it', () => {
      let lossy: LossyStore;
      const fault = { code: 'STORE_FAILED', hint: expect.stringContaining('start the same command again') };
      /** Each leaves its own name. */
      const write = {
        'a put': async (key: string) => await lossy.store.put(key, { bytes: Buffer.from('a put') }),
        'a put of a file': async (key: string) => {
          await writeFile(join(base, 'body'), 'a put of a file');
          await lossy.store.put(key, { path: join(base, 'body') });
        },
        'a conditional put': async (key: string) => {
          expect(await lossy.store.putIfAbsent(key, Buffer.from('a conditional put'))).toBe(true);
        },
        'a copy': async (key: string) => {
          expect(await lossy.store.copy('from', key)).toEqual({ key, sizeBytes: 'a copy'.length });
        },
      } as const;
      const names = Object.keys(write) as (keyof typeof write)[];
      const read = async (key: string) => {
        const bytes = await lossy.store.get(key);
        return bytes && Buffer.from(bytes).toString();
      };

      beforeAll(async () => {
        lossy = await openLossy(base);
        await lossy.store.put('from', { bytes: Buffer.from('a copy') });
      });

      afterAll(async () => await lossy?.close());

      test.each(names)('%s that is gone at once is written again', async (name) => {
        const key = `again ${name}`;
        lossy.lose(1);
        await write[name](key);
        expect(await read(key)).toBe(name);
      });

      test.each(names)('%s that is gone every time is a fault, and what it was made from stays', async (name) => {
        const key = `gone ${name}`;
        lossy.lose(Number.POSITIVE_INFINITY);
        await expect(write[name](key)).rejects.toMatchObject(fault);
        lossy.lose(0);
        expect([await read(key), await read('from')]).toEqual([undefined, 'a copy']);
      });

      test.each(names.filter((name) => name !== 'a conditional put'))(
        '%s that leaves what was there before is a fault',
        async (name) => {
          const key = `old ${name}`;
          lossy.lose(0);
          await lossy.store.put(key, { bytes: Buffer.from('the previous object') });
          lossy.lose(1);
          await expect(write[name](key)).rejects.toMatchObject(fault);
          expect(await read(key)).toBe('the previous object');
          await write[name](key);
          expect(await read(key)).toBe(name);
        },
      );
    });

    test('the url of the store has no credentials in it', () => {
      expect(store.url).not.toMatch(/@|secret/);
    });
  });
});

function hash(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
