/**
 * Records how a run ended, good or not, for `status`. A killed process records nothing. A disk that cannot be written
 * costs the record, not the run.
 */
import { isFault } from '../core/errors.ts';
import { readFailure } from '../core/failure.ts';
import type { Job } from '../job/job.ts';
import { JobState } from '../state/job-state.ts';
import type { RunEnd } from '../state/run-end.ts';
import type { FinishedRun, RunRequest } from './finished-run.ts';
import type { Openers } from './openers.ts';

/** A message may repeat an answer of any length; the log has all of it. */
const MAX_MESSAGE_CHARACTERS = 2000;

type EndDeps = Pick<Openers, 'clock' | 'runId' | 'stateDir' | 'redact'>;

export async function recordEnd(
  { clock, runId, stateDir, redact }: EndDeps,
  job: Job,
  { command, startedAtMs }: Pick<RunRequest, 'command'> & { readonly startedAtMs: number },
  { error, shortfall }: FinishedRun,
): Promise<void> {
  // Another run is active and records its own end.
  if (isFault(error) && error.kind === 'active') return;
  const state = new JobState(stateDir, job.name);
  const [started_at, finished_at] = [startedAtMs, clock.now()].map((ms) => new Date(ms).toISOString()) as [
    string,
    string,
  ];
  const end: RunEnd = { run_id: runId, started_at, finished_at, ...describeEnd() };
  const file = command === 'run' ? state.lastEnd : state.lastBackfillEnd;
  await file.write(end).catch(() => undefined);
  // A date selection is no tick of the schedule: only a full run counts as the job's last success.
  if (end.outcome === 'done' && command === 'run')
    await state.lastSuccess.write({ run_id: runId, finished_at }).catch(() => undefined);

  function describeEnd(): Pick<RunEnd, 'outcome' | 'error'> {
    if (error === undefined) return { outcome: shortfall ?? 'done', error: null };
    const { code, message, kind } = readFailure(error, redact);
    return { outcome: kind as RunEnd['outcome'], error: { code, message: message.slice(0, MAX_MESSAGE_CHARACTERS) } };
  }
}
