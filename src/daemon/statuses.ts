/**
 * What children said of the datasets: the last status document of each job, how old it is, and what follows from it. Two
 * are read at once at most, and one of a job.
 */
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { StatusDocument } from './documents.ts';
import type { JobView } from './view.ts';

export interface Statuses {
  of(job: string): { readonly status: JobView['status']; readonly fault: string | undefined };
  /** Reads it anew; never rejects. A reading that goes on may have begun before what it is to tell, so another follows it. */
  refresh(job: string): Promise<void>;
  /** Reads those anew, and waits so long for it. Never rejects. */
  refreshAll(jobs: readonly string[], patienceMs: number): Promise<void>;
  /** Begins to read the oldest that is older than this, unless one is being read. */
  refreshOldest(jobs: readonly string[], olderThanMs: number): void;
  /** When the first pending date begins to leave the lookback, milliseconds; infinite when none does. */
  expiryOf(job: string): number;
  /** Whether dates are pending; `undefined` when nothing is known. */
  hasPending(job: string): boolean | undefined;
  forget(job: string): void;
}

interface Reading {
  document: JobView['status'];
  fault: string | undefined;
  triedAtMs: number;
}

export function createStatuses(
  read: (job: string) => Promise<StatusDocument>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Statuses {
  const readings = new Map<string, Reading>();
  const inFlight = new Map<string, Promise<void>>();
  const queued = new Map<string, Promise<void>>();
  const readOne = async (job: string) => {
    const old = readings.get(job);
    try {
      const document = await read(job);
      const readAtMs = clock.now();
      readings.set(job, { document: { document, readAtMs }, fault: undefined, triedAtMs: readAtMs });
    } catch (error) {
      const fault = describeError(error);
      // Told once, not at every reading of a store that is away.
      if (old?.fault === undefined) log.warn({ event: 'status-failed', job, reason: fault }, `${job}: ${fault}`);
      readings.set(job, { document: old?.document, fault, triedAtMs: clock.now() });
    }
  };
  const refresh = (job: string): Promise<void> => {
    const goesOn = inFlight.get(job);
    if (goesOn) {
      const next = queued.get(job) ?? goesOn.then(() => refresh(job));
      queued.set(job, next);
      return next;
    }
    queued.delete(job);
    const reading = readOne(job).finally(() => inFlight.delete(job));
    inFlight.set(job, reading);
    return reading;
  };
  const pendingOf = (job: string) =>
    readings.get(job)?.document?.document.dates.filter(({ condition }) => condition === 'pending');
  return {
    of: (job) => ({ status: readings.get(job)?.document, fault: readings.get(job)?.fault }),
    refresh,
    async refreshAll(jobs, patienceMs) {
      const isRead = new AbortController();
      void Promise.all(jobs.map(refresh)).then(() => isRead.abort());
      await clock.sleep(patienceMs, isRead.signal).catch(() => undefined); // It is read.
    },
    refreshOldest(jobs, olderThanMs) {
      if (inFlight.size > 0) return;
      const nowMs = clock.now();
      // A time to come is one of a clock that was set back since.
      const ageOf = (job: string) => Math.abs(nowMs - (readings.get(job)?.triedAtMs ?? Number.NEGATIVE_INFINITY));
      const [oldest] = [...jobs].sort((a, b) => (ageOf(a) > ageOf(b) ? -1 : 1));
      if (oldest !== undefined && ageOf(oldest) >= olderThanMs) void refresh(oldest);
    },
    expiryOf(job) {
      const expiries = (pendingOf(job) ?? []).map(({ begins_to_expire: at }) =>
        at === null ? Number.NaN : Date.parse(at),
      );
      return Math.min(Number.POSITIVE_INFINITY, ...expiries.filter((ms) => !Number.isNaN(ms)));
    },
    hasPending(job) {
      const pending = pendingOf(job);
      return pending && pending.length > 0;
    },
    forget: (job) => void readings.delete(job),
  };
}
