/**
 * Files that appear whole or not at all: a reader sees the old content or the new, never a mix. Invariant: bytes go to a
 * temporary file, are counted and synced, and only then renamed; then the folder is synced.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  copyFile,
  type FileHandle,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { z } from 'zod';

const TEMPORARY_NAME = /^\.flowdrop-[0-9a-f]{16}\.tmp$/;

export function isTemporaryName(name: string): boolean {
  return TEMPORARY_NAME.test(name);
}

interface WholeFileOptions {
  /** Keep an existing file unchanged. */
  readonly exclusive?: boolean;
  /** Set before the first byte. Default: the system's. */
  readonly mode?: number | undefined;
  /** If the body has another length, it is an error, and no file appears. */
  readonly expectedBytes?: number;
  /** Where the temporary file is. Default: the folder of the file, where readers of the folder may come across it. */
  readonly temporaries?: string;
}

/**
 * Writes `body` to `path`, creating its folders. Resolves to `false` if `exclusive` is set and the file exists. To
 * abort, destroy the stream: the temporary file is removed and the stream's error is thrown.
 */
export async function writeWholeFile(
  path: string,
  body: string | Uint8Array | Readable,
  options: WholeFileOptions = {},
): Promise<boolean> {
  const folder = dirname(path);
  const temporaries = options.temporaries ?? folder;
  const temporary = join(temporaries, `.flowdrop-${randomBytes(8).toString('hex')}.tmp`);
  // A stream that fails before it is read would end the process; reading it below throws the same error.
  if (body instanceof Readable) body.on('error', () => {});
  try {
    const file = await inFolder(temporaries, () => open(temporary, 'wx', options.mode));
    await writeDurably(file, body, options.expectedBytes);
    const publish = options.exclusive ? giveFreeName : giveName;
    const isWritten = await inFolder(folder, () => onSameDisk(temporary, folder, (ready) => publish(ready, path)));
    if (isWritten) await syncIfPresent(folder);
    return isWritten;
  } finally {
    if (body instanceof Readable) body.destroy();
    await removeIfPresent(temporary);
  }
}

/** A write takes minutes at most: older files were left by a killed process. */
const STALE_AFTER_MS = 24 * 3_600_000;

/**
 * Removes temporary files that killed processes left in a folder and, unless `isDeep` is false, its subfolders. Files that cannot be read or
 * removed wait for the next time: they cost space, not correctness, because they are hidden. Links are not followed.
 * @param nowMs by the file system's clock
 */
export async function removeStaleTemporaries(folder: string, nowMs: number, isDeep = true): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && isDeep) await removeStaleTemporaries(path, nowMs);
    else if (isTemporaryName(entry.name)) {
      const age = await stat(path).then(
        ({ mtimeMs }) => nowMs - mtimeMs,
        // Its writer has just renamed it.
        () => 0,
      );
      if (age > STALE_AFTER_MS) await rm(path, { force: true }).catch(() => undefined);
    }
  }
}

/** A try fails if a worker removed the folder while it was empty; each worker does so once a date. */
const MAX_OPEN_TRIES = 10;

/** Makes a file in a folder, which is created if it is missing. Then it is not empty, so no worker removes it. */
async function inFolder<T>(folder: string, make: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await makeDurableFolder(folder);
      return await make();
    } catch (error) {
      // `EEXIST`: the folder existed when it was to be created, and was gone at the next look.
      if (!hasErrorCode(error, 'ENOENT', 'EEXIST') || attempt === MAX_OPEN_TRIES) throw error;
    }
  }
}

/** Another worker may have removed the published file and its folder: then there is nothing to sync. */
async function syncIfPresent(folder: string): Promise<void> {
  await syncFolder(folder).catch((error: unknown) => {
    if (!hasErrorCode(error, 'ENOENT')) throw error;
  });
}

async function writeDurably(
  file: FileHandle,
  body: string | Uint8Array | Readable,
  expectedBytes: number | undefined,
): Promise<void> {
  try {
    if (body instanceof Readable) for await (const chunk of body) await file.appendFile(chunk);
    else await file.writeFile(body);
    const { size } = await file.stat();
    if (expectedBytes !== undefined && size !== expectedBytes) {
      throw new RangeError(`${size} bytes arrived, ${expectedBytes} were announced`);
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A folder may lie on another disk, by a link of the operator's: then the file is copied there first. */
async function onSameDisk<T>(temporary: string, folder: string, publish: (path: string) => Promise<T>): Promise<T> {
  try {
    return await publish(temporary);
  } catch (error) {
    if (!hasErrorCode(error, 'EXDEV')) throw error;
  }
  const copied = join(folder, basename(temporary));
  try {
    await copyFile(temporary, copied);
    const file = await open(copied, 'r+');
    await file.sync().finally(() => file.close());
    return await publish(copied);
  } finally {
    await removeIfPresent(copied);
  }
}

/**
 * Gives a file on the same disk its name, durably. Resolves to `false` if `exclusive` is set and the name is taken.
 * @param written is complete; without `exclusive` it is gone then
 */
export async function publishFile(written: string, path: string, exclusive: boolean): Promise<boolean> {
  await syncFolder(written); // Of a file it makes the content durable.
  const isPublished = await (exclusive ? giveFreeName : giveName)(written, path);
  if (isPublished) await syncFolder(dirname(path));
  return isPublished;
}

async function giveName(temporary: string, path: string): Promise<true> {
  await rename(temporary, path);
  return true;
}

async function giveFreeName(temporary: string, path: string): Promise<boolean> {
  try {
    await link(temporary, path);
    return true;
  } catch (error) {
    if (!hasErrorCode(error, 'EEXIST')) throw error;
    // A network file system may repeat a link whose answer was lost, and then finds its own: two names prove it.
    return await hasTwoNames(temporary);
  }
}

async function hasTwoNames(path: string): Promise<boolean> {
  const file = await open(path, 'r');
  try {
    return (await file.stat()).nlink === 2;
  } finally {
    await file.close();
  }
}

/** If the folder could not be made, it has no temporary file, and that failure has already been thrown. */
async function removeIfPresent(path: string): Promise<void> {
  await rm(path, { force: true }).catch((error: unknown) => {
    if (!hasErrorCode(error, 'ENOTDIR')) throw error;
  });
}

/**
 * Creates `folder` and its missing parents, without making them durable. Idempotent. Not `mkdir({ recursive: true })`: where
 * the system answers ENOENT for a parent that exists (/proc, some network mounts), Node loops forever on a thread that
 * cannot be stopped.
 * @returns the outermost folder that was created; `undefined` when all existed
 * @throws the system error, also when a file or a dangling link has the name
 */
export async function makeFolder(folder: string): Promise<string | undefined> {
  if (await isFolder(folder)) return undefined;
  const parent = dirname(folder);
  const outermost = await stat(parent).then(
    () => undefined,
    () => makeFolder(parent),
  );
  try {
    await mkdir(folder);
  } catch (error) {
    // Another process was faster.
    if (hasErrorCode(error, 'EEXIST') && (await isFolder(folder))) return outermost;
    throw error;
  }
  return outermost ?? folder;
}

/** `false` also when `stat` fails: the caller's `mkdir` error says more than the `stat` error. */
async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/** Removes `folder` and its parents up to, but not including, `end`, as long as they are empty. */
export async function removeEmptyFolders(folder: string, end: string): Promise<void> {
  for (let path = folder; path !== end && path !== dirname(path); path = dirname(path)) {
    try {
      await rmdir(path);
    } catch (error) {
      // Another process removed it first, and its parent may still be empty, or has written into it.
      if (!hasErrorCode(error, 'ENOENT')) return;
    }
  }
}

/** Creates missing folders and syncs each in its parent: otherwise a power cut could lose a file that was synced. */
export async function makeDurableFolder(folder: string): Promise<void> {
  const outermost = await makeFolder(folder);
  if (outermost === undefined) return;
  const end = dirname(outermost);
  for (let parent = dirname(folder); ; parent = dirname(parent)) {
    await syncFolder(parent);
    if (parent === end) return;
  }
}

/**
 * Atomically writes `content` to `path`; the folder must exist. Not durable: for files that mean nothing after a crash
 * and change too often to wait for the disk. One writer at a time.
 */
export async function replaceFile(path: string, content: string): Promise<void> {
  const temporary = `${path}.tmp`;
  await writeFile(temporary, content);
  await rename(temporary, path);
}

/** The content of a text file, or `undefined` when it does not exist. Throws on any other failure. */
export async function readFileIfExists(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** Makes renames and links in `folder` durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Whether `error` is a system error with one of these codes (`ENOENT`, `EEXIST`, ...). */
export function hasErrorCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

/** SHA-256 of a file of any size, in hexadecimal. */
export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/**
 * A small document that flowdrop keeps for itself. One that is truncated, damaged or of another version counts as absent,
 * because its content can be rebuilt: not for data that must not be lost.
 * @returns `undefined` when the file is absent or invalid @throws the system error when the file cannot be read
 */
export async function readJsonFile<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await readFileIfExists(path);
  if (text === undefined) return undefined;
  const parsed = schema.safeParse(tryParseJson(text));
  return parsed.success ? parsed.data : undefined;
}

/** `undefined` when the text is not JSON. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
