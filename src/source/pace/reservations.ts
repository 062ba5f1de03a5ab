/**
 * Decides who starts the next request of a shared budget, and when. Pure: the caller passes the time. A process reserves
 * a place in the line, sleeps until its time, checks again and starts. Invariant: starts are at least an interval
 * apart, except for a burst that the budget grants. An unused reservation costs the others one slot, because its time
 * passes. An impossible state (the clock was set, the file was edited) costs one interval.
 */
import { z } from 'zod';
import { REQUESTS_PER_SECOND } from '../../api-contract/published-limits.ts';
import { tryParseJson } from '../../core/atomic-file.ts';

interface Budget {
  /** Sustained request starts a second. */
  readonly requestsPerSecond: number;
  /** Starts that can accumulate while idle; 1 accumulates none. */
  readonly burst: number;
}

/**
 * Limits that the provider counts separately, from the section "Limits" of the API's specification:
 * - `historical`: "1 request per second", both entry points together; no burst is granted
 * - `chain`: "sustained traffic of 1 request per second per customer; short bursts of 10 requests or fewer"
 * - `market-structure`: "not shown", so no more than is granted elsewhere
 */
export const BUDGETS = {
  historical: { requestsPerSecond: REQUESTS_PER_SECOND, burst: 1 },
  chain: { requestsPerSecond: 1, burst: 10 },
  'market-structure': { requestsPerSecond: 1, burst: 1 },
} as const satisfies Record<string, Budget>;

export type BudgetName = keyof typeof BUDGETS;

/**
 * Intervals are longer than the budget requires, so that network jitter does not bring two requests too close. Where
 * this is not enough, the state below learns more.
 */
const JITTER_GUARD = 1.01;

export interface Pace {
  /** Between two starts, while no 429 has made it longer. */
  readonly intervalMs: number;
  readonly burst: number;
  /** Maximum time that a 429 holds back starts. */
  readonly longestPauseMs: number;
}

export function paceOf(budget: Budget, longestPauseMs: number): Pace {
  return { intervalMs: (1000 / budget.requestsPerSecond) * JITTER_GUARD, burst: budget.burst, longestPauseMs };
}

/**
 * A 429 that follows another within this many starts is congestion and lowers the rate. One alone is jitter: two
 * requests arrived closer together than they were sent.
 */
const STARTS_OF_CONGESTION = 10;
/** Congestion divides the rate by this; the recovery multiplies it by the same. */
const SLOWDOWN_STEP = 2;
/** 1/8 of the rate at the lowest: below that the provider is down rather than busy. */
const MAX_SLOWDOWN = 8;
/** A lowered rate recovers by a step after this many starts without a 429: from the lowest within ten. */
const STARTS_TO_RECOVER = 3;
/** What a single 429 adds to the spacing, as a share of the interval: more than the jitter of most networks. */
const SPACING_STEP = 0.02;
/** A network that needs more has a 429 now and then, which costs less than a still slower pace. */
const MAX_SPACING = 1.1;
/** After this many starts without a 429, about three nights, the spacing gives a step back: networks change. */
const STARTS_TO_NARROW = 2_000;
/** A reservation not used this long after its time is dropped: its process may be busy, stopped or dead. */
const LATE_MS = 100;
/** How often those behind a late reservation check again. */
const POLL_MS = 10;
/** Maximum length of the line: with a thousand processes the last one would wait for a quarter of an hour. */
const MAX_RESERVATIONS = 1_000;

const reservationSchema = z.object({
  /** The process that made it. */
  id: z.string(),
  /** When its owner checks again. */
  at: z.number(),
});

const stateSchema = z.object({
  version: z.literal(3),
  /** The time until which the starts so far have used up the budget. */
  paced_until: z.number(),
  /** No start before this time, because of a 429. */
  blocked_until: z.number(),
  /** Interval between starts when the last one was made. */
  interval_ms: z.number().nonnegative(),
  /** Factor by which the interval is longer because of jitter: learned, and kept across runs. */
  spacing: z.number().min(1).max(MAX_SPACING),
  /** Factor by which the interval is longer because of congestion. */
  slowdown: z.number().min(1).max(MAX_SLOWDOWN),
  starts_since_429: z.int().nonnegative(),
  /** Time of the last 429 that counted. */
  limited_at: z.number(),
  /** In the order of their starts. */
  reservations: z.array(reservationSchema).max(MAX_RESERVATIONS),
});

type Reservation = Readonly<z.infer<typeof reservationSchema>>;
export type PaceState = Readonly<Omit<z.infer<typeof stateSchema>, 'reservations'>> & {
  readonly reservations: readonly Reservation[];
};

/** The state of an unused budget. */
export const UNUSED: PaceState = {
  version: 3,
  paced_until: 0,
  blocked_until: 0,
  interval_ms: 0,
  spacing: 1,
  slowdown: 1,
  // The first 429 is a single one, however early it comes.
  starts_since_429: STARTS_OF_CONGESTION,
  limited_at: 0,
  reservations: [],
};

/**
 * Holds the state of a budget: one cell that all its users change, one after the other. Implementations: a folder for
 * the processes of one machine (`file-cell.ts`), Redis for several machines (`redis-cell.ts`).
 */
export interface PaceCell {
  /**
   * Replaces the state with that of the result of `change`; calls it again if another user was faster.
   * @param change its first argument is the state, `undefined` if it is unreadable; its second is the time in
   * milliseconds by the cell's clock, which all users share
   * @throws Fault if the state cannot be stored
   */
  update<Result>(
    change: (state: PaceState | undefined, nowMs: number) => { readonly state: PaceState; readonly result: Result },
  ): Promise<Result>;
  close(): Promise<void>;
}

/**
 * @returns `undefined` if the text is not a valid state: half-written by a power cut, lost by the server, from another
 * version, or edited
 */
export function parseState(text: string): PaceState | undefined {
  return stateSchema.safeParse(tryParseJson(text)).data;
}

/** Between two starts at present. */
export function intervalOf({ spacing, slowdown }: Pick<PaceState, 'spacing' | 'slowdown'>, pace: Pace): number {
  return pace.intervalMs * spacing * slowdown;
}

/**
 * Corrects a state that is impossible at this time.
 * @param found `undefined` if it is unreadable: then the next start is a whole interval away, and no burst is saved up
 */
export function settle(found: PaceState | undefined, pace: Pace, nowMs: number): PaceState {
  const state = found ?? UNUSED;
  // Another process may have a slower pace, but no single start costs more than the longest pause.
  const intervalMs = Math.max(intervalOf(state, pace), Math.min(state.interval_ms, pace.longestPauseMs));
  const isBlockTrue = state.blocked_until <= nowMs + pace.longestPauseMs;
  const furthest = Math.max(nowMs, isBlockTrue ? state.blocked_until : 0) + pace.burst * intervalMs + 1;
  const isTrue = found !== undefined && isBlockTrue && state.paced_until <= furthest;
  return {
    ...state,
    paced_until: isTrue ? state.paced_until : nowMs + intervalOf(state, pace) + savedMs(pace),
    blocked_until: isBlockTrue ? state.blocked_until : 0,
    limited_at: Math.min(state.limited_at, nowMs),
    // A process that is dropped by mistake, because the clock was set, reserves again at its next check.
    reservations: isTrue ? state.reservations : [],
  };
}

/**
 * Reserves the next start for `id`, or uses its reservation if its time has come.
 * @returns `waitMs` 0: the request starts now and is counted; otherwise the time until the next check
 */
export function reserve(
  state: PaceState,
  id: string,
  pace: Pace,
  nowMs: number,
): { readonly state: PaceState; readonly waitMs: number } {
  const inTime = dropLate(state.reservations, id, nowMs);
  const line = inTime.some((each) => each.id === id) ? inTime : [...inTime, { id, at: nowMs }];
  const place = line.findIndex((reservation) => reservation.id === id);
  const startMs = timeOfPlace(state, pace, nowMs, place);
  if (place === 0 && startMs <= nowMs) {
    return { state: spend({ ...state, reservations: line.slice(1) }, pace, nowMs), waitMs: 0 };
  }
  // Until a late reservation is dropped, those behind it check in short steps.
  const waitMs = Math.max(startMs - nowMs, place === 0 ? 0 : POLL_MS);
  const reservations = line.map((each) => (each.id === id ? { ...each, at: nowMs + waitMs } : each));
  return { state: { ...state, reservations }, waitMs };
}

/** Gives up the place in the line. */
export function cancel(state: PaceState, id: string): PaceState {
  return { ...state, reservations: state.reservations.filter((reservation) => reservation.id !== id) };
}

/**
 * After a 429: no start for the next `pauseMs`, and nothing saved up for a burst. A single one widens the spacing a
 * little, a repeated one lowers the rate.
 * @param startedAtMs start of the refused request. Several requests in flight that get the same 429 count once: only a
 * request that started after the last counted 429 counts. If unknown, it counts if there was a start since.
 */
export function slowDown(
  state: PaceState,
  pace: Pace,
  nowMs: number,
  pauseMs: number,
  startedAtMs: number | undefined,
): PaceState {
  const counts = startedAtMs === undefined ? state.starts_since_429 > 0 : startedAtMs > state.limited_at;
  const isCongestion = state.starts_since_429 < STARTS_OF_CONGESTION;
  const next = {
    spacing: counts && !isCongestion ? Math.min(MAX_SPACING, state.spacing + SPACING_STEP) : state.spacing,
    slowdown: counts && isCongestion ? Math.min(MAX_SLOWDOWN, state.slowdown * SLOWDOWN_STEP) : state.slowdown,
  };
  const blockedUntil = Math.max(state.blocked_until, nowMs + Math.min(pauseMs, pace.longestPauseMs));
  // A server may count refused requests, so the next one keeps its distance from this one too.
  const nextStartMs = Math.max(blockedUntil, nowMs + intervalOf(next, pace));
  return {
    ...state,
    ...next,
    blocked_until: blockedUntil,
    paced_until: Math.max(state.paced_until, nextStartMs + savedMs(pace)),
    limited_at: counts ? nowMs : state.limited_at,
    starts_since_429: 0,
  };
}

/** Drops overdue reservations at the head of the line, up to the first that is in time or belongs to `id`. */
function dropLate(line: readonly Reservation[], id: string, nowMs: number): readonly Reservation[] {
  const inTime = line.findIndex((reservation) => reservation.id === id || nowMs <= reservation.at + LATE_MS);
  return inTime === -1 ? [] : line.slice(inTime);
}

/** When the reservation at this place starts, if all before it start in time. */
function timeOfPlace(state: PaceState, pace: Pace, nowMs: number, place: number): number {
  let pacedUntil = state.paced_until;
  let startMs = 0;
  for (let ahead = 0; ahead <= place; ahead += 1) {
    startMs = Math.max(nowMs, state.blocked_until, pacedUntil - savedMs(pace));
    pacedUntil = Math.max(startMs, pacedUntil) + intervalOf(state, pace);
  }
  return startMs;
}

/** The state after a start. */
function spend(state: PaceState, pace: Pace, nowMs: number): PaceState {
  const intervalMs = intervalOf(state, pace);
  const starts = state.starts_since_429 + 1;
  const narrows = starts % STARTS_TO_NARROW === 0;
  const recovers = starts % STARTS_TO_RECOVER === 0;
  return {
    ...state,
    paced_until: Math.max(nowMs, state.paced_until) + intervalMs,
    interval_ms: intervalMs,
    spacing: narrows ? Math.max(1, state.spacing - SPACING_STEP) : state.spacing,
    slowdown: recovers ? Math.max(1, state.slowdown / SLOWDOWN_STEP) : state.slowdown,
    starts_since_429: starts,
  };
}

/** How far ahead of its pace a start may be. */
function savedMs(pace: Pace): number {
  return (pace.burst - 1) * pace.intervalMs;
}
