/** When a run of a job last succeeded: from the runs since the start, and from the status. Pure. */
import type { JobView } from '../job-view.ts';
import { parseInstant } from './date-gap.ts';

/** End of the last `done` run, in milliseconds since the epoch; `undefined` if none is known. */
export function findLastSuccess({ finished, status }: JobView): number | undefined {
  const doneMs = finished.find(({ outcome }) => outcome === 'done')?.finishedAtMs;
  // May be from before this start, a manual run, or another daemon with the same state folder.
  const toldMs = parseInstant(status?.document.last_success ?? null);
  if (doneMs === undefined || toldMs === undefined) return doneMs ?? toldMs;
  return Math.max(doneMs, toldMs);
}
