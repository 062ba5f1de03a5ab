/**
 * Whether the daemon lives and is ready, for orchestrators: it is asked without a token, so it tells counts and reasons
 * and no names. Live: the process answers and its schedules go on. Ready: it starts runs, and has one it can start.
 */
import type { DaemonView } from '../job-view.ts';

/** The loop looks at the clock every few seconds; when it did not for this long, it stands still. */
const STALL_MS = 5 * 60_000;

export interface Health {
  readonly ok: boolean;
  /** Empty when it is well. */
  readonly reasons: readonly string[];
}

export function checkLive(view: DaemonView, nowMs: number): Health {
  // A clock that was set looks the same until the loop has come round: no longer than orchestrators are patient.
  const isStalled = !view.isStopping && nowMs - view.beatAtMs > STALL_MS;
  return toHealth(isStalled ? [`the schedule was not looked at for ${STALL_MS / 60_000} minutes`] : []);
}

export function checkReady(view: DaemonView): Health {
  return toHealth([
    ...(view.isStopping ? ['the daemon is stopping'] : []),
    // A job whose file broke goes on as it was before; one that never was right has no schedule.
    ...(view.jobs.some(({ schedule }) => schedule !== undefined) ? [] : ['no job can be run']),
  ]);
}

function toHealth(reasons: readonly string[]): Health {
  return { ok: reasons.length === 0, reasons };
}
