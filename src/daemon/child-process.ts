/**
 * A child process: this program again. What it says on stdout is kept up to a bound; its stderr goes to a file that was
 * opened for it, so that it outlives this process, or is kept up to a bound. It ends as all do: by itself, asked, or killed.
 */
import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';

export interface ChildCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

export interface ChildEnd {
  /** `undefined` where a signal ended it. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
  readonly stdout: string;
  /** Its last words; empty where they went to a file. */
  readonly stderr: string;
}

export interface ChildProcess {
  readonly pid: number | undefined;
  /** Rejects when the process could not be started. */
  readonly done: Promise<ChildEnd>;
  /** Asks it to stop in order. */
  stop(): void;
  /** Ends it at once. */
  kill(): void;
}

/** A status document of ten years has a tenth of it; a report page with its pictures a quarter. */
const MAX_STDOUT_BYTES = 8 * 1024 * 1024;
/** One failure as a person reads it. */
const MAX_STDERR_BYTES = 8 * 1024;
/** What an ended process has written is read at once, unless a process of its own still holds its output. */
const LAST_WORDS_MS = 2_000;

/** @param logFile open file that its stderr goes to */
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

/** Reads on to the end, so that the process is never held up, and keeps the first bytes. */
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
