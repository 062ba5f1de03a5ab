/**
 * Keeps how `run` and `backfill` end, good or not, where `status` finds it. Invariant: the command's exit code and failure
 * are what they would be without it. A process that is killed keeps nothing.
 */
import { EXIT_CODES, isFault } from '../../core/errors.ts';
import type { RunEnd } from '../../core/run-end.ts';
import type { Job } from '../../job/job.ts';
import { writeLastEnd } from '../../state/last-end.ts';
import { stateOf } from '../../state/paths.ts';
import type { ActionResult } from '../command.ts';
import type { CliContext } from '../context.ts';
import { describeFailure, tellInterruption } from '../terminal/failure.ts';

/** A message may repeat an answer of any length; the log has all of it. */
const MAX_MESSAGE_CHARACTERS = 2000;

/** @param which of the files of the job's state folder */
export async function keepEnd(
  { compose, signal }: CliContext,
  job: Job,
  which: 'lastEnd' | 'lastBackfillEnd',
  action: () => ActionResult,
): ActionResult {
  const { clock, runId } = compose;
  const startedAt = new Date(clock.now()).toISOString();
  const keep = async (end: Pick<RunEnd, 'outcome' | 'error'>) => {
    const times = { started_at: startedAt, finished_at: new Date(clock.now()).toISOString() };
    // A disk that cannot be written costs that `status` knows of it, and is told by what failed before.
    await writeLastEnd(stateOf(compose.stateDir, job.name)[which], { run_id: runId, ...times, ...end }).catch(
      () => undefined,
    );
  };
  try {
    const code = await action();
    await keep({ outcome: readOutcome(code), error: null });
    return code;
  } catch (error) {
    const found = tellInterruption(error, signal);
    const kind = isFault(found) ? found.kind : 'failed';
    // The run that it found going on will have an end of its own.
    if (kind !== 'active') await keep({ outcome: kind, error: describeEnd(found, compose.redact) });
    throw error;
  }
}

function readOutcome(code: number | undefined): RunEnd['outcome'] {
  switch (code ?? 0) {
    case 0:
      return 'done';
    case EXIT_CODES.incomplete:
      return 'incomplete';
    default:
      return 'failed';
  }
}

function describeEnd(error: unknown, redact: (text: string) => string): RunEnd['error'] {
  const { code, message } = describeFailure(error, { redact }).json.error;
  return { code, message: message.slice(0, MAX_MESSAGE_CHARACTERS) };
}
