/**
 * Creates folders with their parents. It does not use `mkdir({ recursive: true })`: where the system answers ENOENT for
 * a parent that exists (/proc, some network mounts), Node loops forever on a thread that cannot be stopped. Invariant:
 * each folder of the path is tried twice at most. It makes nothing durable: `atomic-file.ts` does.
 */
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates `folder` and its missing parents. Idempotent.
 * @returns the outermost folder that was created; `undefined` when all existed
 * @throws the system error, also when a file or a dangling link has the name
 */
export async function makeFolder(folder: string): Promise<string | undefined> {
  try {
    return (await createFolder(folder)) ? folder : undefined;
  } catch (error) {
    const parent = dirname(folder);
    if (codeOf(error) !== 'ENOENT' || parent === folder) throw error;
    const outermost = await makeFolder(parent);
    const isMade = await createFolder(folder);
    return outermost ?? (isMade ? folder : undefined);
  }
}

/** Synchronous `makeFolder`, for callers that nothing may interrupt. */
export function makeFolderNow(folder: string): void {
  try {
    createFolderNow(folder);
  } catch (error) {
    const parent = dirname(folder);
    if (codeOf(error) !== 'ENOENT' || parent === folder) throw error;
    makeFolderNow(parent);
    createFolderNow(folder);
  }
}

/** Error codes that a folder which already exists can cause. */
const TAKEN: readonly string[] = ['EEXIST', 'EISDIR', 'EROFS'];

/** `false` when the folder already exists. */
async function createFolder(folder: string): Promise<boolean> {
  try {
    await mkdir(folder);
    return true;
  } catch (error) {
    if (TAKEN.includes(codeOf(error)) && (await isFolder(folder))) return false;
    throw error;
  }
}

function createFolderNow(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    if (TAKEN.includes(codeOf(error)) && isFolderNow(folder)) return;
    throw error;
  }
}

/** `false` also when `stat` fails: the caller's `mkdir` error says more than the `stat` error. */
async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

function isFolderNow(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    // Same reason as in `isFolder`.
    return false;
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
