/**
 * The tick of a job whose run has begun and of which something may still come: kept beside the state while the run goes on
 * and while another try is planned. Invariant: a daemon that is ended in between, in whatever way, finds at its next start
 * that the tick is still owed; that the export wrote its record does not mean that the reports were mailed. A disk that
 * cannot be written costs this memory, never a run.
 */
import { rm } from 'node:fs/promises';
import { z } from 'zod';
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';

export interface Unfinished {
  /** Never rejects. */
  note(job: string, tickMs: number): Promise<void>;
  /** Nothing more comes of it. Never rejects; without effect where nothing was noted. */
  forget(job: string): Promise<void>;
  /** When it was due, milliseconds since the epoch; `undefined` when nothing is owed, or the file is not in shape. */
  read(job: string): Promise<number | undefined>;
}

const schema = z.object({ due_at: z.iso.datetime() });

/** @param pathOf file of a job */
export function createUnfinished(pathOf: (job: string) => string, log: Log): Unfinished {
  const warn = (job: string, error: unknown) => {
    const reason = describeError(error);
    log.warn({ event: 'unfinished-unwritten', job, reason }, `${job}: a restart may not know its run: ${reason}`);
  };
  return {
    async note(job, tickMs) {
      const text = `${JSON.stringify({ due_at: new Date(tickMs).toISOString() })}\n`;
      await writeFileAtomic(pathOf(job), text).catch((error: unknown) => warn(job, error));
    },
    async forget(job) {
      await rm(pathOf(job), { force: true }).catch((error: unknown) => warn(job, error));
    },
    async read(job) {
      try {
        const text = await readFileIfExists(pathOf(job));
        return text === undefined ? undefined : Date.parse(schema.parse(JSON.parse(text)).due_at);
      } catch {
        // Not ours, or damaged: then the record of the last run decides.
        return undefined;
      }
    },
  };
}
