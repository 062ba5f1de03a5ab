/**
 * The job files that the daemon uses. Invariant: if a file that was once valid becomes broken, its job continues
 * unchanged, also after a restart: the last valid text is kept beside the state, and runs use that copy meanwhile. A
 * file that was never valid is reported and skipped.
 */
import { readdir, readFile, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { makeFolder, readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import { describeError, Fault, isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import { assertDistinct, listJobFiles, ORIGIN_FILE } from '../job/job-folder.ts';
import { parseJob } from '../job/parse.ts';

export interface FiledJob {
  readonly job: Job;
  /** Path for child processes: the file, or the copy while the file is broken. */
  readonly path: string;
  /** Why the current file is not used. */
  readonly fault: string | undefined;
}

export interface JobFilesReading {
  /** Sorted by file name. */
  readonly jobs: readonly FiledJob[];
  /** Files without a known valid text. */
  readonly unusable: readonly { readonly file: string; readonly fault: Fault }[];
}

interface JobFilesOptions {
  readonly folder: string;
  /** Folder of the last valid texts. */
  readonly keptDir: string;
  /** @throws Fault when a daemon cannot run the job with its settings */
  readonly assertUsable: (job: Job) => void;
  /** Called once for a text, because it may take a second. @throws Fault when its SQL is rejected */
  readonly checkSql: (job: Job, path: string) => Promise<void>;
  readonly log: Log;
}

/** @returns reads the folder; it throws Fault `JOBS_MISSING` when there is none */
export function createFilesReader({ folder, keptDir, assertUsable, checkSql, log }: JobFilesOptions) {
  /** Last valid text of each file, and what it says. */
  const good = new Map<string, { readonly text: string; readonly job: Job }>();
  /** Last text of each path whose SQL was rejected, and why. */
  const refused = new Map<string, { readonly text: string; readonly fault: Fault }>();
  /** Files whose copy could not be written, which is logged once. */
  const unkept = new Set<string>();
  const keptOf = (file: string) => join(keptDir, basename(file));

  const readOne = async (file: string, taken: readonly FiledJob[]): Promise<FiledJob | Fault> => {
    const accept = async (text: string, path: string): Promise<Job> => {
      const known = good.get(file);
      const job = known?.text === text ? known.job : parseJob(file, text);
      assertUsable(job);
      assertDistinct([...taken.map((other) => other.job), job]);
      if (job !== known?.job) await check(job, path, text);
      good.set(file, { text, job });
      // Each time: the disk may have been full when the copy was first written, and have space by now.
      await keep(file, text);
      return job;
    };
    let fault: Fault;
    try {
      return { job: await accept(await readFile(file, 'utf8'), file), path: file, fault: undefined };
    } catch (error) {
      fault = asFault(file, error);
    }
    // The daemon itself lacks a setting: at its start, an older copy must not hide that.
    if (fault.code === 'SETTING_MISSING' && !good.has(file)) return fault;
    try {
      const text = good.get(file)?.text ?? (await readFileIfExists(keptOf(file)));
      if (text === undefined) return fault;
      return { job: await accept(text, keptOf(file)), path: keptOf(file), fault: fault.message };
    } catch {
      // The copy clashes with another file, so report the fault of the file itself.
      return fault;
    }
  };
  const check = async (job: Job, path: string, text: string): Promise<void> => {
    const known = refused.get(path);
    if (known?.text === text) throw known.fault;
    await checkSql(job, path).catch(async (error: unknown) => {
      // The check reads the file itself, which may have other text meanwhile.
      const isSame = (await readFileIfExists(path)) === text;
      if (isSame && isFault(error) && error.code === 'JOB_INVALID') refused.set(path, { text, fault: error });
      throw error;
    });
  };
  const keep = async (file: string, text: string): Promise<void> => {
    const origin = [join(keptDir, ORIGIN_FILE), resolve(folder)] as const;
    try {
      for (const [path, content] of [origin, [keptOf(file), text] as const]) {
        if ((await readFileIfExists(path)) !== content) await writeWholeFile(path, content);
      }
      unkept.delete(file);
    } catch (error) {
      const line = { event: 'keep-failed', file, reason: describeError(error) };
      if (!unkept.has(file)) log.error(line, `${file} could not be kept`);
      unkept.add(file);
    }
  };
  const forgetRemoved = async (files: readonly string[]): Promise<void> => {
    for (const file of good.keys()) if (!files.includes(file)) good.delete(file);
    const names = [ORIGIN_FILE, ...files.map((file) => basename(file))];
    await makeFolder(keptDir).catch(() => undefined); // A full disk is reported when the copy is written.
    const kept = await readdir(keptDir).catch(() => []);
    for (const name of kept) if (!names.includes(name)) await rm(join(keptDir, name), { force: true });
  };
  return async (): Promise<JobFilesReading> => {
    const files = await listJobFiles(folder);
    // If two files clash, the one known earlier wins.
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
  };
}

function asFault(file: string, error: unknown): Fault {
  if (error instanceof Fault) return error;
  return new Fault('JOB_INVALID', `${file} cannot be read: ${describeError(error)}`, { kind: 'usage', cause: error });
}
