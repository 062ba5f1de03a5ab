/**
 * The state and effects of a step while it is computed. It exists only during the step, and never changes the state it
 * started from.
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

  /** A snapshot of the new state. */
  get state(): DaemonState {
    const { jobs, unusable, arrivals, beatAtMs, isStopping } = this;
    return { jobs, unusable, arrivals, beatAtMs, isStopping };
  }

  job(name: string): DaemonJob | undefined {
    return this.jobs.get(name);
  }

  /** Does nothing for an unknown job. */
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
