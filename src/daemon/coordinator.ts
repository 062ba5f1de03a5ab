/**
 * Which daemon runs a tick where several share a schedule. The contract; `redis-coordinator.ts` implements it. Invariants:
 * a tick is given to one daemon only; a tick whose daemon died before it completed is given to exactly one other.
 */
import type { RunCoordinator } from 'node-cron';

export interface Tick {
  readonly job: string;
  /** When it was due, milliseconds since the epoch, whole seconds. */
  readonly dueAtMs: number;
}

export interface Coordinator {
  /** What node-cron asks before it fires a task of that job. */
  forJob(job: string): RunCoordinator;
  /** For ticks that node-cron does not fire (catch-up): `true` for one daemon only. Idempotent for the one that has it. */
  claim(tick: Tick): Promise<boolean>;
  /** Keeps the claim while the run goes on: called every `RENEW_MS`; `false` when another daemon has taken it over. */
  renew(tick: Tick): Promise<boolean>;
  /** The run came to its end, whatever end: nobody takes it over. */
  complete(tick: Tick): Promise<void>;
  /** Claimed ticks of these jobs whose daemon is gone; each is now this daemon's. */
  takeOver(jobs: readonly string[]): Promise<readonly Tick[]>;
  /** The newest tick of a job that any daemon claimed; `undefined` when none did. */
  lastTick(job: string): Promise<number | undefined>;
  close(): Promise<void>;
}

/** How often a claim is renewed, and how long it holds without: a daemon that died is noticed after the latter. */
export const RENEW_MS = 5_000;
export const LEASE_MS = 20_000;
