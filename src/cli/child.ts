/** This program again: as a child process with its output forwarded line by line, as an engine process, as a person types it. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { ChildCommand } from '../daemon/run-process.ts';
import type { WorkerCommand } from '../engine/worker-pool.ts';
import { ENGINE_WORKER_COMMAND } from './commands.ts';
import type { SelfCommand } from './context.ts';

export interface ChildRun {
  /** Exit code; rejects if the process could not be started. */
  readonly done: Promise<number>;
  /** Asks it to stop cleanly, with SIGTERM. */
  stop(): void;
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
  return { done, stop: () => void child.kill('SIGTERM') };
}

function forwardLines(stream: Readable, onLine: (line: string) => void): void {
  createInterface({ input: stream }).on('line', onLine);
}

/** Environment variables that an engine process needs. */
const WORKER_VARIABLES = ['PATH', 'TMPDIR', 'LD_LIBRARY_PATH'] as const;

/** How to start an engine process of `serve` or `query`. Callers' SQL runs there, and it cannot read variables that are not passed on. */
export function workerCommand({ executable, args, env }: SelfCommand): WorkerCommand {
  return {
    executable,
    args: [...args, ENGINE_WORKER_COMMAND],
    env: Object.fromEntries(WORKER_VARIABLES.map((name) => [name, env[name]])),
  };
}

/** Script names that npm sets for `npx flowdrop` and `npm run demo`. */
const STARTED_BY_NPM: readonly string[] = ['npx', 'demo'];

/**
 * What to type to start this program, in a suggested next step: in a clone a bare `flowdrop` is not on the PATH. Prose has
 * the plain name. @returns `npx flowdrop` or `flowdrop`
 */
export function nameProgram(env: Readonly<Record<string, string | undefined>>): string {
  return STARTED_BY_NPM.includes(env['npm_lifecycle_event'] ?? '') ? 'npx flowdrop' : 'flowdrop';
}
