/**
 * What a person asks for: a run, another command of a job, a stop. Pure. Invariant: it goes the way of a tick, so that
 * nothing bypasses the limit of runs or the rule of one run a job; and it is no tick: it is neither caught up, retried nor
 * claimed.
 */
import type { Ask, AskAnswer, DaemonEvent } from './event.ts';
import type { NextState } from './next-state.ts';
import { stopRun } from './run-step.ts';
import { type AskedCommand, isStaging } from './state.ts';
import { admit, endTick, keepNext, waitForPlace } from './tick-step.ts';

export function noteAsk(turn: NextState, { id, ask }: Extract<DaemonEvent, { kind: 'asked' }>): void {
  turn.do({ kind: 'answer', id, answer: answerAsk(turn, ask) });
}

function answerAsk(turn: NextState, ask: Ask): AskAnswer {
  const job = turn.job(ask.job);
  if (!job || job.isRemoved) return refuse(`${ask.job} is not a job of this daemon.`);
  switch (ask.kind) {
    case 'stop':
      return stop(turn, ask.job);
    case 'retry': {
      const { retry } = job;
      if (!retry) return start(turn, ask.job, { command: 'run', options: [] });
      if (turn.isStopping) return refuse('The daemon is stopping.');
      if (job.run) return refuse(describeBusy(turn, ask.job));
      turn.change(ask.job, { retry: undefined });
      admit(turn, retry.due);
      return { outcome: 'started', text: `The retry of ${ask.job} begins now.` };
    }
    case 'command':
      return start(turn, ask.job, ask);
  }
}

function start(turn: NextState, name: string, { command, options }: AskedCommand): AskAnswer {
  const job = turn.job(name);
  if (!job || turn.isStopping) return refuse('The daemon is stopping.');
  const due = { job: name, reason: 'asked', tickMs: turn.nowMs, asked: { command, options } } as const;
  const text = `${command} of ${name} begins as soon as a slot is free.`;
  if (isStaging(job) && !job.next) {
    // Staging gives way, as it does for a tick.
    keepNext(turn, job, due);
    turn.later(0, { kind: 'fill-places' });
    return { outcome: 'started', text };
  }
  if (job.run) return refuse(describeBusy(turn, name));
  waitForPlace(turn, due);
  return { outcome: 'started', text };
}

function stop(turn: NextState, name: string): AskAnswer {
  const run = turn.job(name)?.run;
  if (!run || run.phase === 'deciding') return refuse(`${name} has no run by this daemon to stop.`);
  const wasRunning = run.phase === 'running';
  stopRun(turn, name, 'asked');
  if (!wasRunning && !run.due.asked) endTick(turn, run.due);
  return { outcome: 'done', text: `The run of ${name} ${wasRunning ? 'was asked to stop' : 'no longer waits'}.` };
}

function describeBusy(turn: NextState, name: string): string {
  const phase = turn.job(name)?.run?.phase;
  return `${name} ${phase === 'running' ? 'is running' : 'is about to run'}: a job has one run at a time.`;
}

function refuse(text: string): AskAnswer {
  return { outcome: 'refused', text };
}
