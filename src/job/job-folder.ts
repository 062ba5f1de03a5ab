/** Lists and reads the job files on disk. A job is referenced by its file's name or path. */
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { hasErrorCode, readFileIfExists } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import { findNearest } from '../core/nearest.ts';
import type { Job } from './job.ts';

const EXTENSIONS = ['.yaml', '.yml'];

/** In a folder of copies of job files: names the folder that they are copies of, which their paths are relative to. */
export const ORIGIN_FILE = '.copied-from';

/** Paths of all job files in a folder, in name order. @throws Fault `JOBS_MISSING` if the folder does not exist */
export async function listJobFiles(folder: string): Promise<readonly string[]> {
  try {
    const names = await readdir(folder);
    return names
      .filter((name) => EXTENSIONS.some((extension) => name.endsWith(extension)))
      .sort()
      .map((name) => join(folder, name));
  } catch (error) {
    if (!hasErrorCode(error, 'ENOENT', 'ENOTDIR')) throw error;
    throw new Fault('JOBS_MISSING', `there is no folder ${folder}`, {
      kind: 'usage',
      hint: 'Run flowdrop where the jobs/ folder is, or give it with --jobs DIR.',
      cause: error,
    });
  }
}

/** The reference of a job file in the jobs folder: its file name without extension. */
export function formatJobReference(file: string): string {
  return basename(file).replace(/\.ya?ml$/, '');
}

/** Two jobs with the same dataset or name would mix up their dates and state. @throws Fault `JOB_INVALID` */
export function assertDistinct(jobs: readonly Job[]): void {
  for (const [index, job] of jobs.entries()) {
    for (const other of jobs.slice(0, index)) {
      const sameDataset = other.drop.to === job.drop.to && other.drop.dataset === job.drop.dataset;
      if (other.name !== job.name && !sameDataset) continue;
      const what =
        other.name === job.name ? `are both named "${job.name}"` : `both write ${job.drop.to}/${job.drop.dataset}`;
      throw new Fault('JOB_INVALID', `${other.file} and ${job.file} ${what}`, {
        kind: 'usage',
        hint: 'Give each job its own name and dataset.',
      });
    }
  }
}

/** @param reference path of a job file, or its name in `folder` @throws Fault `JOB_UNKNOWN`, `JOB_INVALID` */
export async function readJob(reference: string, folder: string): Promise<Job> {
  const { file, text } = await readJobText(reference, folder);
  // Imported lazily, so that listing the files, as for completion, is fast.
  const origin = await readFileIfExists(join(dirname(file), ORIGIN_FILE));
  return (await import('./parse.ts')).parseJob(file, text, origin);
}

/** The jobs of a folder, but for files that are invalid. @throws Fault `JOBS_MISSING` */
export async function readValidJobs(folder: string): Promise<readonly Job[]> {
  const files = await listJobFiles(folder);
  const jobs = await Promise.all(files.map(async (file) => await readJob(file, folder).catch(() => undefined)));
  return jobs.filter((job) => job !== undefined);
}

/**
 * Reads who gets the alert about an invalid job file; see `parseAddressee`.
 * @throws Fault `JOB_UNKNOWN`
 */
export async function readJobAddressee(reference: string, folder: string): Promise<Job | undefined> {
  const { file, text } = await readJobText(reference, folder);
  return (await import('./parse.ts')).parseAddressee(file, text);
}

async function readJobText(reference: string, folder: string) {
  const isPath = EXTENSIONS.some((extension) => reference.endsWith(extension));
  const candidates = isPath ? [reference] : EXTENSIONS.map((extension) => join(folder, reference + extension));
  for (const file of candidates) {
    const text = await readFile(file, 'utf8').catch((error: unknown) => {
      if (hasErrorCode(error, 'ENOENT', 'ENOTDIR', 'EISDIR')) return undefined;
      throw error;
    });
    if (text !== undefined) return { file, text };
  }
  const known = await listJobFiles(folder).catch(() => undefined);
  const names = (known ?? []).map(formatJobReference);
  const near = findNearest(isPath ? formatJobReference(reference) : reference, names);
  throw new Fault('JOB_UNKNOWN', `there is no job "${reference}" (looked for ${candidates.join(', ')})`, {
    kind: 'usage',
    hint:
      names.length > 0
        ? `${near ? `Did you mean "${near}"? ` : ''}Known jobs: ${names.join(', ')}.`
        : `${known ? `There are no job files in ${folder}` : `There is no folder ${folder} here`}: run flowdrop where the jobs are, give the path of a job file, or set --jobs DIR; \`flowdrop init\` writes a first job file.`,
  });
}
