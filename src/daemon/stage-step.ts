/**
 * Staging of the running session: which job stages now, and the end of its process. Pure. Invariant: exports go first. No
 * staging starts while any run is active or waiting, and staging is stopped when one is due; its pages stay staged. A
 * staging that fails is no failed run: it is neither retried nor alerted, because the next tick fetches what it left.
 */
import type { NextState } from './next-state.ts';
import { type DaemonJob, isStaging, type RunningRun } from './state.ts';

/** Starts the staging that has waited longest, if one is due and nothing else is to be done. */
export function chooseStaging(turn: NextState): string | undefined {
  if (turn.isStopping) return undefined;
  const jobs = [...turn.jobs];
  if (turn.arrivals.length > 0 || jobs.some(([, { run, next }]) => run !== undefined || next !== undefined))
    return undefined;
  const due = jobs.filter(([, { filed, isRemoved, stagedAtMs }]) => {
    const everyMs = (filed.job.schedule?.stageSeconds ?? 0) * 1000;
    if (everyMs === 0 || isRemoved || !turn.rules.canStage(filed.job, turn.nowMs)) return false;
    return Math.floor(turn.nowMs / everyMs) !== Math.floor(stagedAtMs / everyMs);
  });
  return due.sort(([, a], [, b]) => a.stagedAtMs - b.stagedAtMs)[0]?.[0];
}

/** Jobs that are staging and were not asked to stop. */
export function listStaging(turn: NextState): readonly string[] {
  return [...turn.jobs].filter(([, job]) => isStaging(job) && !isStopped(job)).map(([name]) => name);
}

function isStopped({ run }: DaemonJob): boolean {
  return run?.phase === 'running' && run.stop !== undefined;
}

/** Its process has ended. */
export function endStaging(
  turn: NextState,
  name: string,
  { runId, stop }: RunningRun,
  reason: string | undefined,
): void {
  turn.change(name, { run: undefined });
  if (reason === undefined || stop !== undefined) {
    turn.log.debug({ event: 'staged', job: name, run: runId }, `${name}: staging ended`);
    return;
  }
  turn.log.warn({ event: 'stage-failed', job: name, run: runId, reason }, `${name}: staging failed: ${reason}`);
}
