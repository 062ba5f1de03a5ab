/** How the last run of a job ended: from the runs of this daemon, and from the status for others. Pure. */
import type { JobView, RunRecord } from '../job-view.ts';
import { isRun } from './date-gap.ts';

type LastEnd = Pick<RunRecord, 'startedAtMs' | 'finishedAtMs' | 'outcome' | 'error'>;

/** The newer of the two; `undefined` if none is known. */
export function findLastEnd(job: JobView): LastEnd | undefined {
  return findOtherEnd(job) ?? job.finished.find(isRun);
}

/**
 * End of a run from before this start, a manual run, or another daemon's run with the same state folder; only if it is
 * the last.
 */
export function findOtherEnd({ finished, status }: JobView): LastEnd | undefined {
  const told = status?.document.last_end ?? undefined;
  if (!told) return undefined;
  const [startedAtMs, finishedAtMs] = [Date.parse(told.started_at), Date.parse(told.finished_at)];
  const own = finished.find(isRun);
  // A run records its end before its process ends, so its own record is never newer than what the daemon saw.
  if (own && own.finishedAtMs >= finishedAtMs) return undefined;
  return { startedAtMs, finishedAtMs, outcome: told.outcome, error: told.error ?? undefined };
}
