/**
 * Large local files that appear whole or not at all. Invariant: bytes go to a temporary file in the same folder, are
 * made durable, counted, and only then given their name. Small files of other stages use `core/atomic-file.ts`.
 */
import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { hasErrorCode, syncFolder } from '../core/atomic-file.ts';
import { buildTemporaryName, isTemporaryName } from './key.ts';

export interface WholeFileOptions {
  /** Leave a file that is already there as it is. */
  readonly exclusive?: boolean;
  /** A body of another length is an error, and nothing appears. */
  readonly expectedBytes?: number;
}

/**
 * Writes `body` to `path`, creating its folders. Resolves to `false` when `exclusive` and the file exists.
 * To abort, destroy the stream: the temporary file is removed and the stream's error is thrown.
 */
export async function writeWholeFile(
  path: string,
  body: Uint8Array | Readable,
  options: WholeFileOptions = {},
): Promise<boolean> {
  const folder = dirname(path);
  const temporary = join(folder, buildTemporaryName(randomBytes(8).toString('hex')));
  // A stream that fails before it is read would end the process; reading it below throws the same error.
  if (body instanceof Readable) body.on('error', () => {});
  try {
    await makeFolder(folder);
    await writeDurably(temporary, body, options.expectedBytes);
    const isWritten = options.exclusive ? await publishExclusively(temporary, path) : await publish(temporary, path);
    if (isWritten) await syncFolder(folder);
    return isWritten;
  } finally {
    if (body instanceof Readable) body.destroy();
    await removeIfPresent(temporary);
  }
}

/** A write takes minutes at most: what is older was left by a process that was killed. */
const STALE_AFTER_MS = 24 * 3_600_000;

/**
 * Removes temporary files that killed processes left in a folder that was written to a moment ago: its own time is the
 * file system's clock. What cannot be removed is left to the next write.
 */
export async function removeStaleTemporaries(folder: string): Promise<void> {
  const { mtimeMs: now } = await stat(folder);
  for (const name of await readdir(folder)) {
    if (!isTemporaryName(name)) continue;
    const path = join(folder, name);
    const age = await stat(path).then(
      ({ mtimeMs }) => now - mtimeMs,
      // Its writer has just given it its name.
      () => 0,
    );
    // A leftover costs space, not correctness: it is hidden, and the next write tries again.
    if (age > STALE_AFTER_MS) await rm(path, { force: true }).catch(() => undefined);
  }
}

async function writeDurably(
  temporary: string,
  body: Uint8Array | Readable,
  expectedBytes: number | undefined,
): Promise<void> {
  const file = await open(temporary, 'wx');
  try {
    if (body instanceof Readable) for await (const chunk of body) await file.appendFile(chunk);
    else await file.writeFile(body);
    const { size } = await file.stat();
    if (expectedBytes !== undefined && size !== expectedBytes) {
      throw new RangeError(`${size} bytes came where ${expectedBytes} were announced`);
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

async function publish(temporary: string, path: string): Promise<true> {
  await rename(temporary, path);
  return true;
}

async function publishExclusively(temporary: string, path: string): Promise<boolean> {
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

/** A folder that could not be made has no temporary file in it either: that failure is thrown already, not this one. */
async function removeIfPresent(path: string): Promise<void> {
  await rm(path, { force: true }).catch((error: unknown) => {
    if (!hasErrorCode(error, 'ENOTDIR')) throw error;
  });
}

/**
 * Creates missing folders, each durable in its parent: otherwise a power cut could lose a file that was synced.
 * Not `mkdir({ recursive: true })`: where the system answers ENOENT for a parent that exists (/proc, some network
 * mounts), that never returns.
 */
export async function makeFolder(folder: string): Promise<void> {
  const parent = dirname(folder);
  try {
    if (!(await createFolder(folder))) return;
  } catch (error) {
    if (!hasErrorCode(error, 'ENOENT') || parent === folder) throw error;
    await makeFolder(parent);
    if (!(await createFolder(folder))) return;
  }
  await syncFolder(parent);
}

/** `false` when there is such a folder already. */
async function createFolder(folder: string): Promise<boolean> {
  try {
    await mkdir(folder);
    return true;
  } catch (error) {
    if (hasErrorCode(error, 'EEXIST', 'EISDIR', 'EROFS') && (await isFolder(folder))) return false;
    throw error;
  }
}

/** What cannot be looked at is none: the failure to make it says more than the failure to look. */
async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
