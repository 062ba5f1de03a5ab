/** How the last run of a job ended: of those that this daemon saw end, and of what the status tells of others. Pure. */
import type { JobView, RunRecord } from '../job-view.ts';
import { isRun } from './date-gap.ts';

type LastEnd = Pick<RunRecord, 'startedAtMs' | 'finishedAtMs' | 'outcome' | 'error'>;

/** The newer of both; `undefined` while none is known. */
export function findLastEnd(job: JobView): LastEnd | undefined {
  return findOtherEnd(job) ?? job.finished.find(isRun);
}

/** Of before the start, of a run by hand, or of another daemon with the same state folder; only where it is the last. */
export function findOtherEnd({ finished, status }: JobView): LastEnd | undefined {
  const told = status?.document.last_end ?? undefined;
  if (!told) return undefined;
  const [startedAtMs, finishedAtMs] = [Date.parse(told.started_at), Date.parse(told.finished_at)];
  const own = finished.find(isRun);
  // A run keeps its end before its process ends, so its own is never newer than what the daemon saw of it.
  if (own && own.finishedAtMs >= finishedAtMs) return undefined;
  return { startedAtMs, finishedAtMs, outcome: told.outcome, error: told.error ?? undefined };
}
