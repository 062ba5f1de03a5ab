/**
 * What children say of the datasets: when their status documents are read anew. Pure. One of a job is read at a time; a
 * reading that goes on may have begun before what the next is to tell, so another follows it.
 */
import type { StatusDocument } from './documents.ts';
import type { NextState } from './next-state.ts';

/** A status that nobody looks at, and one that somebody does, are read anew after this long. */
export const STATUS_IDLE_MS = 900_000;
export const STATUS_SHOWN_MS = 60_000;

export function refreshStatus(turn: NextState, name: string): void {
  const job = turn.job(name);
  if (!job || job.status.reading === 'again') return;
  const isRead = job.status.reading === 'reading';
  turn.change(name, { status: { ...job.status, reading: isRead ? 'again' : 'reading' } });
  if (!isRead) turn.do({ kind: 'read-status', job: name });
}

/** Begins to read the oldest that is older than this, unless one is being read. */
export function refreshOldest(turn: NextState, olderThanMs: number): void {
  const jobs = [...turn.jobs];
  if (jobs.some(([, { status }]) => status.reading !== 'none')) return;
  // A time to come is one of a clock that was set back since.
  const ages = jobs.map(([name, { status }]) => ({ name, ageMs: Math.abs(turn.nowMs - status.triedAtMs) }));
  const oldest = ages.reduce<(typeof ages)[number] | undefined>((a, b) => (a && a.ageMs >= b.ageMs ? a : b), undefined);
  if (oldest && oldest.ageMs >= olderThanMs) refreshStatus(turn, oldest.name);
}

/** @returns whether the status is as new as was asked for; else another reading has begun */
export function noteStatus(
  turn: NextState,
  name: string,
  found: StatusDocument | { readonly reason: string },
): boolean {
  const job = turn.job(name);
  if (!job) return true;
  const { shown, fault, reading } = job.status;
  const isFailed = 'reason' in found;
  // Once, not at every reading of a store that is away.
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
