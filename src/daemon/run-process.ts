/**
 * One run as a child process with its own log file. Its output is parsed with the
 * schemas of `documents.ts` and never trusted: invalid output counts as none.
 */
import { open } from 'node:fs/promises';
import { describeError } from '../core/errors.ts';
import { tryParseJson } from '../core/json-file.ts';
import type { Log } from '../core/log.ts';
import { type ChildCommand, type ChildEnd, startProcess } from './child-process.ts';
import { errorSchema, runSchema } from './documents.ts';
import type { RunRecord } from './job-view.ts';

export interface RunProcessEnd extends Pick<RunRecord, 'outcome' | 'code' | 'signal' | 'result' | 'error'> {
  /** Whether it printed a JSON object or array: a process that failed without one has crashed. */
  readonly hasSpoken: boolean;
}

export interface RunProcess {
  readonly logFile: string | undefined;
  /** Never rejects: a process that could not be started counts as died. */
  readonly done: Promise<RunProcessEnd>;
  stop(): void;
  kill(): void;
}

const OUTCOMES: Readonly<Record<number, RunRecord['outcome']>> = {
  0: 'done',
  1: 'failed',
  2: 'usage',
  3: 'incomplete',
  4: 'active',
  130: 'interrupted',
};

/** @param logFile path; if the file cannot be opened, the run has no log */
export async function startRunProcess(
  command: ChildCommand,
  { runId, logFile, log }: { readonly runId: string; readonly logFile: string; readonly log: Log },
): Promise<RunProcess> {
  const file = await open(logFile, 'a', 0o640).catch((error: unknown) => {
    const reason = describeError(error);
    log.error({ event: 'log-file-failed', logFile, reason }, `the run has no log file: ${reason}`);
    return undefined;
  });
  try {
    const child = startProcess({ ...command, env: { ...command.env, FLOWDROP_RUN_ID: runId } }, file?.fd);
    const done = child.done.then(readEnd, describeStartFailure);
    return { logFile: file && logFile, done, stop: child.stop, kill: child.kill };
  } catch (error) {
    // Too many processes or open files: a later start may work.
    const done = Promise.resolve(describeStartFailure(error));
    return { logFile: undefined, done, stop: () => undefined, kill: () => undefined };
  } finally {
    // The child has its own copy of the handle.
    await file?.close();
  }
}

/** The outcome of a run from the end of its process and its output. Exported for tests. */
export function readEnd({ code, signal, stdout }: Pick<ChildEnd, 'code' | 'signal' | 'stdout'>): RunProcessEnd {
  const value = tryParseJson(stdout);
  const result = runSchema.safeParse(value);
  const error = errorSchema.safeParse(value);
  return {
    outcome: (code === undefined ? undefined : OUTCOMES[code]) ?? 'died',
    code,
    signal,
    result: result.success ? result.data : undefined,
    error: error.success ? error.data.error : findDateError(value),
    hasSpoken: typeof value === 'object' && value !== null,
  };
}

/** A run that failed for a date prints the error with the date. */
function findDateError(value: unknown): RunProcessEnd['error'] {
  const dates = (value as { dates?: unknown } | undefined)?.dates;
  if (!Array.isArray(dates)) return undefined;
  for (const date of dates) {
    const parsed = errorSchema.safeParse(date);
    if (parsed.success) return parsed.data.error;
  }
  return undefined;
}

function describeStartFailure(cause: unknown): RunProcessEnd {
  const error = { code: 'START_FAILED', message: `the run could not be started: ${describeError(cause)}` };
  return { outcome: 'died', code: undefined, signal: undefined, result: undefined, error, hasSpoken: false };
}
