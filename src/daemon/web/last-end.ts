/** How the last run of a job ended: from the runs of this daemon, those that are remembered, and the status. Pure. */
import type { JobView, RunRecord } from '../job-view.ts';
import { isRun } from './date-gap.ts';

export interface LastEnd extends Pick<RunRecord, 'startedAtMs' | 'finishedAtMs' | 'outcome' | 'error'> {
  /** Of its page; `undefined` if it is not remembered. */
  readonly id: string | undefined;
}

/** The newest; `undefined` if none is known. A run that found another one active is none. */
export function findLastEnd({ finished, runs, status }: JobView): LastEnd | undefined {
  const own = finished.find(isRun);
  const remembered = runs.find(({ command, outcome }) => command === 'run' && outcome !== null && outcome !== 'active');
  const recorded = status?.document.last_end ?? undefined;
  const ends: readonly (LastEnd | undefined)[] = [
    remembered && {
      id: remembered.id,
      startedAtMs: Date.parse(remembered.started_at),
      // A killed run has no end of its own.
      finishedAtMs: Date.parse(remembered.finished_at ?? remembered.started_at),
      outcome: remembered.outcome ?? 'died',
      error: remembered.error ?? undefined,
    },
    own && { ...own, id: undefined },
    recorded && {
      id: undefined,
      startedAtMs: Date.parse(recorded.started_at),
      finishedAtMs: Date.parse(recorded.finished_at),
      outcome: recorded.outcome,
      error: recorded.error ?? undefined,
    },
  ];
  // Of two records of one run the first one counts: it has a page.
  return ends.reduce((newest, end) => (end && isLater(end, newest) ? end : newest), undefined);
}

/** A run writes its end, and its process ends, within seconds. */
const SAME_RUN_MS = 5_000;

function isLater(end: LastEnd, newest: LastEnd | undefined): boolean {
  return newest === undefined || end.finishedAtMs - newest.finishedAtMs > SAME_RUN_MS;
}
