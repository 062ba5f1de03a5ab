/** Describes the end of a run in words: for the log, and for operators when the run itself could not report it. */

import { explainAbort } from '../core/process-end.ts';
import { formatDuration } from '../core/units.ts';
import { sumSealed } from '../state/run-record.ts';
import type { EndedRun } from './job-view.ts';
import type { NextState } from './next-state.ts';

/** The error of a run that took longer than its job allows. */
export function describeTimeout(timeoutMs: number): NonNullable<EndedRun['error']> {
  return {
    code: 'RUN_TIMED_OUT',
    message: `The run took longer than ${formatDuration(timeoutMs)}, its schedule.timeout, and was stopped.`,
    hint: 'Its log shows what it waited for. If it just has a lot to do, raise `schedule.timeout`.',
  };
}

/** For operators: the end of a run that could not report it itself. */
export function describeEnd({ outcome, error, code, signal, logFile }: EndedRun): string {
  const how = signal === undefined ? `ended with exit code ${code} without a message` : `was ended by ${signal}`;
  const what = outcome === 'timed-out' && error ? error.message : `The run ${how}.`;
  const hint = explainAbort({ code, signal });
  return `${what} ${hint === '' ? '' : `${hint} `}Its schedule retries it.${logFile ? ` Its log: ${logFile}` : ''}`;
}

/** Failed and incomplete runs get a higher log level, so that they stand out from successful ones. */
export function logEnd(log: NextState['log'], job: string, run: EndedRun): void {
  const { outcome, code, signal, error, record, logFile } = run;
  const sealed = record && sumSealed(record);
  const line = {
    event: 'finished',
    job,
    run: run.runId,
    outcome,
    code,
    signal,
    error: error ?? undefined,
    sealed: sealed?.dates,
    rows: sealed?.rows,
    requests: record?.requests,
    reports: record?.reports.length,
    logFile,
  };
  const text = `${job}: ${outcome}${error ? `: ${error.code}: ${error.message}` : ''}`;
  switch (outcome) {
    case 'done':
      log.info(line, text);
      return;
    case 'incomplete':
    case 'interrupted':
    case 'active':
      log.warn(line, text);
      return;
    case 'failed':
    case 'usage':
    case 'died':
    case 'timed-out':
      log.error(line, text);
      return;
    default:
      outcome satisfies never;
  }
}
