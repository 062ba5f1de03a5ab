/** Writes files that do not exist yet: all of them or, if one exists at the start, none. No file is lost. */
import { appendFile, open, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasErrorCode, readFileIfExists, syncFolder } from '../../core/atomic-file.ts';
import { Fault } from '../../core/errors.ts';
import { makeFolder } from '../../core/folder.ts';

interface NewFile {
  readonly path: string;
  readonly text: string;
  /** Default: the system's. */
  readonly mode?: number;
}

/** @returns where the replaced files are kept @throws Fault `FILE_EXISTS` (usage), which names the existing files */
export async function writeNew(files: readonly NewFile[], replace: boolean): Promise<readonly string[]> {
  const present = await listPresent(files.map(({ path }) => path));
  if (present.length > 0 && !replace) throw existing(present);
  const kept: string[] = [];
  for (const { path, text, mode } of files) {
    await makeFolder(dirname(path));
    if (present.includes(path)) {
      await rename(path, `${path}.old`);
      kept.push(`${path}.old`);
    }
    // Exclusive, in case another process just created it; the mode is set before the first byte.
    const file = await open(path, 'wx', mode).catch((error: unknown) => {
      throw hasErrorCode(error, 'EEXIST') ? existing([path]) : error;
    });
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await syncFolder(dirname(path));
  }
  return kept;
}

/** Adds the file to the folder's `.gitignore`, once: it holds secrets. Nothing else of that file is changed. */
export async function hideFromGit(folder: string, name: string): Promise<void> {
  const path = join(folder, '.gitignore');
  const text = (await readFileIfExists(path)) ?? '';
  if (text.split(/\r?\n/).some((line) => line.trim() === name)) return;
  await appendFile(path, `${text === '' || text.endsWith('\n') ? '' : '\n'}${name}\n`);
}

/**
 * Call it before asking questions whose answers would be lost. @throws Fault `FILE_EXISTS` (usage), which names the
 * files
 */
export async function assertAbsent(paths: readonly string[]): Promise<void> {
  const present = await listPresent(paths);
  if (present.length > 0) throw existing(present);
}

async function listPresent(paths: readonly string[]): Promise<readonly string[]> {
  const present: string[] = [];
  for (const path of paths) if (await stat(path).catch(() => undefined)) present.push(path);
  return present;
}

function existing(paths: readonly string[]): Fault {
  return new Fault('FILE_EXISTS', `${paths.join(' and ')} already ${paths.length > 1 ? 'exist' : 'exists'}`, {
    kind: 'usage',
    hint: 'Choose another directory (`flowdrop init DIR`), or replace with --force: existing files are kept as FILE.old.',
  });
}
