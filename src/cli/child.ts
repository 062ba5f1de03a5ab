/** A command as a child process: this program again, with its output forwarded line by line. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { ChildCommand } from '../daemon/run-process.ts';

export interface ChildRun {
  /** Exit code; rejects if the process could not be started. */
  readonly done: Promise<number>;
  /** Asks it to stop cleanly, with SIGTERM. */
  stop(): void;
  /** Ends it at once, with SIGKILL. */
  kill(): void;
}

/** Exit code of a child that a signal ended, as in shells: this plus the signal's number. */
const SIGNALLED = 128;

interface ChildOutput {
  /** A line of its standard output, which carries results. */
  readonly onOut: (line: string) => void;
  /**
   * A line of its standard error, which carries logs; without it the child uses this process's stderr, as on a
   * terminal.
   */
  readonly onErr?: ((line: string) => void) | undefined;
}

export function startChild(command: ChildCommand, output: ChildOutput): ChildRun {
  const child = spawn(command.executable, command.args, {
    cwd: command.cwd,
    env: { ...command.env },
    stdio: ['ignore', 'pipe', output.onErr ? 'pipe' : 'inherit'],
  });
  if (child.stdout) forwardLines(child.stdout, output.onOut);
  if (child.stderr && output.onErr) forwardLines(child.stderr, output.onErr);
  const done = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) =>
      resolve(code ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal])),
    );
  });
  return { done, stop: () => void child.kill('SIGTERM'), kill: () => void child.kill('SIGKILL') };
}

function forwardLines(stream: Readable, onLine: (line: string) => void): void {
  createInterface({ input: stream }).on('line', onLine);
}
