/**
 * Liveness and readiness for orchestrators. Needs no token, so it shows counts and reasons, but no names. Live: the
 * process answers and its schedules advance. Ready: it starts runs, and has at least one job to run.
 */
import type { DaemonView } from '../job-view.ts';

/** The loop beats every 15 seconds; without a beat for this long it is stuck. */
const STALL_MS = 5 * 60_000;

export interface Health {
  readonly ok: boolean;
  /** Empty when healthy. */
  readonly reasons: readonly string[];
}

export function checkLive(view: DaemonView, nowMs: number): Health {
  // A changed clock looks the same until the next beat, which comes before orchestrators lose patience.
  const isStalled = !view.isStopping && nowMs - view.beatAtMs > STALL_MS;
  return toHealth(isStalled ? [`the schedule was not checked for ${STALL_MS / 60_000} minutes`] : []);
}

export function checkReady(view: DaemonView): Health {
  return toHealth([
    ...(view.isStopping ? ['the daemon is stopping'] : []),
    // A job with a broken file continues unchanged; one that was never valid has no schedule.
    ...(view.jobs.some(({ schedule }) => schedule !== undefined) ? [] : ['no job can be run']),
  ]);
}

function toHealth(reasons: readonly string[]): Health {
  return { ok: reasons.length === 0, reasons };
}
