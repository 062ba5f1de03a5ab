/**
 * A fact that the daemon must know of a job after a restart, as a small file beside the job's state. A disk that cannot be
 * written costs this memory, never a run; what is not in shape was never said.
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
  /** It holds no more. Never rejects; without effect where nothing was noted. */
  forget(job: string): Promise<void>;
  /** `undefined` when nothing is noted, or the file is not in shape. */
  read(job: string): Promise<T | undefined>;
}

interface JobNoteOptions<T> {
  /** File of a job. */
  readonly pathOf: (job: string) => string;
  readonly encode: (fact: T) => Readonly<Record<string, string>>;
  /** Of what `encode` makes, back to the fact. */
  readonly schema: z.ZodType<T>;
  readonly log: Log;
}

export function createJobNote<T>({ pathOf, encode, schema, log }: JobNoteOptions<T>): JobNote<T> {
  const warn = (job: string, error: unknown) => {
    const [reason, file] = [describeError(error), basename(pathOf(job))];
    log.warn({ event: 'note-unwritten', job, file, reason }, `${job}: a restart may not know ${file}: ${reason}`);
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
      // A disk that cannot be read: then whatever else is known decides.
      return await readJsonFile(pathOf(job), schema).catch(() => undefined);
    },
  };
}
