/**
 * Facts that survive a restart of the daemon. First, a job's unfinished tick: kept during its run and while a retry is
 * planned. However the daemon ends in between, its next start finds that the tick is still owed; a record of the export
 * does not prove that the reports were mailed. Second, the end of a run that no alert has reported yet.
 */

import { rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { z } from 'zod';
import { writeWholeFile } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import { readJsonFile } from '../core/json-file.ts';
import type { Log } from '../core/log.ts';

/** Due time of the tick, in milliseconds since the epoch. */
export type Unfinished = JobNote<number>;

/** The end of a run that could not report it itself, in words for operators. */
export type Unsent = JobNote<string>;

/** @param pathOf path of a job's file */
export function createUnfinished(pathOf: (job: string) => string, log: Log): Unfinished {
  return createJobNote({
    ...{ pathOf, log },
    encode: (tickMs) => ({ due_at: new Date(tickMs).toISOString() }),
    schema: z.object({ due_at: z.iso.datetime() }).transform(({ due_at }) => Date.parse(due_at)),
  });
}

/** @param pathOf path of a job's file */
export function createUnsent(pathOf: (job: string) => string, log: Log): Unsent {
  return createJobNote({
    ...{ pathOf, log },
    encode: (died) => ({ died }),
    schema: z.object({ died: z.string() }).transform(({ died }) => died),
  });
}

interface JobNote<T> {
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

function createJobNote<T>({ pathOf, encode, schema, log }: JobNoteOptions<T>): JobNote<T> {
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
      await writeWholeFile(pathOf(job), text).catch((error: unknown) => warn(job, error));
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
