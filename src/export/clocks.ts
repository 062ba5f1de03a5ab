/** The three clocks of a run: the server's, this machine's, and the newest row seen in the source. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import type { Job } from '../job/job.ts';
import { compareWitnesses, explainContest, type Witnesses } from '../plan/witness.ts';
import type { SourceFacts } from '../run/open-source.ts';

/**
 * - `checked`: a date is exported only when all clocks agree that it is over and still complete
 * - `source`: the source's clock alone decides; for a rehearsal against a service whose clock was set (`serve --as-of`)
 */
export type ClockRule = 'checked' | 'source';

export interface ClockDeps {
  /** This machine's. */
  readonly clock: Clock;
  readonly source: Pick<SourceFacts, 'serverNow' | 'tellsTime' | 'stats'>;
  /** Default: `checked`. */
  readonly clockRule?: ClockRule | undefined;
}

/** @param rowMs when the newest row that was seen became visible at the earliest */
export function readWitnesses({ clock, source, clockRule }: ClockDeps, rowMs?: number): Witnesses {
  const ownMs = clock.now();
  // Before the first answer only an earlier run's clock is known; what is planned by it is checked again.
  const serverMs = source.tellsTime() || source.stats.requests === 0 ? source.serverNow() : undefined;
  if (clockRule === 'source') return { ownMs: serverMs ?? ownMs, serverMs, rowMs: undefined };
  return { ownMs, serverMs, rowMs };
}

/** The time used by this run: the server's, if its clock is known. */
export function believedNow({ clock, source, clockRule }: ClockDeps): number {
  return clockRule === 'source' ? source.serverNow() : clock.now();
}

/** How far the clocks are apart, in words; `undefined` while they agree. */
export function findConflict(deps: ClockDeps, rowMs?: number): string | undefined {
  return compareWitnesses(readWitnesses(deps, rowMs)).conflict;
}

/** Whether the server's clock is known and this machine's agrees with it. */
export function doClocksAgree(deps: ClockDeps): boolean {
  return readWitnesses(deps).serverMs !== undefined && findConflict(deps) === undefined;
}

/** Why a date must wait, in words; `undefined` when all clocks agree that it is over and still complete. */
export function explainHold(
  deps: ClockDeps & { readonly calendar?: CalendarOverride | undefined },
  { settleSeconds }: Pick<Job, 'settleSeconds'>,
  date: string,
  { rowMs, isForgetting }: { readonly rowMs?: number | undefined; readonly isForgetting: boolean },
): string | undefined {
  const witnesses = readWitnesses(deps, rowMs);
  const contest = explainContest(date, witnesses, { settleSeconds, calendar: deps.calendar }, isForgetting);
  if (contest === undefined) return undefined;
  const { conflict } = compareWitnesses(witnesses);
  return conflict === undefined ? contest : `${contest}: ${conflict}`;
}

/** The slowest clock: it decides whether a session is over. */
export function earliestNow(deps: ClockDeps, rowMs?: number): number {
  return compareWitnesses(readWitnesses(deps, rowMs)).earliestMs;
}

/** The fastest clock: it decides whether a date has left the lookback. */
export function latestNow(deps: ClockDeps, rowMs?: number): number {
  return compareWitnesses(readWitnesses(deps, rowMs)).latestMs;
}

/** What the two clocks show, for the record of a run. */
export interface ClockReading {
  /** The server's; null when it sends no `Date`. */
  readonly server: string | null;
  readonly own: string;
  /** How far the clocks are apart, in words; null while they agree. */
  readonly conflict: string | null;
}

export function readClocks(deps: ClockDeps, rowMs: number | undefined): ClockReading {
  const { serverMs, ownMs } = readWitnesses(deps, rowMs);
  return {
    server: serverMs === undefined ? null : new Date(serverMs).toISOString(),
    own: new Date(ownMs).toISOString(),
    conflict: findConflict(deps, rowMs) ?? null,
  };
}
