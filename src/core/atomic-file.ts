/**
 * Durable small files. Invariant: a reader sees the old content or the new, never a mixture: temp file in the same
 * folder, fsync, rename, fsync of the folder.
 */
import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeFolder } from './folder.ts';

/** Writes `content` to `path` in one step, creating its folder. */
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

/**
 * Writes `content` to `path` in one step, into a folder that is there. Not durable: for what says nothing after a crash,
 * and is written so often that a disk should not have to be waited for. One writer at a time.
 */
export async function replaceFile(path: string, content: string): Promise<void> {
  const temporary = `${path}.tmp`;
  await writeFile(temporary, content);
  await rename(temporary, path);
}

/** The content of a text file, or `undefined` when there is none. Any other failure is thrown. */
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
