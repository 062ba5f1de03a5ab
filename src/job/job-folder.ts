/** Job files on disk: which there are, and reading them. A job is asked for by its name or by the path of its file. */
import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { hasErrorCode } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import { findNearest } from '../core/nearest.ts';
import type { Job } from './job.ts';

const EXTENSIONS = ['.yaml', '.yml'];

/** Paths of all job files of a folder, in name order. @throws Fault `JOBS_MISSING` when there is no such folder */
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

/** How a job file is asked for when it lies in the jobs folder. */
export function formatJobReference(file: string): string {
  return basename(file).replace(/\.ya?ml$/, '');
}

/** Two jobs that write one dataset, or have one name, would take each other's dates and state for their own. @throws Fault `JOB_INVALID` */
export function assertDistinct(jobs: readonly Job[]): void {
  for (const [index, job] of jobs.entries()) {
    for (const other of jobs.slice(0, index)) {
      const sameDataset = other.drop.to === job.drop.to && other.drop.dataset === job.drop.dataset;
      if (other.name !== job.name && !sameDataset) continue;
      const what =
        other.name === job.name ? `are both named "${job.name}"` : `both write ${job.drop.to}/${job.drop.dataset}`;
      throw new Fault('JOB_INVALID', `${other.file} and ${job.file} ${what}`, {
        kind: 'usage',
        hint: 'Give each job a name and a dataset of its own.',
      });
    }
  }
}

/** @param reference path of a job file, or the name of one in `folder` @throws Fault `JOB_UNKNOWN`, `JOB_INVALID` */
export async function readJob(reference: string, folder: string): Promise<Job> {
  const { file, text } = await readJobText(reference, folder);
  // Loaded here, so that a list of the files, as for completion, is to be had at once.
  return (await import('./parse.ts')).parseJob(file, text);
}

/**
 * Whom to alert about an invalid job file, as `parseAddressee` reads it.
 * @throws Fault `JOB_UNKNOWN`
 */
export async function readJobAddressee(reference: string, folder: string): Promise<Job | undefined> {
  const { file, text } = await readJobText(reference, folder);
  return (await import('./parse.ts')).parseAddressee(file, text);
}

async function readJobText(
  reference: string,
  folder: string,
): Promise<{ readonly file: string; readonly text: string }> {
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
        : `${known ? `There are no job files in ${folder}` : `There is no folder ${folder} here`}: run flowdrop where the jobs are, give the path of a job file, or --jobs DIR; \`flowdrop init\` writes a first one.`,
  });
}
