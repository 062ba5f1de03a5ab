/**
 * Durable small files. Invariant: a reader sees the old content or the new, never a mix. Each write goes to a temp file
 * in the same folder, then fsync, rename, fsync of the folder.
 */
import { randomBytes } from 'node:crypto';
import { open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeFolder } from './folder.ts';

/** Writes `content` to `path` atomically and creates its folder. */
export async function writeFileAtomic(path: string, content: string | Uint8Array): Promise<void> {
  const folder = dirname(path);
  await makeFolder(folder);
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    const file = await open(temporary, 'wx');
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(folder);
}

/** A write takes seconds at most, so an older temp file belongs to a killed process. */
const STALE_AFTER_MS = 24 * 3_600_000;
const TEMPORARY = /\.[0-9a-f]{12}\.tmp$/;

/** Removes temp files that killed processes left in a folder, once they are a day old. */
export async function removeTemporaries(folder: string, nowMs: number): Promise<void> {
  // All errors are ignorable: a leftover costs a few bytes, and the next call tries again.
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((one) => TEMPORARY.test(one))) {
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found && nowMs - found.mtimeMs > STALE_AFTER_MS) await rm(path, { force: true }).catch(() => undefined);
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
