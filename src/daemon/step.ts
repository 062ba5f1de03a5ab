/**
 * The daemon as a function: state and event in, new state and effects out. Pure: time and external facts are passed in.
 * Invariant: a tick ends in a run, in a day without a session, or in a log line that says why not; nothing is started
 * after the stop.
 */
import { noteAsk } from './action-step.ts';
import { endAlert, lookForAlerts, recallDeath } from './alert-step.ts';
import type { DaemonEvent, Effect, Rules } from './event.ts';
import { forgetRemoved, noteFiles } from './files-step.ts';
import { NextState } from './next-state.ts';
import { fillPlaces, noteEnd, noteStarted, noteWork, stageNext, stopRun } from './run-step.ts';
import type { DaemonState } from './state.ts';
import { noteStatus, refreshOldest, STATUS_IDLE_MS, STATUS_SHOWN_MS } from './status-step.ts';
import { admit, arrive, catchUp, decide, dropRetry, endArrival, noteArrivals } from './tick-step.ts';

/** How often to check the clock, missed ticks, retries and unsent alerts. */
export const BEAT_MS = 15_000;
/** If the clock is off by more than this, it was set, or the machine slept. */
const JUMP_MS = 5_000;

export function step(
  state: DaemonState,
  event: DaemonEvent,
  nowMs: number,
  rules: Rules,
): { readonly state: DaemonState; readonly effects: readonly Effect[] } {
  const turn = new NextState(state, nowMs, rules);
  take(turn, event);
  return { state: turn.state, effects: turn.effects };
}

function take(turn: NextState, event: DaemonEvent): void {
  switch (event.kind) {
    case 'files-read':
      noteFiles(turn, event);
      break;
    case 'missed-at-start':
      arrive(turn, event.ticks);
      break;
    case 'arrival-late':
      endArrival(turn, event.id);
      break;
    case 'due':
      admit(turn, event.due);
      break;
    case 'left-to-another':
      dropRetry(turn, event.job);
      break;
    case 'claimed':
      noteClaim(turn, event);
      break;
    case 'claim-failed':
      noteClaimFailed(turn, event);
      break;
    case 'claim-lost':
      noteClaimLost(turn, event);
      break;
    case 'fill-places':
      fillPlaces(turn);
      break;
    case 'run-started':
      noteStarted(turn, event);
      break;
    case 'run-worked':
      noteWork(turn, event);
      break;
    case 'run-ended':
      noteEnd(turn, event);
      forgetRemoved(turn, event.job);
      fillPlaces(turn);
      break;
    case 'record-read': {
      const run = turn.job(event.job)?.run;
      if (run?.phase === 'running') turn.change(event.job, { run: { ...run, record: event.record } });
      break;
    }
    case 'status-read':
      noteReading(turn, event.job, noteStatus(turn, event.job, event.document));
      break;
    case 'status-failed':
      noteReading(turn, event.job, noteStatus(turn, event.job, { reason: event.reason }));
      break;
    case 'looked-at':
      refreshOldest(turn, STATUS_SHOWN_MS);
      break;
    case 'alert-ended':
      endAlert(turn, event);
      break;
    case 'unsent-found':
      recallDeath(turn, event.job, event.text);
      break;
    case 'beat':
      beat(turn, event);
      break;
    case 'beat-over':
      // The duration of the beat itself is not a clock jump.
      turn.beatAtMs = turn.nowMs;
      break;
    case 'asked':
      noteAsk(turn, event);
      break;
    case 'stop':
      turn.isStopping = true;
      for (const name of turn.jobs.keys()) stopRun(turn, name, 'asked');
      break;
    default:
      event satisfies never;
  }
}

/** @param isNew whether the status is recent enough */
function noteReading(turn: NextState, name: string, isNew: boolean): void {
  if (!isNew) return;
  decide(turn, name);
  noteArrivals(turn, name);
}

function noteClaim(
  turn: NextState,
  { tick: { job, dueAtMs }, isMine }: Extract<DaemonEvent, { kind: 'claimed' }>,
): void {
  if (turn.job(job)?.owedTickMs === dueAtMs) turn.change(job, { owedTickMs: undefined });
  if (isMine) admit(turn, { job, tickMs: dueAtMs, reason: 'catch-up' });
}

function noteClaimFailed(turn: NextState, { tick, reason }: Extract<DaemonEvent, { kind: 'claim-failed' }>): void {
  const { job, dueAtMs } = tick;
  turn.change(job, { owedTickMs: Math.max(dueAtMs, turn.job(job)?.owedTickMs ?? 0) });
  turn.log.error({ event: 'claim-failed', job, reason }, `${job}: ${reason}`);
}

function noteClaimLost(
  turn: NextState,
  { tick: { job, dueAtMs } }: Extract<DaemonEvent, { kind: 'claim-lost' }>,
): void {
  const state = turn.job(job);
  // Ignore a tick that was settled while its renewal was in progress.
  if (!state?.heldTicks.includes(dueAtMs)) return;
  turn.change(job, { heldTicks: state.heldTicks.filter((held) => held !== dueAtMs) });
  turn.log.warn({ event: 'claim-lost', job }, `${job}: another daemon has taken over its run`);
  if (state.retry?.due.tickMs === dueAtMs) turn.change(job, { retry: undefined });
  else if (state.next?.tickMs === dueAtMs) turn.change(job, { next: undefined });
  else if (state.run?.due.tickMs === dueAtMs) stopRun(turn, job, 'asked');
}

function beat(turn: NextState, { missed }: Extract<DaemonEvent, { kind: 'beat' }>): void {
  const jumpMs = turn.nowMs - turn.beatAtMs - BEAT_MS;
  if (Math.abs(jumpMs) > JUMP_MS) {
    turn.log.warn({ event: 'clock-jump', jumpMs }, 'the clock jumped; checking for missed runs');
    turn.do({ kind: 'rearm' });
  }
  const owed = [...turn.jobs].flatMap(([job, { owedTickMs: tickMs }]) =>
    tickMs === undefined ? [] : [{ job, tickMs }],
  );
  catchUp(turn, [...owed, ...missed]);
  for (const [name, { retry }] of [...turn.jobs]) {
    if (retry && retry.atMs <= turn.nowMs && turn.job(name)?.retry === retry) {
      turn.change(name, { retry: undefined });
      admit(turn, retry.due);
    }
    lookForAlerts(turn, name);
  }
  stageNext(turn);
  refreshOldest(turn, STATUS_IDLE_MS);
}
