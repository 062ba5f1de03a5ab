/**
 * What the commands receive from outside: the terminal, and what opens everything else. `main.ts` connects the two.
 */
import type { Openers } from '../openers.ts';
import type { GlobalOptions } from './commands.ts';
import type { Style } from './terminal/color.ts';
import type { FailureReport } from './terminal/failure-text.ts';

export interface Terminal {
  /** Results. */
  out(text: string): void;
  /** Progress, messages and errors. */
  err(text: string): void;
  /** Whether stderr is a terminal that a progress bar can be drawn on. */
  readonly interactive: boolean;
  /** Keeps a redrawn line below all other output, log lines included; returns the function that releases it. */
  keepLine(line: () => string): () => void;
  /** For results that are large or binary. */
  readonly stdout: NodeJS.WritableStream;
  /** Whether stdout is a terminal. */
  readonly outIsTerminal: boolean;
  /** Colors on stdout and stderr, if there are any. */
  readonly style: { readonly out: Style; readonly err: Style };
  /** Current cells per line; `undefined` if there is no terminal. */
  readonly columns: { readonly out: number | undefined; readonly err: number | undefined };
  /** Opened on first use. */
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

/** What `main.ts` gives to the program. */
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

/** What a command receives beside its own argument and options. */
export interface Cli extends CliContext {
  readonly globals: GlobalOptions;
  /** Prints the result of a command: its document with `--json`, else its text, wrapped to the terminal. */
  print(document: unknown, text: string): undefined;
  /** A failure as the program itself would end with it. */
  describe(error: unknown): FailureReport;
}
