/**
 * What outlives the daemon. Of a job whose run has begun and of which something may still come, the tick: kept while the
 * run goes on and while another try is planned, so that a daemon that is ended in between, in whatever way, finds at its
 * next start that the tick is still owed; that the export wrote its record does not mean that the reports were mailed. And
 * how a run ended that nobody has been told of yet.
 */
import { z } from 'zod';
import type { Log } from '../core/log.ts';
import { createJobNote, type JobNote } from './job-note.ts';

/** When the tick was due, milliseconds since the epoch. */
export type Unfinished = JobNote<number>;

/** How a run ended that could not tell it itself, in words for operators. */
export type Untold = JobNote<string>;

/** @param pathOf file of a job */
export function createUnfinished(pathOf: (job: string) => string, log: Log): Unfinished {
  return createJobNote({
    ...{ pathOf, log },
    encode: (tickMs) => ({ due_at: new Date(tickMs).toISOString() }),
    schema: z.object({ due_at: z.iso.datetime() }).transform(({ due_at }) => Date.parse(due_at)),
  });
}

/** @param pathOf file of a job */
export function createUntold(pathOf: (job: string) => string, log: Log): Untold {
  return createJobNote({
    ...{ pathOf, log },
    encode: (died) => ({ died }),
    schema: z.object({ died: z.string() }).transform(({ died }) => died),
  });
}
