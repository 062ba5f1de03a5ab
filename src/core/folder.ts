/**
 * Folders that are made with those above them. Not by `mkdir({ recursive: true })`: where the system answers ENOENT for a
 * parent that exists (/proc, some network mounts), Node goes up and down for ever, on a thread that nothing can stop.
 * Invariant: each folder of the path is tried twice at most. It makes nothing durable: `store/whole-file.ts` does.
 */
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Makes `folder` and what is missing above it. Idempotent.
 * @returns the outermost folder that was made; `undefined` when all were there
 * @throws what the system says, also where a file or a link that leads nowhere has the name
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

/** `makeFolder` where nothing may come in between. */
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

/** What says that a name is taken, or that nothing may be made where a folder may be all the same. */
const TAKEN: readonly string[] = ['EEXIST', 'EISDIR', 'EROFS'];

/** `false` when there is such a folder already. */
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

/** What cannot be looked at is none: the failure to make it says more than the failure to look. */
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
    // As of `isFolder`.
    return false;
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
