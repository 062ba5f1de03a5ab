/**
 * Decides which daemon runs a tick when several share a schedule. The contract; `redis-coordinator.ts` implements it.
 * Invariants: only one daemon gets a tick; if that daemon dies before it completes the tick, exactly one other gets it.
 */
export interface Tick {
  readonly job: string;
  /** Due time in milliseconds since the epoch, whole seconds. */
  readonly dueAtMs: number;
}

export interface Coordinator {
  /** `true` for one daemon only. Idempotent for the daemon that holds it. */
  claim(tick: Tick): Promise<boolean>;
  /** Keeps the claim during the run; call it every `RENEW_MS`. `false` when another daemon has taken the tick over. */
  renew(tick: Tick): Promise<boolean>;
  /** The run has ended, with any outcome: no daemon takes the tick over. */
  complete(tick: Tick): Promise<void>;
  /** Takes over claimed ticks of these jobs whose daemon is gone; this daemon now holds them. */
  takeOver(jobs: readonly string[]): Promise<readonly Tick[]>;
  /** The newest tick of a job that any daemon claimed; `undefined` if there is none. */
  lastTick(job: string): Promise<number | undefined>;
  close(): Promise<void>;
}

/**
 * `RENEW_MS`: interval of renewals. `LEASE_MS`: how long a claim holds without renewal, and so how long a dead daemon
 * stays unnoticed.
 */
export const RENEW_MS = 5_000;
export const LEASE_MS = 20_000;
