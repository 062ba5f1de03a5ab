/** One run as a child process with its own log file. What came of it is in its record; what it prints counts only where it failed without one. */
import { open } from 'node:fs/promises';
import { describeError } from '../core/errors.ts';
import { tryParseJson } from '../core/json-file.ts';
import type { Log } from '../core/log.ts';
import type { RunRecord } from '../state/run-record.ts';
import { type ChildCommand, type ChildEnd, startProcess } from './child-process.ts';
import { errorSchema } from './documents.ts';

export interface RunProcessEnd {
  /** Exit code; `undefined` when a signal ended it or no process was started. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
  /** The failure that it printed, or why it could not be started. */
  readonly error: RunRecord['error'];
}

export interface RunProcess {
  readonly logFile: string | undefined;
  /** Never rejects. */
  readonly done: Promise<RunProcessEnd>;
  stop(): void;
  kill(): void;
}

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

function readEnd({ code, signal, stdout }: ChildEnd): RunProcessEnd {
  const said = errorSchema.safeParse(tryParseJson(stdout));
  return { code, signal, error: said.data?.error ?? null };
}

function describeStartFailure(cause: unknown): RunProcessEnd {
  const error = { code: 'START_FAILED', message: `the run could not be started: ${describeError(cause)}` };
  return { code: undefined, signal: undefined, error };
}
