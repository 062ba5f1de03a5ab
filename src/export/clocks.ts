/** The witnesses of the time that a run has: its source's clock, this machine's, and the newest row that was seen. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import { compareWitnesses, explainContest, type Witnesses } from '../plan/witness.ts';
import type { SourceFacts } from './job-source.ts';

/**
 * - `checked`: a date is exported only when all witnesses call it over and whole
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
  // Before the first answer an earlier run's word is the best there is; what is planned by it is judged again.
  const serverMs = source.tellsTime() || source.stats.requests === 0 ? source.serverNow() : undefined;
  if (clockRule === 'source') return { ownMs: serverMs ?? ownMs, serverMs, rowMs: undefined };
  return { ownMs, serverMs, rowMs };
}

/** The time that a run goes by: that of the clock that decides, where one does. */
export function believedNow({ clock, source, clockRule }: ClockDeps): number {
  return clockRule === 'source' ? source.serverNow() : clock.now();
}

/** In words, how far the witnesses are apart; `undefined` while they agree. */
export function findConflict(deps: ClockDeps, rowMs?: number): string | undefined {
  return compareWitnesses(readWitnesses(deps, rowMs)).conflict;
}

/** Whether the server's clock is known and this machine's agrees with it. */
export function doClocksAgree(deps: ClockDeps): boolean {
  return readWitnesses(deps).serverMs !== undefined && findConflict(deps) === undefined;
}

/** Why a date must be held back now, in words; `undefined` when every witness calls it over and whole. */
export function explainHold(
  deps: ClockDeps & { readonly calendar?: CalendarOverride | undefined },
  date: string,
  { rowMs, isForgetting }: { readonly rowMs?: number | undefined; readonly isForgetting: boolean },
): string | undefined {
  const witnesses = readWitnesses(deps, rowMs);
  const contest = explainContest(date, witnesses, deps.calendar, isForgetting);
  if (contest === undefined) return undefined;
  const { conflict } = compareWitnesses(witnesses);
  return conflict === undefined ? contest : `${contest}: ${conflict}`;
}

/** By this a session is over: the clock that is behind. */
export function earliestNow(deps: ClockDeps, rowMs?: number): number {
  return compareWitnesses(readWitnesses(deps, rowMs)).earliestMs;
}

/** By this a date has left the lookback: the witness that is ahead. */
export function latestNow(deps: ClockDeps, rowMs?: number): number {
  return compareWitnesses(readWitnesses(deps, rowMs)).latestMs;
}

/** What the two clocks show, for the record of a run. */
export interface ClockReading {
  /** The server's; null when it tells no time. */
  readonly server: string | null;
  readonly own: string;
  /** In words, how far the witnesses are apart; null while they agree. */
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
