/**
 * A store in a local or mounted directory: one file per object, under the object's key. Invariant: readers, other
 * processes included, see an object whole or not at all; files still being written are never listed. It does not keep
 * content types, and a key cannot be both an object and the folder of others.
 */
import { createReadStream, type Dirent } from 'node:fs';
import { readdir, readFile, rmdir, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { hasErrorCode, syncFolder } from '../core/atomic-file.ts';
import { assertNotAborted } from '../core/errors.ts';
import { attempt } from './fault.ts';
import { assertKey, assertPrefix, compareKeys, isTemporaryName } from './key.ts';
import { SEALING_PREFIX } from './layout.ts';
import { assertLinkSeconds } from './link.ts';
import type { ObjectBody, ObjectInfo, Store } from './store.ts';
import { makeDurableFolder, removeStaleTemporaries, writeWholeFile } from './whole-file.ts';

/** What the system answers when there is no such file. `EISDIR`: the name is a folder, so no object has it. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'EISDIR'] as const;
/** Bytes per read when a file is copied: large enough that the number of system calls does not matter. */
const COPY_CHUNK_BYTES = 1 << 20;

/** Opens the store at `path`, creating the directory if there is none. @throws StoreFault */
export async function openDirectoryStore(path: string): Promise<Store> {
  const root = resolve(path);
  await attemptLocal('open', root, undefined, () => makeDurableFolder(root));
  return new DirectoryStore(root);
}

class DirectoryStore implements Store {
  readonly url: string;
  /** Folders that were looked through for what killed processes left. */
  readonly #swept = new Set<string>();

  constructor(root: string) {
    this.url = root;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return await attemptLocal('get', this.#path(key), undefined, () => ifPresent(readFile(this.#path(key))));
  }

  async head(key: string): Promise<ObjectInfo | undefined> {
    const found = await attemptLocal('head', this.#path(key), undefined, () => ifPresent(stat(this.#path(key))));
    return found?.isFile() ? { key, sizeBytes: found.size } : undefined;
  }

  async put(key: string, body: ObjectBody, options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    await this.#write('put', key, options.signal, (path) =>
      writeWholeFile(path, 'bytes' in body ? body.bytes : readLocal(body.path, options.signal)),
    );
  }

  async putIfAbsent(key: string, bytes: Uint8Array, options: { readonly signal?: AbortSignal } = {}): Promise<boolean> {
    return await this.#write('putIfAbsent', key, options.signal, (path) =>
      writeWholeFile(path, bytes, { exclusive: true }),
    );
  }

  async download(key: string, path: string, signal?: AbortSignal): Promise<boolean> {
    const info = await this.head(key);
    if (info === undefined) return false;
    return await attemptLocal('download', this.#path(key), signal, () =>
      writeWholeFile(path, readLocal(this.#path(key), signal)),
    );
  }

  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    assertPrefix(prefix);
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
    if (folder !== '') await this.#assertRoot('list');
    yield* this.#listFolder(folder, prefix);
  }

  async copy(from: string, to: string): Promise<void> {
    assertKey(from);
    await this.#write('copy', to, undefined, (path) => writeWholeFile(path, readLocal(this.#path(from))));
  }

  async remove(key: string): Promise<void> {
    const path = this.#path(key);
    await attemptLocal('remove', path, undefined, async () => {
      await ifPresent(unlink(path).then(() => syncFolder(dirname(path))));
    });
    if (key.startsWith(SEALING_PREFIX)) await removeEmptyFolders(dirname(path), this.url);
  }

  /** None: a file has no address that a reader elsewhere could open. What S3 would refuse is refused here too. */
  async link(key: string, seconds: number): Promise<undefined> {
    assertKey(key);
    assertLinkSeconds(seconds);
  }

  async close(): Promise<void> {}

  #path(key: string): string {
    assertKey(key);
    return join(this.url, key);
  }

  /** A root that has gone since it was opened is a disk that was unmounted: nothing may be written in its place. */
  async #assertRoot(operation: string): Promise<void> {
    await attemptLocal(operation, this.url, undefined, () => stat(this.url));
  }

  async #write<T>(
    operation: string,
    key: string,
    signal: AbortSignal | undefined,
    write: (path: string) => Promise<T>,
  ): Promise<T> {
    const path = this.#path(key);
    assertNotAborted(signal);
    await this.#assertRoot(operation);
    const written = await attemptLocal(operation, path, signal, () => write(path));
    const folder = dirname(path);
    if (!this.#swept.has(folder)) {
      this.#swept.add(folder);
      // What was written may have been removed since, and its folder with it.
      await attemptLocal(operation, folder, signal, () => ifPresent(removeStaleTemporaries(folder)));
    }
    return written;
  }

  /** @param folder empty, or a key that ends with `/` */
  async *#listFolder(folder: string, prefix: string): AsyncIterable<ObjectInfo> {
    const entries = await attemptLocal('list', join(this.url, folder), undefined, () => {
      const reading = readdir(join(this.url, folder), { withFileTypes: true });
      return folder === '' ? reading : ifPresent(reading);
    });
    // A folder is compared with the `/` that its keys have, so that walking it in this order gives keys in order.
    const names = (await Promise.all((entries ?? []).map((entry) => this.#formatEntry(folder, entry))))
      .filter((name) => !isTemporaryName(name) && isUnder(folder + name, prefix))
      .sort(compareKeys);
    for (const name of names) {
      const key = folder + name;
      if (name.endsWith('/')) yield* this.#listFolder(key, prefix);
      else {
        const info = await this.#info(key);
        if (info !== undefined) yield info;
      }
    }
  }

  /** The entry's name, with a `/` behind a folder. A link stands for what it leads to; a circle of them ends in ELOOP. */
  async #formatEntry(folder: string, entry: Dirent): Promise<string> {
    if (!entry.isSymbolicLink()) return entry.isDirectory() ? `${entry.name}/` : entry.name;
    const path = join(this.url, folder, entry.name);
    const found = await attemptLocal('list', path, undefined, () => ifPresent(stat(path)));
    return found?.isDirectory() ? `${entry.name}/` : entry.name;
  }

  /** Of a listed file: `undefined` when it was removed meanwhile, or is no plain file. Its name was not checked by us. */
  async #info(key: string): Promise<ObjectInfo | undefined> {
    const path = join(this.url, key);
    const found = await attemptLocal('list', path, undefined, () => ifPresent(stat(path)));
    return found?.isFile() ? { key, sizeBytes: found.size } : undefined;
  }
}

/** Whether `key` begins with `prefix`, or, for a folder, whether keys below it may. */
function isUnder(key: string, prefix: string): boolean {
  return key.startsWith(prefix) || (key.endsWith('/') && prefix.startsWith(key));
}

/**
 * Folders that nothing is in any more, from `folder` up to, without, `root`. Only of what a seal needs for minutes: other
 * folders may have been made by the operator, with rights of their own. A folder in use stays, and one that cannot be
 * removed costs nothing.
 */
async function removeEmptyFolders(folder: string, root: string): Promise<void> {
  for (let path = folder; path !== root && path !== dirname(path); path = dirname(path)) {
    const isGone = await rmdir(path).then(
      () => true,
      // Another worker was first; above it there may still be an empty one.
      (error: unknown) => hasErrorCode(error, 'ENOENT'),
    );
    if (!isGone) return;
  }
}

function readLocal(path: string, signal?: AbortSignal): Readable {
  return createReadStream(path, { highWaterMark: COPY_CHUNK_BYTES, ...(signal === undefined ? {} : { signal }) });
}

async function ifPresent<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (hasErrorCode(error, ...ABSENT)) return undefined;
    throw error;
  }
}

async function attemptLocal<T>(
  operation: string,
  target: string,
  signal: AbortSignal | undefined,
  act: () => Promise<T>,
): Promise<T> {
  return await attempt(operation, target, signal, (error) => ({ cause: error, hint: hintFor(error) }), act);
}

function hintFor(error: unknown): string | undefined {
  if (hasErrorCode(error, 'EACCES', 'EPERM', 'EROFS')) {
    return 'Give this user the right to write there; the file system must also allow hard links.';
  }
  if (hasErrorCode(error, 'ENOSPC', 'EDQUOT')) return 'The disk is full: make room, then start the same command again.';
  if (hasErrorCode(error, 'EFBIG'))
    return 'The file is above the limit of this user or file system: look at ulimit -f.';
  if (hasErrorCode(error, 'ENOENT')) return 'Look whether the path exists, and whether its disk is mounted.';
  if (hasErrorCode(error, 'ENOTDIR', 'EEXIST', 'EISDIR')) {
    return 'A file stands where a folder is needed, or a folder where a file is: move it, or choose another place.';
  }
  if (hasErrorCode(error, 'ENOTSUP', 'EOPNOTSUPP')) return 'This file system has no hard links: use another, or S3.';
  return undefined;
}
