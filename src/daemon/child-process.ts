/**
 * A child process that runs this program. Its stdout is kept up to a limit. Its stderr goes to a file opened for it, so
 * that the log outlives this process, or is kept up to a limit. The child ends by itself, when asked to stop, or when
 * killed.
 */
import { spawn } from 'node:child_process';
import { PassThrough, type Readable } from 'node:stream';

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

export interface ChildProcess {
  readonly pid: number | undefined;
  /** Rejects when the process could not be started. */
  readonly done: Promise<ChildEnd>;
  /** Asks it to stop cleanly. */
  stop(): void;
  /** Kills it at once. */
  kill(): void;
}

/** A status document of ten years needs a tenth of this; a report page with its images a quarter. */
const MAX_STDOUT_BYTES = 8 * 1024 * 1024;
/** Enough for one formatted failure. */
const MAX_STDERR_BYTES = 8 * 1024;
/** The output of an ended process is read at once, unless one of its own children still holds the pipe open. */
const LAST_WORDS_MS = 2_000;

/** @param logFile open file for its stderr */
export function startProcess(command: ChildCommand, logFile?: number): ChildProcess {
  const child = spawn(command.executable, command.args, {
    cwd: command.cwd,
    env: { ...command.env },
    stdio: ['ignore', 'pipe', logFile ?? 'pipe'],
  });
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
  return { pid: child.pid, done, stop: () => void child.kill('SIGTERM'), kill: () => void child.kill('SIGKILL') };
}

/** The stdout of a process as it comes. It fails if the process does; destroying it ends the process. */
export function streamProcess(command: ChildCommand): Readable {
  const child = spawn(command.executable, command.args, {
    cwd: command.cwd,
    env: { ...command.env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
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
