/**
 * A store in a local or mounted directory: one file per object, named by the object's key. Invariant: readers,
 * including other processes, see an object whole or not at all; unfinished files are never listed; every write is
 * verified by reading back. It does not store content types, and a key cannot be both an object and the folder of
 * others.
 */
import { createReadStream, type Dirent } from 'node:fs';
import { open, readdir, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import {
  hasErrorCode,
  isTemporaryName,
  makeDurableFolder,
  removeEmptyFolders,
  removeStaleTemporaries,
  syncFolder,
  writeWholeFile,
} from '../core/atomic-file.ts';
import { assertNotAborted } from '../core/errors.ts';
import {
  assertKey,
  assertPrefix,
  compareKeys,
  DOCTOR_PREFIX,
  SEALING_PREFIX,
  TEMPORARIES_PREFIX,
} from './object-key.ts';
import { assertSmall, attempt, type ListedObject, type ObjectBody, type ObjectInfo, type Store } from './store.ts';

/** System errors for a missing file. `EISDIR`: the name is a folder, so there is no such object. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'EISDIR'] as const;

/** Objects that exist for minutes only: their empty folders are removed. */
const PASSING = [SEALING_PREFIX, DOCTOR_PREFIX];

/** Names of a folder that are looked at ahead. */
const LISTED_AT_ONCE = 16;

/** Bytes per read when copying a file: large enough that the number of system calls does not matter. */
const COPY_CHUNK_BYTES = 1 << 20;

/** A file that disappears right after it was written is written once more. */
const MAX_WRITES = 2;

/** The file system accepted a file, but it is missing or different afterwards. */
class UnmetWrite extends TypeError {
  override readonly name = 'UnmetWrite';
}

/** The first object creates a missing directory; until then it reads as an empty store. @throws StoreFault */
export async function openDirectoryStore(path: string): Promise<Store> {
  const store = new DirectoryStore(resolve(path));
  // A file in its place is a fault, too.
  if (await store.hasRoot('open')) await attemptLocal('open', store.url, () => makeDurableFolder(store.url));
  return store;
}

class DirectoryStore implements Store {
  readonly url: string;
  /** Outside the folders with rows, which readers list. */
  readonly #temporaries: string;
  /** Whether the leftovers of killed processes were searched for. */
  #isSwept = false;
  /** Whether the directory has been seen: from then on its absence is a fault. */
  #isMade = false;

  constructor(root: string) {
    this.url = root;
    this.#temporaries = join(root, TEMPORARIES_PREFIX);
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    const path = this.#path(key);
    return await attemptLocal('get', path, () => ifPresent(readSmall(path)));
  }

  async head(key: string): Promise<ObjectInfo | undefined> {
    const path = this.#path(key);
    const found = await attemptLocal('head', path, () => ifPresent(stat(path)));
    return found?.isFile() ? { key, sizeBytes: found.size } : undefined;
  }

  async put(key: string, body: ObjectBody, { signal }: { readonly signal?: AbortSignal | undefined } = {}) {
    await this.#write('put', key, 'bytes' in body ? body.bytes : body.path, { signal });
  }

  async putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean> {
    return (await this.#write('putIfAbsent', key, bytes, { exclusive: true })) !== undefined;
  }

  async download(key: string, path: string, signal?: AbortSignal): Promise<boolean> {
    const from = this.#path(key);
    if ((await this.head(key)) === undefined) return false;
    return await attemptLocal('download', from, () => writeWholeFile(path, readLocal(from, signal)), signal);
  }

  async *list(prefix: string, after = ''): AsyncIterable<ListedObject> {
    assertPrefix(prefix);
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
    if (!(await this.hasRoot('list'))) return;
    // All keys of the folder come before it.
    if (!after.startsWith(folder) && compareKeys(after, folder) > 0) return;
    yield* this.#listFolder(folder, prefix, after, await this.#listNames(folder, prefix, after));
  }

  async listFolders(prefix: string): Promise<readonly string[]> {
    assertPrefix(prefix);
    if (!(await this.hasRoot('list'))) return [];
    const names = await this.#listNames(prefix, prefix, '');
    return names.filter((name) => name.endsWith('/')).map((name) => name.slice(0, -1));
  }

  async copy(from: string, to: string): Promise<ObjectInfo> {
    return { key: to, sizeBytes: (await this.#write('copy', to, this.#path(from))) ?? 0 };
  }

  async remove(key: string): Promise<void> {
    const path = this.#path(key);
    await attemptLocal('remove', path, () => ifPresent(unlink(path).then(() => syncFolder(dirname(path)))));
    // Other folders may have been made by the operator, with permissions of their own.
    if (PASSING.some((prefix) => key.startsWith(prefix))) {
      for (const folder of [dirname(path), this.#temporaries]) await removeEmptyFolders(folder, this.url);
    }
  }

  /** None: a file has no address that a remote reader could open. */
  async link(key: string): Promise<undefined> {
    assertKey(key);
  }

  async close(): Promise<void> {}

  #path(key: string): string {
    assertKey(key);
    return join(this.url, key);
  }

  /**
   * Whether there is a root: one that never existed is an empty store. One that has disappeared belongs to an unmounted
   * disk: nothing may be written in its place.
   */
  async hasRoot(operation: string): Promise<boolean> {
    const found = await attemptLocal(operation, this.url, () => {
      return this.#isMade ? stat(this.url) : ifPresent(stat(this.url), ['ENOENT']);
    });
    this.#isMade = found !== undefined;
    return this.#isMade;
  }

  /** @param from bytes, or the path of a file @returns their number; `undefined` if `exclusive` and there is an object */
  async #write(
    operation: string,
    key: string,
    from: Uint8Array | string,
    { signal, exclusive = false }: { readonly signal?: AbortSignal | undefined; readonly exclusive?: boolean } = {},
  ): Promise<number | undefined> {
    const path = this.#path(key);
    assertNotAborted(signal);
    await this.hasRoot(operation);
    const write = async () => {
      for (let writes = 1; ; writes += 1) {
        const expectedBytes = typeof from === 'string' ? (await stat(from)).size : from.length;
        const options = { exclusive, expectedBytes, temporaries: this.#temporaries };
        const body = typeof from === 'string' ? readLocal(from, signal) : from;
        if (!(await writeWholeFile(path, body, options))) return undefined;
        if (await isKept(path, from, expectedBytes)) return expectedBytes;
        // The first time, another worker may have removed a file that it no longer needs; the extra copy does no harm.
        if (writes === MAX_WRITES) throw new UnmetWrite('the file is not there after it was written');
      }
    };
    const written = await attemptLocal(operation, path, write, signal);
    this.#isMade = true;
    await this.#sweep(dirname(path));
    return written;
  }

  /**
   * Sweeps all folders, once: most are never written to again, and a killed worker's files may be as large as a drop.
   * @param folder a folder written to a moment ago: its modification time is the file system's clock
   */
  async #sweep(folder: string): Promise<void> {
    if (this.#isSwept) return;
    this.#isSwept = true;
    // The written file and its folder may have been removed since: then the next process sweeps.
    const found = await stat(folder).catch(() => undefined);
    if (found !== undefined) await removeStaleTemporaries(this.url, found.mtimeMs);
  }

  /** @param folder empty, or a key that ends with `/` @param names what of it is listed */
  async *#listFolder(
    folder: string,
    prefix: string,
    after: string,
    names: readonly string[],
  ): AsyncIterable<ListedObject> {
    // Each answer of the file system is waited for, so the next ones are asked for ahead: one level only, because a
    // caller may stop at the first key of a large tree.
    for (let start = 0; start < names.length; start += LISTED_AT_ONCE) {
      const ahead = names.slice(start, start + LISTED_AT_ONCE).map((name) => {
        const key = folder + name;
        const asked = name.endsWith('/') ? this.#listNames(key, prefix, after) : this.#info(key);
        // One that fails is reported where it is reached.
        asked.catch(() => {});
        return { key, asked };
      });
      for (const { key, asked } of ahead) {
        const found = await asked;
        if (found !== undefined && 'key' in found) yield found;
        else if (found !== undefined) yield* this.#listFolder(key, prefix, after, found);
      }
    }
  }

  /** Names in a folder that a listing wants, in key order, folders with a `/`. */
  async #listNames(folder: string, prefix: string, after: string): Promise<readonly string[]> {
    // What has passed as a folder is wanted whole, unless prefix or `after` are below it.
    const below = prefix.startsWith(folder) ? prefix.slice(folder.length) : '';
    const behind = after.startsWith(folder) ? after.slice(folder.length) : '';
    // A folder may have wanted keys although its own name is not one.
    const isAbove = (name: string, key: string) => name.endsWith('/') && key.startsWith(name);
    const isWanted = (name: string) =>
      (name.startsWith(below) || isAbove(name, below)) && (compareKeys(name, behind) > 0 || isAbove(name, behind));
    const path = join(this.url, folder);
    const entries = await attemptLocal('list', path, () => ifPresent(readdir(path, { withFileTypes: true })));
    // A folder is compared with the `/` that its keys have, so that walking in this order gives keys in order.
    // Most of ten years are before `after`. A link may be either; as a folder, nothing that it may be is left out.
    const few = (entries ?? []).filter((entry) => isWanted(entry.isFile() ? entry.name : `${entry.name}/`));
    const names = await Promise.all(few.map((entry) => this.#formatEntry(folder, entry)));
    return names.filter((name) => !isTemporaryName(name) && isWanted(name)).sort(compareKeys);
  }

  /** The entry's name, with a `/` after a folder. A link counts as its target; a cycle of links ends in ELOOP. */
  async #formatEntry(folder: string, entry: Dirent): Promise<string> {
    if (!entry.isSymbolicLink()) return entry.isDirectory() ? `${entry.name}/` : entry.name;
    const path = join(this.url, folder, entry.name);
    const found = await attemptLocal('list', path, () => ifPresent(stat(path)));
    return found?.isDirectory() ? `${entry.name}/` : entry.name;
  }

  /** Describes a listed file; `undefined` if it was removed meanwhile or is not a file. Its name was not checked. */
  async #info(key: string): Promise<ListedObject | undefined> {
    const path = join(this.url, key);
    const found = await attemptLocal('list', path, () => ifPresent(stat(path)));
    if (!found?.isFile()) return undefined;
    const { size: sizeBytes, mtimeMs: modifiedAtMs, ino } = found;
    // A replaced file is a new one, but its number may be used again: only with the time it is never the same.
    return { key, sizeBytes, modifiedAtMs, version: `${ino} ${modifiedAtMs} ${sizeBytes}` };
  }
}

/** @throws Fault `OBJECT_TOO_LARGE`, without reading anything */
async function readSmall(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r');
  try {
    assertSmall(path, (await file.stat()).size);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

function readLocal(path: string, signal?: AbortSignal): Readable {
  return createReadStream(path, { highWaterMark: COPY_CHUNK_BYTES, signal });
}

/**
 * Verifies a file that was just written: a network file system may accept and lose it, and another program may remove
 * or replace it.
 * @returns whether it exists @throws UnmetWrite if it differs: in its bytes, or its size if they came from a file
 */
async function isKept(path: string, from: Uint8Array | string, sizeBytes: number): Promise<boolean> {
  const reading = typeof from === 'string' ? stat(path).then(({ size }) => size) : readSmall(path);
  const found = await ifPresent<number | Uint8Array>(reading);
  if (found === undefined) return false;
  if (typeof found === 'number' || typeof from === 'string') {
    if (found === sizeBytes) return true;
    throw new UnmetWrite(`the file has ${found} bytes after ${sizeBytes} were written`);
  }
  if (Buffer.compare(found, from) === 0) return true;
  throw new UnmetWrite(`the file has different bytes after ${sizeBytes} were written`);
}

/** `undefined` after a system error with one of these codes. */
async function ifPresent<T>(reading: Promise<T>, codes: readonly string[] = ABSENT): Promise<T | undefined> {
  return await reading.catch((error: unknown) => {
    if (hasErrorCode(error, ...codes)) return undefined;
    throw error;
  });
}

async function attemptLocal<T>(operation: string, target: string, act: () => Promise<T>, signal?: AbortSignal) {
  return await attempt(operation, target, signal, (error) => ({ cause: error, hint: hintFor(error) }), act);
}

function hintFor(error: unknown): string | undefined {
  if (error instanceof UnmetWrite) {
    return 'Another program may remove or replace files there, or the disk loses them: check both, then start the same command again.';
  }
  if (hasErrorCode(error, 'EACCES', 'EPERM', 'EROFS')) {
    return 'Give this user write permission there; the file system must also allow hard links.';
  }
  if (hasErrorCode(error, 'ENOSPC', 'EDQUOT')) return 'The disk is full: make room, then start the same command again.';
  if (hasErrorCode(error, 'EFBIG')) return 'The file exceeds the limit of this user or file system: check ulimit -f.';
  if (hasErrorCode(error, 'ENOENT')) return 'Check whether the path exists, and whether its disk is mounted.';
  if (hasErrorCode(error, 'ENOTDIR', 'EEXIST', 'EISDIR')) {
    return 'A file stands where a folder is needed, or a folder where a file is: move it, or choose another place.';
  }
  if (hasErrorCode(error, 'ENOTSUP', 'EOPNOTSUPP')) return 'This file system has no hard links: use another, or S3.';
  return undefined;
}
