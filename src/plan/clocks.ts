/**
 * The current time, according to witnesses that may be wrong: the server's clock, this machine's clock, and the newest
 * row that the source has returned. Invariant: a date is agreed on only if every witness says that it is over and still
 * whole. If only some say so, the date is contested and reported: it is held back, not skipped.
 */

import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatWallClock } from '../calendar/wall-clock.ts';
import type { Clock } from '../core/clock.ts';
import { formatInstant } from '../core/date-text.ts';
import { computeLookback, expiresAt, type LookbackRange, listSettled, type SettleRule, settledAt } from './dates.ts';

/**
 * Two clocks synchronised by NTP differ by less than a second; a clock without NTP drifts by a few seconds a day. A
 * skew below two minutes cannot cause an early seal: the slower clock decides, and the source must show the session's end.
 */
export const MAX_CLOCK_SKEW_MS = 2 * 60_000;

/**
 * - `checked`: a date is exported only when all clocks agree that it is over and still complete
 * - `source`: the source's clock alone decides; for a rehearsal against a service whose clock was set (`serve --as-of`)
 */
export type ClockRule = 'checked' | 'source';

/** What a source tells of the time. */
interface ServerTime {
  serverNow(): number;
  tellsTime(): boolean;
  readonly stats: { readonly requests: number };
}

/** What the witnesses say at one moment. */
interface Witnesses {
  readonly ownMs: number;
  /** `undefined` if no answer has contained the server's time. */
  readonly serverMs: number | undefined;
  /** Earliest instant at which the newest returned row was visible: the real time cannot be earlier. */
  readonly rowMs: number | undefined;
  readonly earliestMs: number;
  readonly latestMs: number;
  /** How far they are apart, in words; `undefined` while they agree. */
  readonly conflict: string | undefined;
}

/** A date that may be due but is not exported now. */
export interface HeldDate {
  readonly date: string;
  readonly reason: string;
}

/** A clock that is off by more belongs to a simulation or a broken machine: the server is asked again. */
export const TRUSTED_OFFSET_MS = 5 * 60_000;

export class Clocks {
  readonly isChecked: boolean;
  readonly #own: Clock;
  readonly #server: ServerTime;
  readonly #rule: SettleRule;
  #rowMs: number | undefined;

  constructor(own: Clock, server: ServerTime, rule: SettleRule, clockRule: ClockRule = 'checked') {
    this.isChecked = clockRule === 'checked';
    this.#own = own;
    this.#server = server;
    this.#rule = rule;
  }

  /** A row was seen that became visible at this instant at the earliest. */
  see(rowMs: number): void {
    this.#rowMs = Math.max(this.#rowMs ?? rowMs, rowMs);
  }

  /** The time used by a run: the server's, if its clock alone decides. */
  now(): number {
    return this.isChecked ? this.#own.now() : this.#server.serverNow();
  }

  /** This machine's. */
  ownNow(): number {
    return this.#own.now();
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    await this.#own.sleep(ms, signal);
  }

  /** The slowest clock: it decides whether a session is over. */
  earliest(): number {
    return this.#ask().earliestMs;
  }

  /** The fastest clock: it decides whether a date has left the lookback. */
  latest(): number {
    return this.#ask().latestMs;
  }

  /** How far the clocks are apart, in words; `undefined` while they agree. */
  conflict(): string | undefined {
    return this.#ask().conflict;
  }

  /** Whether the server's clock is known and nothing contradicts it. */
  doAgree(): boolean {
    const { serverMs, conflict } = this.#ask();
    return serverMs !== undefined && conflict === undefined;
  }

  /** What the two clocks show, for the record of a run: the server's is null when it sends no `Date`. */
  read(): { readonly server: string | null; readonly own: string; readonly conflict: string | null } {
    const { serverMs, ownMs, conflict = null } = this.#ask();
    const server = serverMs === undefined ? null : new Date(serverMs).toISOString();
    return { server, own: new Date(ownMs).toISOString(), conflict };
  }

  /** When a session has settled. @param lastSecond of its last row, if there are rows after the close */
  settledAt(date: string, lastSecond?: number): number {
    return settledAt(date, this.#rule, lastSecond);
  }

  /**
   * Sessions that every witness calls over and whole, soonest expiry first; those that only some do; and the lookback for
   * conditions: no date expires in it while any witness still sees it whole.
   * @param isForgetting whether the source deletes old dates
   */
  agreeOnDates(isForgetting = true) {
    const witnesses = this.#ask();
    const { ownMs, serverMs = ownMs, earliestMs, latestMs, conflict } = witnesses;
    const earliest = this.#lookbackAt(earliestMs);
    const dates = listSettled(earliest).filter((date) => !this.#explainContest(date, witnesses, isForgetting));
    if (conflict === undefined) return { dates, contested: [], lookback: this.#lookbackAt(latestMs) };
    const listed = [ownMs, serverMs, latestMs].flatMap((nowMs) => listSettled(this.#lookbackAt(nowMs)));
    const contested = [...new Set(listed)].sort().flatMap((date) => {
      const reason = this.#explainContest(date, witnesses, isForgetting);
      return reason === undefined ? [] : [{ date, reason: `${reason}: ${conflict}` }];
    });
    return { dates, contested, lookback: earliest };
  }

  /** Why a date must wait, in words; `undefined` when all clocks agree that it is over and still complete. */
  explainHold(date: string, isForgetting: boolean): string | undefined {
    const witnesses = this.#ask();
    const contest = this.#explainContest(date, witnesses, isForgetting);
    if (contest === undefined || witnesses.conflict === undefined) return contest;
    return `${contest}: ${witnesses.conflict}`;
  }

  #ask(): Witnesses {
    const server = this.#server;
    // Before the first answer only an earlier run's clock is known; what is planned by it is checked again.
    const serverMs = server.tellsTime() || server.stats.requests === 0 ? server.serverNow() : undefined;
    const ownMs = this.isChecked ? this.#own.now() : (serverMs ?? this.#own.now());
    const rowMs = this.isChecked ? this.#rowMs : undefined;
    const earliestMs = Math.min(ownMs, serverMs ?? ownMs);
    const latestMs = Math.max(ownMs, serverMs ?? ownMs, rowMs ?? Number.NEGATIVE_INFINITY);
    const isApart = latestMs - earliestMs > MAX_CLOCK_SKEW_MS;
    const conflict = isApart ? describeConflict(ownMs, serverMs ?? ownMs, rowMs) : undefined;
    return { ownMs, serverMs, rowMs, earliestMs, latestMs, conflict };
  }

  #lookbackAt(nowMs: number): LookbackRange {
    return computeLookback(nowMs, this.#rule.calendar, this.#rule.settleSeconds);
  }

  /** Why one of the witnesses calls a date not over or not whole; `undefined` if none does. */
  #explainContest(date: string, witnesses: Witnesses, isForgetting: boolean): string | undefined {
    const { earliestMs, latestMs } = witnesses;
    if (earliestMs < this.settledAt(date)) {
      return `it is not over according to ${nameOf(earliestMs, witnesses)}, which shows ${formatWallClock(earliestMs)} (exchange time)`;
    }
    if (isForgetting && latestMs > expiresAt(date)) {
      return `it has begun to expire according to ${nameOf(latestMs, witnesses)}, which shows ${formatWallClock(latestMs)} (exchange time)`;
    }
    return undefined;
  }
}

function describeConflict(ownMs: number, serverMs: number, rowMs: number | undefined): string {
  const found: string[] = [];
  if (Math.abs(serverMs - ownMs) > MAX_CLOCK_SKEW_MS) {
    const apart = `${formatApart(serverMs - ownMs)} ${serverMs > ownMs ? 'ahead of' : 'behind'}`;
    found.push(
      `the source's clock is ${apart} this machine's (${formatInstant(serverMs, EXCHANGE_TIME_ZONE)}, here ${formatInstant(ownMs, EXCHANGE_TIME_ZONE)})`,
    );
  }
  if (rowMs !== undefined && rowMs - Math.min(ownMs, serverMs) > MAX_CLOCK_SKEW_MS) {
    const slow = [
      ...(rowMs - serverMs > MAX_CLOCK_SKEW_MS ? [`the source's clock by ${formatApart(rowMs - serverMs)}`] : []),
      ...(rowMs - ownMs > MAX_CLOCK_SKEW_MS ? [`this machine's by ${formatApart(rowMs - ownMs)}`] : []),
    ];
    found.push(
      `a row was seen that cannot be visible before ${formatInstant(rowMs, EXCHANGE_TIME_ZONE)}, so a clock is slow: ${slow.join(', ')}`,
    );
  }
  return found.join('; ');
}

/** `40 s`, `3 min 20 s`, `5 h 3 min`: two units are enough, and from ten minutes on the seconds are noise. */
export function formatApart(ms: number): string {
  const exact = Math.round(Math.abs(ms) / 1000);
  const seconds = exact < 600 ? exact : Math.round(exact / 60) * 60;
  const units = [
    ['d', Math.floor(seconds / 86_400)],
    ['h', Math.floor(seconds / 3600) % 24],
    ['min', Math.floor(seconds / 60) % 60],
    ['s', seconds % 60],
  ] as const;
  const first = units.findIndex(([, count]) => count > 0);
  const shown = units.slice(first, first + 2).filter(([, count]) => count > 0);
  return first < 0 ? '0 s' : shown.map(([unit, count]) => `${count} ${unit}`).join(' ');
}

function nameOf(ms: number, { ownMs, serverMs }: Witnesses): string {
  if (ms === serverMs) return "the source's clock";
  return ms === ownMs ? "this machine's clock" : 'the newest row';
}
