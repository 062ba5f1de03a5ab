/**
 * What the commands receive from outside: the terminal, and what opens everything else. `main.ts` connects the two.
 */
import type { Openers } from '../openers.ts';
import type { DrawnLine } from './terminal/drawn-line.ts';

export interface Terminal {
  /** Results. */
  out(text: string): void;
  /** Progress, messages and errors. */
  err(text: string): void;
  /** Whether stderr is a terminal that a progress bar can be drawn on. */
  readonly interactive: boolean;
  readonly stderr: NodeJS.WritableStream;
  /** Keeps a redrawn line below all other output, log lines included; returns the function that releases it. */
  keepLine(line: DrawnLine): () => void;
  /** For results that are large or binary. */
  readonly stdout: NodeJS.WritableStream;
  /** Whether stdout is a terminal. */
  readonly outIsTerminal: boolean;
  /** Whether output to stdout and stderr may have colors. */
  readonly colors: { readonly out: boolean; readonly err: boolean };
  /** Current cells per line; `undefined` if there is no terminal. */
  readonly columns: { readonly out: number | undefined; readonly err: number | undefined };
  /** All of stdin. */
  readIn(): Promise<string>;
  /** For answers; a caller that reads it must not call `readIn`. */
  readonly stdin: NodeJS.ReadableStream;
  /** Whether stdin is a terminal, so that a person can be asked. */
  readonly inIsTerminal: boolean;
}

/** How to start this program again as a child process. */
export interface SelfCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Everything that a command may use; each command names the parts that it uses. */
export interface CliContext {
  readonly openers: Openers;
  /** Masks every known secret in the output. */
  readonly terminal: Terminal;
  readonly self: SelfCommand;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Calls the listener at each SIGHUP from now on; without a listener, SIGHUP ends the process as usual. */
  onHangup(listener: () => void): void;
  /** Working directory: jobs, outputs and state are relative to it. */
  readonly cwd: string;
}

/** Options of every command. */
export interface GlobalOptions {
  readonly json?: boolean;
  readonly jobs: string;
  readonly debug?: boolean;
}
