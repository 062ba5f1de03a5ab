/**
 * Facts that survive a restart of the daemon. First, a job's unfinished tick: kept during its run and while a retry is
 * planned. However the daemon ends in between, its next start finds that the tick is still owed; a record of the export
 * does not prove that the reports were mailed. Second, the end of a run that no alert has reported yet.
 */
import { z } from 'zod';
import type { Log } from '../core/log.ts';
import { createJobNote, type JobNote } from './job-note.ts';

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
