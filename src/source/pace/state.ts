/**
 * What the processes of a machine know together of one budget, and the arithmetic on it. Pure: the time comes in.
 * Invariant: starts are at least an interval apart, but for a burst that the budget grants; a state that cannot be true
 * (the clock was set, the file was edited) costs one whole interval and never more.
 */
import { z } from 'zod';
import type { Pace } from './budget.ts';

/** A 429 halves the rate, at most this many times over: below 1/8 the provider is down rather than busy. */
export const MAX_SLOWDOWN = 8;
/** Every this many starts without a 429, a lowered rate doubles again, up to the allowed one. */
export const STARTS_TO_RECOVER = 20;

const waiterSchema = z.object({
  /** Which queue of which process; each process has one for urgent requests and one for the others. */
  lane: z.string(),
  host: z.string(),
  pid: z.int().positive(),
  /** When that process began: a later process may get the same number. */
  process_start: z.string(),
  urgent: z.boolean(),
  /** Turn of its last start; who was never served came between two turns. */
  last_turn: z.number(),
  /** When it last said that it still waits. */
  seen: z.number(),
});

const stateSchema = z.object({
  version: z.literal(1),
  /** Starts so far. */
  turn: z.int().nonnegative(),
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
  /** Starts of urgent requests in a row while others waited. */
  urgent_run: z.int().nonnegative(),
  /** Who is asking for the permission of all machines; it has the turn until then. */
  holder: z.object({ lane: z.string(), until: z.number() }).nullable(),
  waiters: z.array(waiterSchema),
});

export type Waiter = Readonly<z.infer<typeof waiterSchema>>;
export type PaceState = Readonly<z.infer<typeof stateSchema>>;

/** A budget that nobody has used yet. */
export const UNUSED: PaceState = {
  version: 1,
  turn: 0,
  paced_until: 0,
  blocked_until: 0,
  interval_ms: 0,
  slowdown: 1,
  starts_since_429: 0,
  slowed_at: 0,
  urgent_run: 0,
  holder: null,
  waiters: [],
};

/** @throws SyntaxError or ZodError when the text is no state */
export function parseState(text: string): PaceState {
  return stateSchema.parse(JSON.parse(text));
}

/** When it is not known what the starts so far have used: the next is a whole interval away, and nothing is saved up. */
export function spendAll(state: PaceState, pace: Pace, nowMs: number): PaceState {
  return { ...state, paced_until: nowMs + pace.intervalMs * state.slowdown + savedMs(state, pace) };
}

/** The state without what cannot be true at this time. */
export function settle(state: PaceState, pace: Pace, nowMs: number): PaceState {
  const furthest = nowMs + pace.burst * Math.max(pace.intervalMs * state.slowdown, state.interval_ms) + 1;
  const isBlockTrue = state.blocked_until <= nowMs + pace.longestPauseMs;
  const isTrue = state.paced_until <= furthest && isBlockTrue;
  const slowed_at = Math.min(state.slowed_at, nowMs);
  const settled: PaceState = { ...state, slowed_at, blocked_until: isBlockTrue ? state.blocked_until : 0 };
  return isTrue ? settled : spendAll(settled, pace, nowMs);
}

export function earliestStart(state: PaceState, pace: Pace): number {
  return Math.max(state.blocked_until, state.paced_until - savedMs(state, pace));
}

/** After a start. */
export function spend(state: PaceState, pace: Pace, nowMs: number): PaceState {
  const intervalMs = pace.intervalMs * state.slowdown;
  const recovers = state.slowdown > 1 && state.starts_since_429 + 1 >= STARTS_TO_RECOVER;
  return {
    ...state,
    turn: state.turn + 1,
    paced_until: Math.max(nowMs, state.paced_until) + intervalMs,
    interval_ms: intervalMs,
    slowdown: recovers ? Math.max(1, state.slowdown / 2) : state.slowdown,
    starts_since_429: recovers ? 0 : state.starts_since_429 + 1,
  };
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

/** How far ahead of its pace a start may be. Whoever was told to slow down has nothing saved up. */
function savedMs(state: PaceState, pace: Pace): number {
  return state.slowdown > 1 ? 0 : (pace.burst - 1) * pace.intervalMs;
}
