/** Health for orchestrators. Needs no token, so it has counts and reasons, but no names. */
import type { DaemonView } from '../job-view.ts';
import { answerJson, type PageAnswer } from './answer.ts';

/** The loop beats every 15 seconds; without a beat for this long it is stuck. */
const STALL_MS = 5 * 60_000;

interface Health {
  readonly ok: boolean;
  /** Empty when healthy. */
  readonly reasons: readonly string[];
}

/** `undefined` for an address of no health. */
export function answerHealth(path: string, read: () => DaemonView, nowMs: number): PageAnswer | undefined {
  if (!/^\/healthz(\/live|\/ready)?$/.test(path)) return undefined;
  const view = read();
  const live = checkLive(view, nowMs);
  const ready = checkReady(view);
  const asked = path === '/healthz' ? [live, ready] : [path === '/healthz/live' ? live : ready];
  const ok = asked.every((health) => health.ok);
  const body = path === '/healthz' ? { ok, live, ready } : { ok, reasons: asked.flatMap(({ reasons }) => reasons) };
  return answerJson(ok ? 200 : 503, body);
}

/** Live: the process answers and its schedules advance. */
function checkLive(view: DaemonView, nowMs: number): Health {
  // A changed clock looks the same until the next beat, which comes before orchestrators lose patience.
  const isStalled = !view.isStopping && nowMs - view.beatAtMs > STALL_MS;
  return toHealth(isStalled ? [`the schedule was not checked for ${STALL_MS / 60_000} minutes`] : []);
}

/** Ready: it starts runs, and has at least one job to run. */
function checkReady(view: DaemonView): Health {
  return toHealth([
    ...(view.isStopping ? ['the daemon is stopping'] : []),
    // A job with a broken file continues unchanged; one that was never valid has no schedule.
    ...(view.jobs.some(({ schedule }) => schedule !== undefined) ? [] : ['no job can be run']),
  ]);
}

function toHealth(reasons: readonly string[]): Health {
  return { ok: reasons.length === 0, reasons };
}
