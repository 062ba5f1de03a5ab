/**
 * The job files that the daemon goes by. Invariant: a job whose file was good once goes on as it was when the file is
 * broken, also over a restart: the last good text is kept beside the state, and runs use that copy meanwhile. A file that
 * never was good is told and left out.
 */
import { readdir, readFile, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { assertDistinct, listJobFiles } from '../job/job-folder.ts';
import { parseJob } from '../job/parse.ts';

export interface FiledJob {
  readonly job: Job;
  /** What a child is given: the file, or while that is broken, the copy. */
  readonly path: string;
  /** Why the file as it is now is not used. */
  readonly fault: string | undefined;
}

export interface JobFilesReading {
  /** In the order of their files' names. */
  readonly jobs: readonly FiledJob[];
  /** Files of which no good text is known. */
  readonly unusable: readonly { readonly file: string; readonly fault: Fault }[];
}

interface JobFilesOptions {
  readonly folder: string;
  /** Where good texts are kept. */
  readonly keptDir: string;
  /** @throws Fault when the job cannot be run by a daemon as it is set */
  readonly assertUsable: (job: Job) => void;
  /** Asked of a new text only: it may take a second. @throws Fault `JOB_INVALID` when the job's own SQL is refused */
  readonly checkSql: (job: Job, path: string) => Promise<void>;
  readonly log: Log;
}

export interface JobFiles {
  /** @throws Fault `JOBS_MISSING` when there is no such folder */
  read(): Promise<JobFilesReading>;
}

export function createJobFiles({ folder, keptDir, assertUsable, checkSql, log }: JobFilesOptions): JobFiles {
  /** Last good text of each file, and the job that it is. */
  const good = new Map<string, { readonly text: string; readonly job: Job }>();
  const keptOf = (file: string) => join(keptDir, basename(file));

  const readOne = async (file: string, taken: readonly FiledJob[]): Promise<FiledJob | Fault> => {
    const accept = (text: string): Job => {
      const job = parseJob(file, text);
      assertUsable(job);
      assertDistinct([...taken.map((other) => other.job), job]);
      return job;
    };
    let fault: Fault;
    try {
      const text = await readFile(file, 'utf8');
      const known = good.get(file);
      const job = accept(text);
      if (known?.text === text) return { job, path: file, fault: undefined };
      await checkSql(job, file);
      good.set(file, { text, job });
      await keep(file, text);
      return { job, path: file, fault: undefined };
    } catch (error) {
      fault = asFault(file, error);
    }
    // What is missing there is a setting of this daemon: at its start no older file may hide that.
    if (fault.code === 'SETTING_MISSING' && !good.has(file)) return fault;
    try {
      const known = good.get(file)?.text;
      const text = known ?? (await readFileIfExists(keptOf(file)));
      if (text === undefined) return fault;
      const job = accept(text);
      if (known === undefined) await checkSql(job, keptOf(file));
      // A disk that was full when the copy was to be written may have room by now.
      if (good.get(file)) await keep(file, text);
      good.set(file, { text, job });
      return { job, path: keptOf(file), fault: fault.message };
    } catch {
      // The copy is of an older version, or clashes with another file: then the file's own fault is what counts.
      return fault;
    }
  };
  const keep = async (file: string, text: string): Promise<void> => {
    try {
      if ((await readFileIfExists(keptOf(file))) !== text) await writeFileAtomic(keptOf(file), text);
    } catch (error) {
      log.error({ event: 'keep-failed', file, reason: describeError(error) }, `${file} could not be kept`);
    }
  };
  return {
    async read() {
      const files = await listJobFiles(folder);
      // Of two files that clash, the one that was there before stays.
      const order = [...files].sort((a, b) => Number(good.has(b)) - Number(good.has(a)));
      const jobs: FiledJob[] = [];
      const unusable: { readonly file: string; readonly fault: Fault }[] = [];
      for (const file of order) {
        const found = await readOne(file, jobs);
        if (found instanceof Fault) unusable.push({ file, fault: found });
        else jobs.push(found);
      }
      await forgetRemoved(files);
      return { jobs: jobs.sort((a, b) => (a.job.file < b.job.file ? -1 : 1)), unusable };
    },
  };

  async function forgetRemoved(files: readonly string[]): Promise<void> {
    for (const file of [...good.keys()]) if (!files.includes(file)) good.delete(file);
    const names = files.map((file) => basename(file));
    await makeFolder(keptDir).catch(() => undefined); // A disk that is full is told where it is written.
    const kept = await readdir(keptDir).catch(() => []);
    for (const name of kept) if (!names.includes(name)) await rm(join(keptDir, name), { force: true });
  }
}

function asFault(file: string, error: unknown): Fault {
  if (error instanceof Fault) return error;
  return new Fault('JOB_INVALID', `${file} cannot be read: ${describeError(error)}`, { kind: 'usage', cause: error });
}
