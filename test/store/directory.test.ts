/** Faults of the directory store at the file system. What holds for every store is in `test/contract/store.test.ts`. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';

let base: string;
let root: string;
let store: Store;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'flowdrop-directory-'));
  root = join(base, 'root');
  store = await openDirectoryStore(root);
});

afterEach(async () => {
  await rm(base, { recursive: true, force: true });
});

const FAULT = { name: 'StoreFault', code: 'STORE_FAILED', hint: expect.any(String) };

async function listKeys(prefix = ''): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list(prefix)) keys.push(key);
  return keys;
}

test('a temporary file that a crash left is never listed, got or copied', async () => {
  await mkdir(join(root, 'a'));
  await writeFile(join(root, 'a/.flowdrop-0123456789abcdef.tmp'), 'half');
  await store.put('a/whole', { bytes: Buffer.from('x') });
  expect(await listKeys()).toEqual(['a/whole']);
  await expect(store.get('a/.flowdrop-0123456789abcdef.tmp')).rejects.toMatchObject({ code: 'KEY_INVALID' });
});

test('a directory store cannot be opened below a regular file', async () => {
  await writeFile(join(base, 'file'), '');
  const opening = openDirectoryStore(join(base, 'file/store'));
  await expect(opening).rejects.toMatchObject({ ...FAULT, message: expect.stringContaining(join(base, 'file/store')) });
});

test('a regular file is no directory store', async () => {
  await writeFile(join(base, 'file'), '');
  await expect(openDirectoryStore(join(base, 'file'))).rejects.toMatchObject(FAULT);
});

test('a place where no folder can be made is a fault, not an endless wait', async () => {
  // The kernel answers ENOENT for a folder in /proc, on which Node's recursive mkdir never returns.
  await expect(openDirectoryStore('/proc/flowdrop')).rejects.toMatchObject(FAULT);
});

test('a key below an object is a fault, and the object stays', async () => {
  await store.put('a', { bytes: Buffer.from('object') });
  await expect(store.put('a/b', { bytes: Buffer.from('x') })).rejects.toMatchObject(FAULT);
  await expect(store.putIfAbsent('a/b', Buffer.from('x'))).rejects.toMatchObject(FAULT);
  expect(await store.get('a/b')).toBeUndefined();
  expect(await listKeys()).toEqual(['a']);
});

test('a root that has gone is a fault, not an empty store', async () => {
  await store.put('a/b', { bytes: Buffer.from('x') });
  await rm(root, { recursive: true });
  await expect(listKeys()).rejects.toMatchObject(FAULT);
  await expect(listKeys('a/')).rejects.toMatchObject(FAULT);
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
  await vi.waitFor(async () => expect(await readdir(join(root, 'a'))).toHaveLength(2));
  expect(await listKeys()).toEqual(['a/b']);
  abort.abort();
  source.end(); // A read of a pipe cannot be interrupted; that of a file ends by itself.
  await expect(putting).rejects.toMatchObject({ code: 'INTERRUPTED', kind: 'interrupted' });
  expect(await readdir(join(root, 'a'))).toEqual(['b']);
  expect(await readFile(join(root, 'a/b'), 'utf8')).toBe('previous');
});

test('objects of a folder that is linked from elsewhere are listed', async () => {
  await mkdir(join(base, 'elsewhere'));
  await writeFile(join(base, 'elsewhere/x'), 'x');
  await symlink(join(base, 'elsewhere'), join(root, 'linked'));
  await symlink(join(base, 'nowhere'), join(root, 'broken'));
  expect(await listKeys()).toEqual(['linked/x']);
});

// Mounting needs root and a system that allows it; containers mostly do not.
const CANNOT_MOUNT = spawnSync('unshare', ['-m', 'true']).status !== 0;
if (CANNOT_MOUNT) console.warn('*** THE FULL DISK TEST IS SKIPPED: mounting a tmpfs is not allowed here');

describe.skipIf(CANNOT_MOUNT)('on a full disk', () => {
  let disk: string;

  beforeAll(async () => {
    disk = await mkdtemp(join(tmpdir(), 'flowdrop-full-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', disk]);
  });

  afterAll(async () => {
    execFileSync('umount', [disk]);
    await rm(disk, { recursive: true, force: true });
  });

  test('a put fails with a hint, leaves the previous object, and works when there is room', async () => {
    const full = await openDirectoryStore(disk);
    await full.put('a/b', { bytes: Buffer.from('previous') });
    await writeFile(join(base, 'large'), Buffer.alloc(1_000_000));
    const fault = { ...FAULT, hint: expect.stringContaining('full') };
    await expect(full.put('a/b', { path: join(base, 'large') })).rejects.toMatchObject(fault);
    await expect(full.putIfAbsent('a/c', Buffer.alloc(1_000_000))).rejects.toMatchObject(fault);
    expect(await readdir(join(disk, 'a'))).toEqual(['b']);
    await full.put('a/b', { bytes: Buffer.from('next') });
    expect(await readFile(join(disk, 'a/b'), 'utf8')).toBe('next');
  });
});
