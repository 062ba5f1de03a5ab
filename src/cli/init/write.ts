/**
 * Writes files that do not exist yet: all of them or, if one exists at the start, none. No file is lost. Before that, it
 * checks by the rules of job files that what is about to be written is a valid job.
 */
import { appendFile, open, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hasErrorCode, makeFolder, readFileIfExists, syncFolder } from '../../core/atomic-file.ts';
import { Fault, isFault } from '../../core/errors.ts';
import { assertDistinct, readValidJobs } from '../../job/job-folder.ts';
import { parseJob } from '../../job/parse.ts';
import { INIT_DEFAULTS } from './init-files.ts';
import { buildJobText, type JobChoice } from './job-kinds.ts';

export interface NewFile {
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

const EXAMPLE: JobChoice = {
  name: INIT_DEFAULTS.name,
  to: INIT_DEFAULTS.to,
  recipients: ['desk@example.com'],
  symbols: [],
};

/** The rules of a job file, before there is one: the fault names no file. @throws Fault `ANSWER_INVALID` (usage) */
export function assertAllowed(part: { readonly [K in keyof JobChoice]?: JobChoice[K] | undefined }): void {
  const given = Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined && value.length > 0));
  const choice = { ...EXAMPLE, ...given };
  try {
    const upper = choice.symbols.map((symbol) => symbol.toUpperCase());
    parseJob('', buildJobText({ ...choice, symbols: upper }));
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID') throw error;
    throw new Fault('ANSWER_INVALID', error.message.replace(/^:\d+: /gm, ''), { kind: 'usage' });
  }
}

/**
 * Checks, before anything is written, that the job is valid and does not clash with others. @throws Fault `JOB_INVALID`
 */
export async function assertUsable(path: string, text: string, jobsFolder: string): Promise<void> {
  const job = parseJob(path, text);
  const others = (await readValidJobs(jobsFolder).catch(() => [])).filter(({ file }) => file !== path);
  assertDistinct([...others, job]);
}
