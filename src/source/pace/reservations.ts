/**
 * Who starts the next request of a shared budget, and when. Pure: the time comes in. A queue reserves a place in the line,
 * sleeps until its time, looks again and starts. Invariant: starts are at least an interval apart, but for a burst that
 * the budget grants. A reservation that nobody uses costs the others one slot, because its time passes; a state that
 * cannot be true (the clock was set, the file was edited) costs one interval.
 */
import { z } from 'zod';
import type { Pace } from './budget.ts';

/** A 429 halves the rate, at most this many times over: below 1/8 the provider is down rather than busy. */
const MAX_SLOWDOWN = 8;
/** Every this many starts without a 429, a lowered rate doubles again, up to the allowed one. */
const STARTS_TO_RECOVER = 20;
/** Urgent requests go before the same other request this often: three starts in four are theirs while others wait. */
const MAX_OVERTAKEN = 3;
/** A reservation not used this long after its time is dropped: its process may be busy, stopped or dead. */
const LATE_MS = 100;
/** How often those behind a late reservation look again. */
const POLL_MS = 10;
/** Longest line that is kept: of a thousand queues the last would wait for a quarter of an hour. */
const MAX_RESERVATIONS = 1_000;

const reservationSchema = z.object({
  /** The queue that made it. */
  id: z.string(),
  urgent: z.boolean(),
  /** When its owner looks again. */
  at: z.number(),
  /** How many urgent requests have gone before it. */
  overtaken: z.int().nonnegative(),
});

const stateSchema = z.object({
  version: z.literal(2),
  /** The time up to which the starts so far have used the budget. */
  paced_until: z.number(),
  /** No start before this: a 429 asked for it. */
  blocked_until: z.number(),
  /** Between starts when the last one was made. */
  interval_ms: z.number().nonnegative(),
  /** How many times longer than allowed the interval is. */
  slowdown: z.number().min(1).max(MAX_SLOWDOWN),
  starts_since_429: z.int().nonnegative(),
  /** When the last 429 that counted came. */
  slowed_at: z.number(),
  /** In the order of their starts. */
  reservations: z.array(reservationSchema).max(MAX_RESERVATIONS),
});

type Reservation = Readonly<z.infer<typeof reservationSchema>>;
export type PaceState = Readonly<Omit<z.infer<typeof stateSchema>, 'reservations'>> & {
  readonly reservations: readonly Reservation[];
};

/** A budget that nobody has used yet. */
export const UNUSED: PaceState = {
  version: 2,
  paced_until: 0,
  blocked_until: 0,
  interval_ms: 0,
  slowdown: 1,
  starts_since_429: 0,
  slowed_at: 0,
  reservations: [],
};

/** @throws SyntaxError or ZodError when the text is no state */
export function parseState(text: string): PaceState {
  return stateSchema.parse(JSON.parse(text));
}

/**
 * The state as it can be true at this time.
 * @param found `undefined` when it cannot be read: then the next start is a whole interval away, and nothing is saved up
 */
export function settle(found: PaceState | undefined, pace: Pace, nowMs: number): PaceState {
  const state = found ?? UNUSED;
  // Another process may have a slower pace, but none is so slow that one start costs more than the longest pause.
  const intervalMs = Math.max(pace.intervalMs * state.slowdown, Math.min(state.interval_ms, pace.longestPauseMs));
  const furthest = nowMs + pace.burst * intervalMs + 1;
  const isBlockTrue = state.blocked_until <= nowMs + pace.longestPauseMs;
  const isTrue = found !== undefined && isBlockTrue && state.paced_until <= furthest;
  return {
    ...state,
    paced_until: isTrue ? state.paced_until : nowMs + pace.intervalMs * state.slowdown + savedMs(state, pace),
    blocked_until: isBlockTrue ? state.blocked_until : 0,
    slowed_at: Math.min(state.slowed_at, nowMs),
    // Whoever is left out by mistake, because the clock was set, reserves again when it looks.
    reservations: isTrue ? state.reservations : [],
  };
}

/**
 * Reserves the next start for `id`, or uses its reservation when its time has come.
 * @returns `waitMs` 0: it starts now, and is counted; else the time after which to look again
 */
export function reserve(
  state: PaceState,
  { id, urgent }: Pick<Reservation, 'id' | 'urgent'>,
  pace: Pace,
  nowMs: number,
): { readonly state: PaceState; readonly waitMs: number } {
  const line = putInLine(dropLate(state.reservations, id, nowMs), { id, urgent, at: nowMs, overtaken: 0 });
  const place = line.findIndex((reservation) => reservation.id === id);
  const startMs = timeOfPlace(state, pace, nowMs, place);
  if (place === 0 && startMs <= nowMs) {
    return { state: spend({ ...state, reservations: line.slice(1) }, pace, nowMs), waitMs: 0 };
  }
  // Before a late reservation is dropped, those behind it look in short steps.
  const waitMs = Math.max(startMs - nowMs, place === 0 ? 0 : POLL_MS);
  const reservations = line.map((each) => (each.id === id ? { ...each, at: nowMs + waitMs } : each));
  return { state: { ...state, reservations }, waitMs };
}

/** Gives the place in the line back. */
export function cancel(state: PaceState, id: string): PaceState {
  return { ...state, reservations: state.reservations.filter((reservation) => reservation.id !== id) };
}

/**
 * After a 429: no start before `pauseMs` from now, and a lower rate.
 * @param startedAtMs when the refused request started. Several in flight that meet the same 429 count once: those that
 * started before the last one that counted. When it is not known, there must have been a start since.
 */
export function slowDown(
  state: PaceState,
  pace: Pace,
  nowMs: number,
  pauseMs: number,
  startedAtMs: number | undefined,
): PaceState {
  const counts =
    startedAtMs === undefined ? state.slowdown === 1 || state.starts_since_429 > 0 : startedAtMs > state.slowed_at;
  return {
    ...state,
    blocked_until: Math.max(state.blocked_until, nowMs + Math.min(pauseMs, pace.longestPauseMs)),
    slowdown: counts ? Math.min(MAX_SLOWDOWN, state.slowdown * 2) : state.slowdown,
    slowed_at: counts ? nowMs : state.slowed_at,
    starts_since_429: 0,
  };
}

/** Without reservations at the head whose time has passed; those behind them come as far as the first that is in time. */
function dropLate(line: readonly Reservation[], id: string, nowMs: number): readonly Reservation[] {
  const inTime = line.findIndex((reservation) => reservation.id === id || nowMs <= reservation.at + LATE_MS);
  return inTime === -1 ? [] : line.slice(inTime);
}

/** At the end; an urgent one before the first of the others that has not been overtaken often enough. */
function putInLine(line: readonly Reservation[], mine: Reservation): readonly Reservation[] {
  if (line.some(({ id }) => id === mine.id)) return line;
  const overtaken = mine.urgent ? line.findIndex((each) => !each.urgent && each.overtaken < MAX_OVERTAKEN) : -1;
  if (overtaken === -1) return [...line, mine];
  return line.flatMap((each, at) => (at === overtaken ? [mine, { ...each, overtaken: each.overtaken + 1 }] : [each]));
}

/** When the reservation at this place starts, if all before it start in time. */
function timeOfPlace(state: PaceState, pace: Pace, nowMs: number, place: number): number {
  let pacedUntil = state.paced_until;
  let startMs = 0;
  for (let ahead = 0; ahead <= place; ahead += 1) {
    startMs = Math.max(nowMs, state.blocked_until, pacedUntil - savedMs(state, pace));
    pacedUntil = Math.max(startMs, pacedUntil) + pace.intervalMs * state.slowdown;
  }
  return startMs;
}

/** After a start. */
function spend(state: PaceState, pace: Pace, nowMs: number): PaceState {
  const intervalMs = pace.intervalMs * state.slowdown;
  const recovers = state.slowdown > 1 && state.starts_since_429 + 1 >= STARTS_TO_RECOVER;
  return {
    ...state,
    paced_until: Math.max(nowMs, state.paced_until) + intervalMs,
    interval_ms: intervalMs,
    slowdown: recovers ? Math.max(1, state.slowdown / 2) : state.slowdown,
    starts_since_429: recovers ? 0 : state.starts_since_429 + 1,
  };
}

/** How far ahead of its pace a start may be. After a 429 nothing is saved up. */
function savedMs(state: PaceState, pace: Pace): number {
  return state.slowdown > 1 ? 0 : (pace.burst - 1) * pace.intervalMs;
}
