/**
 * Whose turn it is among the processes of a machine. Pure. Invariant: who was served longest ago is next; urgent requests
 * go first, yet of any four starts in a row one is another's, so nobody waits for ever; a process that does not take its
 * turn holds the others up for a moment only.
 */
import type { Pace } from './budget.ts';
import { earliestStart, type PaceState, spend, type Waiter } from './state.ts';

/** So many starts in a row may be urgent while others wait. */
const MAX_URGENT_RUN = 3;
/** A turn not taken after this long is also the next one's: its process may be busy with an answer, or stopped. */
const PASS_OVER_MS = 100;
/** How often those behind the first look whether it has started. */
const POLL_MS = 10;
/** How often a waiter says that it still waits. */
const HEARTBEAT_MS = 2_000;
/** A waiter silent for this long is gone. Either way, because clocks are set. */
const SILENT_MS = 5 * HEARTBEAT_MS;
/** Longest that the permission of all machines may take: more than the connection's own patience. */
const HOLD_MS = 60_000;

export type Step =
  /** The request starts now; it is counted. */
  | { readonly kind: 'start' }
  /** Its turn, if all machines permit it. */
  | { readonly kind: 'ask' }
  | { readonly kind: 'wait'; readonly waitMs: number };

/** Without waiters that ended or fell silent, and without a holder that is none of the rest. */
export function dropGone(state: PaceState, nowMs: number, isRunning: (waiter: Waiter) => boolean): PaceState {
  const holder = state.holder && Math.abs(state.holder.until - nowMs) <= HOLD_MS ? state.holder : null;
  const waiters = state.waiters.filter(
    (waiter) => isRunning(waiter) && (waiter.lane === holder?.lane || Math.abs(nowMs - waiter.seen) <= SILENT_MS),
  );
  return { ...state, waiters, holder: waiters.some(({ lane }) => lane === holder?.lane) ? holder : null };
}

/** The next thing for `me` to do, and the state that says so to the others. @param asks other machines must permit it */
export function takeStep(
  state: PaceState,
  me: Waiter,
  pace: Pace,
  nowMs: number,
  asks: boolean,
): { readonly state: PaceState; readonly step: Step } {
  const present = putWaiter(state, me);
  const line = orderWaiters(present);
  const place = line.findIndex(({ lane }) => lane === me.lane);
  const startMs = earliestStart(present, pace);
  const isHeld = present.holder !== null && present.holder.lane !== me.lane;
  const isTurn = nowMs >= startMs && place <= Math.floor((nowMs - startMs) / PASS_OVER_MS) && !isHeld;
  if (isTurn && asks) {
    return { state: { ...present, holder: { lane: me.lane, until: nowMs + HOLD_MS } }, step: { kind: 'ask' } };
  }
  if (isTurn) return { state: startRequest(present, me.lane, pace, nowMs), step: { kind: 'start' } };
  // The first wakes at its start to the millisecond; the others have no reason to be up at the same moment.
  const dueMs = nowMs < startMs ? startMs - nowMs + (place > 0 ? POLL_MS : 0) : POLL_MS;
  return { state: present, step: { kind: 'wait', waitMs: Math.min(HEARTBEAT_MS, dueMs) } };
}

/** Counts a start of this lane, which waits no more. */
export function startRequest(state: PaceState, lane: string, pace: Pace, nowMs: number): PaceState {
  const urgent = state.waiters.find((waiter) => waiter.lane === lane)?.urgent ?? false;
  const othersWait = state.waiters.some((waiter) => !waiter.urgent);
  return {
    ...spend(withoutLane(state, lane), pace, nowMs),
    urgent_run: urgent && othersWait ? state.urgent_run + 1 : 0,
  };
}

/** The other machines said no: nobody of this one starts before `untilMs`; the lane goes on waiting. */
export function postpone(state: PaceState, lane: string, untilMs: number): PaceState {
  const holder = state.holder?.lane === lane ? null : state.holder;
  return { ...state, holder, blocked_until: Math.max(state.blocked_until, untilMs) };
}

/** Takes a lane off the list, and its hold with it. */
export function withoutLane(state: PaceState, lane: string): PaceState {
  return {
    ...state,
    holder: state.holder?.lane === lane ? null : state.holder,
    waiters: state.waiters.filter((waiter) => waiter.lane !== lane),
  };
}

/** Says that it waits, not more often than needed. In its old place: of two that were served at the same turn, who came first stays first. */
function putWaiter(state: PaceState, waiter: Waiter): PaceState {
  const listed = state.waiters.find(({ lane }) => lane === waiter.lane);
  if (listed && Math.abs(waiter.seen - listed.seen) < HEARTBEAT_MS / 2) return state;
  const replaced = state.waiters.map((other) => (other === listed ? waiter : other));
  return { ...state, waiters: listed ? replaced : [...state.waiters, waiter] };
}

/** Turn numbers, not times, because clocks are set; none may be from before the count began anew. */
function orderWaiters(state: PaceState): readonly Waiter[] {
  const turn = (waiter: Waiter) => Math.min(waiter.last_turn, state.turn);
  const sorted = [...state.waiters].sort((a, b) => turn(a) - turn(b));
  const urgent = sorted.filter((waiter) => waiter.urgent);
  const [next, ...rest] = sorted.filter((waiter) => !waiter.urgent);
  if (next === undefined) return urgent;
  return state.urgent_run >= MAX_URGENT_RUN ? [next, ...urgent, ...rest] : [...urgent, next, ...rest];
}
