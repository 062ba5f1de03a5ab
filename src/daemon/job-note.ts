/**
 * A fact about a job that must survive a restart of the daemon, as a small file beside the job's state. If the disk
 * cannot be written, only this memory is lost, never a run. An invalid file counts as absent.
 */
import { rm } from 'node:fs/promises';
import { basename } from 'node:path';
import type { z } from 'zod';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import { readJsonFile } from '../core/json-file.ts';
import type { Log } from '../core/log.ts';

export interface JobNote<T> {
  /** Never rejects. */
  note(job: string, fact: T): Promise<void>;
  /** Removes the fact. Never rejects; does nothing if there is no file. */
  forget(job: string): Promise<void>;
  /** `undefined` when the file is absent or invalid. */
  read(job: string): Promise<T | undefined>;
}

interface JobNoteOptions<T> {
  /** Path of the job's file. */
  readonly pathOf: (job: string) => string;
  readonly encode: (fact: T) => Readonly<Record<string, string>>;
  /** Converts the output of `encode` back to the fact. */
  readonly schema: z.ZodType<T>;
  readonly log: Log;
}

export function createJobNote<T>({ pathOf, encode, schema, log }: JobNoteOptions<T>): JobNote<T> {
  const warn = (job: string, error: unknown) => {
    const [reason, file] = [describeError(error), basename(pathOf(job))];
    log.warn(
      { event: 'note-unwritten', job, file, reason },
      `${job}: ${file} was not written, so a restart may not know about it: ${reason}`,
    );
  };
  return {
    async note(job, fact) {
      const text = `${JSON.stringify(encode(fact))}\n`;
      await writeFileAtomic(pathOf(job), text).catch((error: unknown) => warn(job, error));
    },
    async forget(job) {
      await rm(pathOf(job), { force: true }).catch((error: unknown) => warn(job, error));
    },
    async read(job) {
      // If the disk cannot be read, other sources decide.
      return await readJsonFile(pathOf(job), schema).catch(() => undefined);
    },
  };
}
