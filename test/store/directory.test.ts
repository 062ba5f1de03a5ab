/** Faults of the directory store at the file system. What holds for every store is in `test/contract/store.external.test.ts`. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { useCleanups } from '../support/cleanups.ts';
import { findMountObstacle, mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { listKeys, readText } from '../support/store-keys.ts';

const { folder } = useCleanups(afterEach);
let base: string;
let root: string;
let store: Store;

beforeEach(async () => {
  base = await folder();
  root = join(base, 'root');
  store = await openDirectoryStore(root);
});

const PUT_FILE = fileURLToPath(new URL('../support/put-file.ts', import.meta.url));
const FAULT = { name: 'StoreFault', code: 'STORE_FAILED', hint: expect.any(String) };

test('a temporary file that a crash left is never listed, got or copied', async () => {
  await mkdir(join(root, 'a'), { recursive: true });
  await writeFile(join(root, 'a/.flowdrop-0123456789abcdef.tmp'), 'half');
  await store.put('a/whole', { bytes: Buffer.from('x') });
  expect(await listKeys(store)).toEqual(['a/whole']);
  await expect(store.get('a/.flowdrop-0123456789abcdef.tmp')).rejects.toMatchObject({ code: 'KEY_INVALID' });
});

test.each(['a', 'b/below'])(
  'a temporary file that a crash left in %s is removed when it is a day old, a younger one is not',
  async (place) => {
    await mkdir(join(root, place), { recursive: true });
    const [old, young] = ['.flowdrop-0123456789abcdef.tmp', '.flowdrop-fedcba9876543210.tmp'];
    for (const name of [old, young]) await writeFile(join(root, place, name), 'half');
    const yesterday = new Date(Date.now() - 25 * 3_600_000);
    await utimes(join(root, place, old), yesterday, yesterday);
    await store.put('a/whole', { bytes: Buffer.from('x') });
    expect((await readdir(join(root, place))).filter((name) => name !== 'whole')).toEqual([young]);
  },
);

test('what is removed after a seal leaves no folder, and other folders stay', async () => {
  const [first, second] = [
    '_flowdrop/sealing/t/session=2026-11-19/rev=1/a',
    '_flowdrop/sealing/t/session=2026-11-20/rev=1/b',
  ];
  for (const key of [first, second, 't/session=2026-11-19/c']) await store.put(key, { bytes: Buffer.from('x') });
  await store.remove(first);
  expect(await readdir(join(root, '_flowdrop/sealing/t'))).toEqual(['session=2026-11-20']);
  await store.remove(second);
  await store.remove(second);
  await store.remove('t/session=2026-11-19/c');
  expect((await readdir(root)).sort()).toEqual(['t']);
  expect(await readdir(join(root, 't'))).toEqual(['session=2026-11-19']);
});

test('two workers that seal and clean up at the same time lose nothing', async () => {
  const other = await openDirectoryStore(root);
  const seal = async (worker: Store, name: string) => {
    for (let round = 0; round < 150; round += 1) {
      const key = `_flowdrop/sealing/t/session=2026-11-19/rev=${round % 3}/${name}`;
      const bytes = Buffer.from(`${name} ${round}`);
      if (round % 2 === 0) await worker.put(key, { bytes });
      else expect(await worker.putIfAbsent(key, bytes)).toBe(true);
      expect(await worker.get(key)).toEqual(bytes);
      await worker.remove(key);
    }
  };
  await Promise.all([seal(store, 'a'), seal(other, 'b'), seal(other, 'c')]);
  expect(await readdir(root)).toEqual([]);
});

test('a place where no folder can be made is a fault, not an endless wait', async () => {
  // The kernel answers ENOENT for a folder in /proc, on which Node's recursive mkdir never returns.
  const impossible = await openDirectoryStore('/proc/flowdrop');
  await expect(impossible.put('a', { bytes: Buffer.from('x') })).rejects.toMatchObject(FAULT);
});

test('a key below an object is a fault, and the object stays', async () => {
  await store.put('a', { bytes: Buffer.from('object') });
  await expect(store.put('a/b', { bytes: Buffer.from('x') })).rejects.toMatchObject(FAULT);
  await expect(store.putIfAbsent('a/b', Buffer.from('x'))).rejects.toMatchObject(FAULT);
  expect(await store.get('a/b')).toBeUndefined();
  expect(await listKeys(store)).toEqual(['a']);
});

test('a root that has gone is a fault, not an empty store', async () => {
  await store.put('a/b', { bytes: Buffer.from('x') });
  await rm(root, { recursive: true });
  await expect(listKeys(store)).rejects.toMatchObject(FAULT);
  await expect(listKeys(store, 'a/')).rejects.toMatchObject(FAULT);
  await expect(store.put('a/b', { bytes: Buffer.from('x') })).rejects.toMatchObject(FAULT);
  expect(await readdir(base)).toEqual([]);
});

test('a put that is aborted in the middle leaves the previous object and no other file', async () => {
  await store.put('a/b', { bytes: Buffer.from('previous') });
  // The source is a pipe that never ends: the put is in the middle until it is aborted.
  const pipe = join(base, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const abort = new AbortController();
  const putting = store.put('a/b', { path: pipe }, { signal: abort.signal });
  const source = createWriteStream(pipe);
  source.on('error', () => {}); // EPIPE is what the abort must lead to.
  source.write(Buffer.alloc(100_000));
  const temporaries = join(root, '_flowdrop', 'tmp');
  await vi.waitFor(async () => expect(await readdir(temporaries)).toHaveLength(1));
  // A reader that lists the folder of rows meets nothing half written.
  expect(await readdir(join(root, 'a'))).toEqual(['b']);
  expect(await listKeys(store)).toEqual(['a/b']);
  abort.abort();
  source.end(); // A read of a pipe cannot be interrupted; that of a file ends by itself.
  await expect(putting).rejects.toMatchObject({ code: 'INTERRUPTED', kind: 'interrupted' });
  expect(await readdir(temporaries)).toEqual([]);
  expect(await readdir(join(root, 'a'))).toEqual(['b']);
  expect(await readFile(join(root, 'a/b'), 'utf8')).toBe('previous');
});

test('objects of a folder that is linked from elsewhere are listed', async () => {
  for (const folder of [root, join(base, 'elsewhere')]) await mkdir(folder);
  await writeFile(join(base, 'elsewhere/x'), 'x');
  await symlink(join(base, 'elsewhere'), join(root, 'linked'));
  await symlink(join(base, 'nowhere'), join(root, 'broken'));
  expect(await listKeys(store)).toEqual(['linked/x']);
});

test('a limit on the size of files leaves no half-written object, and the previous one', async () => {
  await store.put('a/b', { bytes: Buffer.from('previous') });
  await writeFile(join(base, 'large'), Buffer.alloc(1_000_000));
  // A process of its own, because a limit cannot be taken back; 100 blocks of 512 or 1,024 bytes.
  const command = 'ulimit -f 100; exec "$0" --import tsx "$@"';
  const putting = spawnSync('sh', ['-c', command, process.execPath, PUT_FILE, root, 'a/b', join(base, 'large')]);
  expect(putting.status).toBe(1);
  expect(putting.stderr.toString()).toContain('STORE_FAILED');
  expect(putting.stderr.toString()).toContain('limit');
  expect(await readdir(join(root, '_flowdrop', 'tmp'))).toEqual([]);
  expect(await readdir(join(root, 'a'))).toEqual(['b']);
  expect(await readFile(join(root, 'a/b'), 'utf8')).toBe('previous');
});

// Mounting needs root and a system that allows it; containers mostly do not.
const mountObstacle = await findMountObstacle();
if (mountObstacle) console.warn(`*** THE TESTS OF FULL AND READ-ONLY DISKS ARE SKIPPED: ${mountObstacle}`);

describe.skipIf(mountObstacle !== undefined)('on a small disk', () => {
  const lasting = useCleanups();
  let place: string;
  let disk: SmallDisk;
  beforeAll(async () => {
    place = await lasting.folder();
    disk = await mountSmallDisk(place, 256 * 1024);
    lasting.cleanups.push(() => disk.remove());
  });

  test('a put fails with a hint, leaves the previous object, and works when there is room', async () => {
    const full = await openDirectoryStore(place);
    await full.put('a/b', { bytes: Buffer.from('previous') });
    await writeFile(join(base, 'large'), Buffer.alloc(1_000_000));
    const fault = { ...FAULT, hint: expect.stringContaining('full') };
    await expect(full.put('a/b', { path: join(base, 'large') })).rejects.toMatchObject(fault);
    await expect(full.putIfAbsent('a/c', Buffer.alloc(1_000_000))).rejects.toMatchObject(fault);
    expect(await readdir(join(place, 'a'))).toEqual(['b']);
    await full.put('a/b', { bytes: Buffer.from('next') });
    expect(await readFile(join(place, 'a/b'), 'utf8')).toBe('next');
  });

  test('a disk that became read-only fails every write with a hint, leaves nothing half-written, and is read on', async () => {
    const store = await openDirectoryStore(join(place, 'read-only'));
    await store.put('a/b', { bytes: Buffer.from('previous') });
    expect(await disk.makeReadOnly()).toBe(true);
    try {
      const fault = { ...FAULT, hint: expect.stringContaining('write permission') };
      await expect(store.put('a/b', { bytes: Buffer.from('next') })).rejects.toMatchObject(fault);
      await expect(store.putIfAbsent('new/c', Buffer.from('x'))).rejects.toMatchObject(fault);
      await expect(store.copy('a/b', 'a/d')).rejects.toMatchObject(fault);
      await expect(store.remove('a/b')).rejects.toMatchObject(fault);
      const left = (await readdir(join(place, 'read-only'), { recursive: true })).sort();
      expect(left).toEqual(['_flowdrop', '_flowdrop/tmp', 'a', 'a/b']);
      expect(await readText(store, 'a/b')).toBe('previous');
    } finally {
      await disk.heal();
    }
  });
});
