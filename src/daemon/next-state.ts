/**
 * One step in the making: the new state as far as it has come, and the effects so far. It lives as long as the step; what
 * it was made of is never changed.
 */
import type { DaemonEvent, Effect, Rules } from './event.ts';
import type { JobView } from './job-view.ts';
import type { Arrival, DaemonJob, DaemonState } from './state.ts';

type LogLine = Extract<Effect, { kind: 'log' }>['line'];

export class NextState {
  readonly nowMs: number;
  readonly rules: Rules;
  readonly effects: Effect[] = [];
  readonly jobs: Map<string, DaemonJob>;
  unusable: readonly JobView[];
  arrivals: readonly Arrival[];
  beatAtMs: number;
  isStopping: boolean;
  readonly log = {
    debug: (line: LogLine, text: string) => this.do({ kind: 'log', level: 'debug', line, text }),
    info: (line: LogLine, text: string) => this.do({ kind: 'log', level: 'info', line, text }),
    warn: (line: LogLine, text: string) => this.do({ kind: 'log', level: 'warn', line, text }),
    error: (line: LogLine, text: string) => this.do({ kind: 'log', level: 'error', line, text }),
  };

  constructor(state: DaemonState, nowMs: number, rules: Rules) {
    this.nowMs = nowMs;
    this.rules = rules;
    this.jobs = new Map(state.jobs);
    this.unusable = state.unusable;
    this.arrivals = state.arrivals;
    this.beatAtMs = state.beatAtMs;
    this.isStopping = state.isStopping;
  }

  /** The state as it is now. */
  get state(): DaemonState {
    const { jobs, unusable, arrivals, beatAtMs, isStopping } = this;
    return { jobs, unusable, arrivals, beatAtMs, isStopping };
  }

  job(name: string): DaemonJob | undefined {
    return this.jobs.get(name);
  }

  /** Without effect on a job that is not known. */
  change(name: string, change: Partial<DaemonJob>): void {
    const job = this.jobs.get(name);
    if (job) this.jobs.set(name, { ...job, ...change });
  }

  do(effect: Effect): void {
    this.effects.push(effect);
  }

  later(afterMs: number, event: DaemonEvent): void {
    this.do({ kind: 'later', afterMs, event });
  }
}
