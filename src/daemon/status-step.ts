/**
 * Decides when to read a job's status document from a child again. Pure. Only one reading per job at a time. A reading
 * in progress may have begun before the change of interest, so a second request makes another one follow.
 */
import type { StatusDocument } from './documents.ts';
import type { NextState } from './next-state.ts';

/** Maximum age of a status that nobody views, and of one that someone does. */
export const STATUS_IDLE_MS = 900_000;
export const STATUS_SHOWN_MS = 60_000;

export function refreshStatus(turn: NextState, name: string): void {
  const job = turn.job(name);
  if (!job || job.status.reading === 'again') return;
  const isRead = job.status.reading === 'reading';
  turn.change(name, { status: { ...job.status, reading: isRead ? 'again' : 'reading' } });
  if (!isRead) turn.do({ kind: 'read-status', job: name });
}

/** Reads the oldest status that is older than this, unless a reading is in progress. */
export function refreshOldest(turn: NextState, olderThanMs: number): void {
  const jobs = [...turn.jobs];
  if (jobs.some(([, { status }]) => status.reading !== 'none')) return;
  // A time in the future means that the clock was set back.
  const ages = jobs.map(([name, { status }]) => ({ name, ageMs: Math.abs(turn.nowMs - status.triedAtMs) }));
  const oldest = ages.reduce<(typeof ages)[number] | undefined>((a, b) => (a && a.ageMs >= b.ageMs ? a : b), undefined);
  if (oldest && oldest.ageMs >= olderThanMs) refreshStatus(turn, oldest.name);
}

/** @returns whether the status is recent enough; if not, another reading has begun */
export function noteStatus(
  turn: NextState,
  name: string,
  found: StatusDocument | { readonly reason: string },
): boolean {
  const job = turn.job(name);
  if (!job) return true;
  const { shown, fault, reading } = job.status;
  const isFailed = 'reason' in found;
  // Logs once, not at every reading of an unavailable store.
  if (isFailed && fault === undefined) {
    turn.log.warn({ event: 'status-failed', job: name, reason: found.reason }, `${name}: ${found.reason}`);
  }
  turn.change(name, {
    status: {
      shown: isFailed ? shown : { document: found, readAtMs: turn.nowMs },
      fault: isFailed ? found.reason : undefined,
      triedAtMs: turn.nowMs,
      reading: 'none',
    },
  });
  if (reading !== 'again') return true;
  refreshStatus(turn, name);
  return false;
}
