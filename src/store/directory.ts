/**
 * A store in a local or mounted directory: one file per object, named by the object's key. Invariant: readers,
 * including other processes, see an object whole or not at all; unfinished files are never listed; every write is
 * verified by reading back. It does not store content types, and a key cannot be both an object and the folder of
 * others.
 */
import { createReadStream, type Dirent } from 'node:fs';
import { open, readdir, rmdir, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import {
  hasErrorCode,
  isTemporaryName,
  makeDurableFolder,
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
  isPlainlyOrdered,
  SEALING_PREFIX,
  TEMPORARIES_PREFIX,
} from './object-key.ts';
import {
  assertLinkSeconds,
  assertSmall,
  attempt,
  type ListedObject,
  type ObjectBody,
  type ObjectInfo,
  type Store,
} from './store.ts';

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

interface DirectoryOptions {
  /**
   * Whether to create a missing directory at once. Otherwise the first object creates it, and until then it reads as an
   * empty store. Default: true.
   */
  readonly make?: boolean | undefined;
}

/** Opens the store at `path`. @throws StoreFault */
export async function openDirectoryStore(path: string, { make = true }: DirectoryOptions = {}): Promise<Store> {
  const root = resolve(path);
  const isMade = await attemptLocal('open', root, undefined, async () => {
    if (!make && !(await isPresent(root))) return false;
    await makeDurableFolder(root);
    return true;
  });
  return new DirectoryStore(root, isMade);
}

class DirectoryStore implements Store {
  readonly url: string;
  /** Outside the folders with rows, which readers list. */
  readonly #temporaries: string;
  /** Whether the leftovers of killed processes were searched for. */
  #isSwept = false;
  /** Whether the directory has been seen: from then on its absence is a fault. */
  #isMade: boolean;

  constructor(root: string, isMade: boolean) {
    this.url = root;
    this.#temporaries = join(root, TEMPORARIES_PREFIX);
    this.#isMade = isMade;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return await attemptLocal('get', this.#path(key), undefined, () => ifPresent(readSmall(this.#path(key))));
  }

  async head(key: string): Promise<ObjectInfo | undefined> {
    const found = await attemptLocal('head', this.#path(key), undefined, () => ifPresent(stat(this.#path(key))));
    return found?.isFile() ? { key, sizeBytes: found.size } : undefined;
  }

  async put(
    key: string,
    body: ObjectBody,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    await this.#write('put', key, 'bytes' in body ? body.bytes : body.path, { signal });
  }

  async putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean> {
    return (await this.#write('putIfAbsent', key, bytes, { exclusive: true })) !== undefined;
  }

  async download(key: string, path: string, signal?: AbortSignal): Promise<boolean> {
    const info = await this.head(key);
    if (info === undefined) return false;
    return await attemptLocal('download', this.#path(key), signal, () =>
      writeWholeFile(path, readLocal(this.#path(key), signal)),
    );
  }

  async *list(prefix: string, after = ''): AsyncIterable<ListedObject> {
    assertPrefix(prefix);
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
    if (!(await this.#isThere('list'))) return;
    if (folder !== '') await this.#assertRoot('list');
    // All keys of the folder come before it.
    if (!after.startsWith(folder) && compareKeys(after, folder) > 0) return;
    yield* this.#listFolder(folder, prefix, after);
  }

  async listFolders(prefix: string): Promise<readonly string[]> {
    assertPrefix(prefix);
    if (!(await this.#isThere('list'))) return [];
    const names = await this.#listNames(prefix, prefix, '');
    return names.filter((name) => name.endsWith('/')).map((name) => name.slice(0, -1));
  }

  async copy(from: string, to: string): Promise<ObjectInfo> {
    return { key: to, sizeBytes: (await this.#write('copy', to, this.#path(from))) ?? 0 };
  }

  async remove(key: string): Promise<void> {
    const path = this.#path(key);
    await attemptLocal('remove', path, undefined, async () => {
      await ifPresent(unlink(path).then(() => syncFolder(dirname(path))));
    });
    if (PASSING.some((prefix) => key.startsWith(prefix))) {
      for (const folder of [dirname(path), this.#temporaries]) await removeEmptyFolders(folder, this.url);
    }
  }

  /** None: a file has no address that a remote reader could open. Arguments that S3 would refuse are refused too. */
  async link(key: string, seconds: number): Promise<undefined> {
    assertKey(key);
    assertLinkSeconds(seconds);
  }

  async close(): Promise<void> {}

  #path(key: string): string {
    assertKey(key);
    return join(this.url, key);
  }

  /** Whether the root exists. A root that never existed is an empty store; one that has disappeared is not. */
  async #isThere(operation: string): Promise<boolean> {
    if (this.#isMade) return true;
    this.#isMade = await attemptLocal(operation, this.url, undefined, () => isPresent(this.url));
    return this.#isMade;
  }

  /** A root that disappeared belongs to an unmounted disk: nothing may be written in its place. */
  async #assertRoot(operation: string): Promise<void> {
    await attemptLocal(operation, this.url, undefined, () => stat(this.url));
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
    if (await this.#isThere(operation)) await this.#assertRoot(operation);
    const written = await attemptLocal(operation, path, signal, async () => {
      for (let writes = 1; ; writes += 1) {
        const expectedBytes = typeof from === 'string' ? (await stat(from)).size : from.length;
        const options = { exclusive, expectedBytes, temporaries: this.#temporaries };
        const body = typeof from === 'string' ? readLocal(from, signal) : from;
        if (!(await writeWholeFile(path, body, options))) return undefined;
        if (await isKept(path, from, expectedBytes)) return expectedBytes;
        // The first time, another worker may have removed a file that it no longer needs; the extra copy does no harm.
        if (writes === MAX_WRITES) throw new UnmetWrite('the file is not there after it was written');
      }
    });
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

  /** @param folder empty, or a key that ends with `/` @param listed its names, if they are being read already */
  async *#listFolder(
    folder: string,
    prefix: string,
    after: string,
    listed: Promise<readonly string[]> = this.#listNames(folder, prefix, after),
  ): AsyncIterable<ListedObject> {
    const names = await listed;
    // Each answer of the file system is waited for, so the next ones are asked for ahead: one level only, because a
    // caller may stop at the first key of a large tree.
    for (let start = 0; start < names.length; start += LISTED_AT_ONCE) {
      const ahead = names.slice(start, start + LISTED_AT_ONCE).map((name) => {
        const key = folder + name;
        if (!name.endsWith('/')) return { key, info: this.#info(key) };
        return { key, below: this.#listNames(key, prefix, after) };
      });
      // One that fails is reported where it is reached.
      for (const { info, below } of ahead) (info ?? below)?.catch(() => {});
      for (const { key, info, below } of ahead) {
        if (below !== undefined) yield* this.#listFolder(key, prefix, after, below);
        const found = await info;
        if (found !== undefined) yield found;
      }
    }
  }

  /** Names in a folder that a listing wants, in key order, folders with a `/`. */
  async #listNames(folder: string, prefix: string, after: string): Promise<readonly string[]> {
    // What has passed as a folder is wanted whole, unless prefix or `after` are below it.
    const below = prefix.startsWith(folder) ? prefix.slice(folder.length) : '';
    const behind = after.startsWith(folder) ? after.slice(folder.length) : '';
    const isLater = isPlainlyOrdered(behind)
      ? (name: string) => name > behind
      : (name: string) => compareKeys(name, behind) > 0;
    // A folder may have later keys although it is not later itself.
    const isBehind = (name: string) => isLater(name) || (name.endsWith('/') && behind.startsWith(name));
    const isWanted = (name: string) => isUnder(name, below) && isBehind(name);
    const entries = await attemptLocal('list', join(this.url, folder), undefined, () => {
      const reading = readdir(join(this.url, folder), { withFileTypes: true });
      return folder === '' ? reading : ifPresent(reading);
    });
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
    const found = await attemptLocal('list', path, undefined, () => ifPresent(stat(path)));
    return found?.isDirectory() ? `${entry.name}/` : entry.name;
  }

  /** Describes a listed file; `undefined` if it was removed meanwhile or is not a file. Its name was not checked. */
  async #info(key: string): Promise<ListedObject | undefined> {
    const path = join(this.url, key);
    const found = await attemptLocal('list', path, undefined, () => ifPresent(stat(path)));
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

/** Whether `key` begins with `prefix`, or, if it is a folder, whether keys below it may. */
function isUnder(key: string, prefix: string): boolean {
  return key.startsWith(prefix) || (key.endsWith('/') && prefix.startsWith(key));
}

/**
 * Removes empty folders from `folder` up to `root`, exclusive. Used only below the folders of files being sealed: other
 * folders may have been made by the operator, with their own permissions. A folder in use stays, and failing to remove
 * one costs nothing.
 */
async function removeEmptyFolders(folder: string, root: string): Promise<void> {
  for (let path = folder; path !== root && path !== dirname(path); path = dirname(path)) {
    const isGone = await rmdir(path).then(
      () => true,
      // Another worker removed it first; its parent may still be empty.
      (error: unknown) => hasErrorCode(error, 'ENOENT'),
    );
    if (!isGone) return;
  }
}

/** @throws the system's error if nothing can be created at the path */
async function isPresent(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    (error: unknown) => {
      if (hasErrorCode(error, 'ENOENT')) return false;
      throw error;
    },
  );
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
