/** When a run of a job last went well: of those that have ended since the start, and of what the status tells. Pure. */
import type { JobView } from '../job-view.ts';
import { parseInstant } from './date-gap.ts';

/** End of the last run that was done, milliseconds since the epoch; `undefined` while none is known. */
export function findLastSuccess({ finished, status }: JobView): number | undefined {
  const doneMs = finished.find(({ outcome }) => outcome === 'done')?.finishedAtMs;
  // Of before the start, of a run by hand, or of another daemon with the same state folder.
  const toldMs = parseInstant(status?.document.last_success ?? null);
  if (doneMs === undefined || toldMs === undefined) return doneMs ?? toldMs;
  return Math.max(doneMs, toldMs);
}
