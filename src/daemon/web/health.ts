/**
 * Whether the daemon lives and is ready, for orchestrators: it is asked without a token, so it tells counts and reasons
 * and no names. Live: the process answers and its schedules go on. Ready: it starts runs, and has one it can start.
 */
import type { DaemonView, JobView } from '../view.ts';

/** A tick that is due longer than this while its job does nothing shows that the loop stands still. */
const STALL_MS = 5 * 60_000;

export interface Health {
  readonly ok: boolean;
  /** Empty when it is well. */
  readonly reasons: readonly string[];
}

export function checkLive(view: DaemonView, nowMs: number): Health {
  const stalled = view.isStopping ? 0 : view.jobs.filter((job) => isStalled(job, nowMs)).length;
  return toHealth(stalled === 0 ? [] : [`${stalled} due runs were not started for ${STALL_MS / 60_000} minutes`]);
}

export function checkReady(view: DaemonView): Health {
  return toHealth([
    ...(view.isStopping ? ['the daemon is stopping'] : []),
    // A job whose file broke goes on as it was before; one that never was right has no schedule.
    ...(view.jobs.some(({ schedule }) => schedule !== undefined) ? [] : ['no job can be run']),
  ]);
}

function isStalled({ nextRunAtMs, running, waitingSinceMs }: JobView, nowMs: number): boolean {
  if (nextRunAtMs === undefined || running || waitingSinceMs !== undefined) return false;
  return nowMs - nextRunAtMs > STALL_MS;
}

function toHealth(reasons: readonly string[]): Health {
  return { ok: reasons.length === 0, reasons };
}
