/**
 * Child processes that run this program: its output is kept up to a limit, streamed, or, as the log of a run, written to
 * a file that outlives this process. A child ends by itself, when asked to stop, or when killed.
 */
import { spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import { PassThrough, type Readable } from 'node:stream';
import { z } from 'zod';
import { tryParseJson } from '../core/atomic-file.ts';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { errorSchema, type RunRecord } from '../state/run-record.ts';

export interface ChildCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

export interface ChildEnd {
  /** `undefined` when a signal ended it. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
  readonly stdout: string;
  /** What it wrote to stderr, up to the limit; empty if stderr went to a file. */
  readonly stderr: string;
}

/** What can be asked to stop, and be killed. */
export interface Stoppable {
  stop(): void;
  kill(): void;
}

export interface ChildProcess extends Stoppable {
  /** Rejects when the process could not be started. */
  readonly done: Promise<ChildEnd>;
  /** Of a run, if it could be opened. */
  readonly logFile?: string | undefined;
}

/** A status document of ten years needs a tenth of this; a report page with its images a quarter. */
const MAX_STDOUT_BYTES = 8 * 1024 * 1024;
/** Enough for one formatted failure. */
const MAX_STDERR_BYTES = 8 * 1024;
/** The output of an ended process is read at once, unless one of its own children still holds the pipe open. */
const LAST_WORDS_MS = 2_000;
/** Time for pages in flight to finish; supervisors kill after ten seconds. */
const STOP_GRACE_MS = 9_000;

/** What a command prints with `--json` when it fails. */
const failureSchema = z.object({ error: errorSchema });

/** @param logFile open file for its stderr */
export function startProcess({ executable, args, cwd, env }: ChildCommand, logFile?: number): ChildProcess {
  const child = spawn(executable, args, { cwd, env: { ...env }, stdio: ['ignore', 'pipe', logFile ?? 'pipe'] });
  const stdout = keepFirst(child.stdout, MAX_STDOUT_BYTES);
  const stderr = keepFirst(child.stderr, MAX_STDERR_BYTES);
  const done = new Promise<ChildEnd>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => {
      setTimeout(() => child.stdout?.destroy(), LAST_WORDS_MS).unref();
      setTimeout(() => child.stderr?.destroy(), LAST_WORDS_MS).unref();
    });
    child.once('close', (code, signal) => {
      resolve({ code: code ?? undefined, signal: signal ?? undefined, stdout: stdout(), stderr: stderr() });
    });
  });
  return { done, stop: () => void child.kill('SIGTERM'), kill: () => void child.kill('SIGKILL') };
}

/** The stdout of a process as it comes. It fails if the process does; destroying it ends the process. */
export function streamProcess({ executable, args, cwd, env }: ChildCommand): Readable {
  const child = spawn(executable, args, { cwd, env: { ...env }, stdio: ['ignore', 'pipe', 'ignore'] });
  const stream = new PassThrough({
    destroy: (error, done) => {
      child.kill('SIGKILL');
      done(error);
    },
  });
  child.stdout.pipe(stream, { end: false });
  child.once('error', (error) => stream.destroy(error));
  child.once('close', (code) => {
    if (code === 0) stream.end();
    else stream.destroy(new RangeError(`the process ended with exit code ${code}`));
  });
  return stream;
}

/** What a command said of its failure. */
export function readFailure({ stdout = '' }: Partial<ChildEnd>): RunRecord['error'] {
  return failureSchema.safeParse(tryParseJson(stdout)).data?.error ?? null;
}

/**
 * One run with its own log file. What came of it is in its record; what it prints counts only where it failed without
 * one.
 * @param logFile path; if the file cannot be opened, the run has no log
 * @throws the system error when there are too many processes or open files: a later start may work
 */
export async function startRunProcess(
  command: ChildCommand,
  { runId, logFile, log }: { readonly runId: string; readonly logFile: string; readonly log: Log },
): Promise<ChildProcess> {
  const file = await open(logFile, 'a', 0o640).catch((error: unknown) => {
    const reason = describeError(error);
    log.error({ event: 'log-file-failed', logFile, reason }, `the run has no log file: ${reason}`);
    return undefined;
  });
  try {
    const child = startProcess({ ...command, env: { ...command.env, FLOWDROP_RUN_ID: runId } }, file?.fd);
    return { ...child, logFile: file && logFile };
  } finally {
    // The child has its own copy of the handle.
    await file?.close();
  }
}

/** Asks to stop, and kills what has not ended in time. Never rejects. @param over aborted when it has ended */
export async function stopInTime(children: readonly Stoppable[], clock: Clock, over: AbortSignal): Promise<void> {
  for (const child of children) child.stop();
  await clock.sleep(STOP_GRACE_MS, over).then(
    () => {
      for (const child of children) child.kill();
    },
    () => undefined, // All ended in time.
  );
}

/** Keeps the first bytes, but reads to the end, so that the process never blocks. */
function keepFirst(stream: Readable | null, maxBytes: number): () => string {
  const chunks: Buffer[] = [];
  let left = maxBytes;
  stream?.on('data', (chunk: Buffer) => {
    if (left <= 0) return;
    chunks.push(chunk.subarray(0, left));
    left -= chunk.length;
  });
  return () => Buffer.concat(chunks).toString('utf8');
}
