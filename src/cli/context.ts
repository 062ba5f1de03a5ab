/**
 * What the commands receive from outside: the terminal, and what opens everything else. `main.ts` connects the two. Also
 * what several commands check, open and name.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { hostname, userInfo } from 'node:os';
import { pipeline } from 'node:stream/promises';
import { isDate } from '../calendar/wall-clock.ts';
import { hasErrorCode } from '../core/atomic-file.ts';
import { EXIT_CODES, Fault } from '../core/errors.ts';
import type { ChildCommand } from '../daemon/run-process.ts';
import type { Engine } from '../engine/engine.ts';
import type { WorkerCommand } from '../engine/worker-pool.ts';
import type { Job } from '../job/job.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Openers } from '../openers.ts';
import { closeSource, type OpenedSource, openJobSource } from '../run/open-source.ts';
import type { RunEnv } from '../run/run.ts';
import type { StoreUse } from '../store/identity.ts';
import { parseLocation } from '../store/object-key.ts';
import type { CallOf } from './command.ts';
import { type CommandName, ENGINE_WORKER_COMMAND, type GlobalOptions, type TABLE } from './commands.ts';
import type { FailureReport, Style } from './terminal/text.ts';

export interface Terminal {
  /** Results. */
  out(text: string): void;
  /** Progress, messages and errors. */
  err(text: string): void;
  /** Keeps a redrawn line below all other output, log lines included; returns the function that releases it. */
  keepLine(line: () => string): () => void;
  /** For results that are large or binary. */
  readonly stdout: NodeJS.WritableStream;
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
export type SelfCommand = Omit<ChildCommand, 'cwd'>;

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

export type Call<Name extends CommandName> = CallOf<(typeof TABLE)[Name]>;

/** Of lines, those that are no text are left out. */
export type Text = string | readonly (string | false | null)[];

/** What a command receives beside its own argument and options. */
export interface Cli extends CliContext {
  readonly globals: GlobalOptions;
  /** What a run gets: the openers, the signal, the options as they were typed, a progress line on the terminal. */
  readonly env: RunEnv;
  /** Prints the result of a command: its document with `--json`, else its text, and on stderr what is beside it. */
  print(document: unknown, text: Text, beside?: Text): undefined;
  /** A failure as the program itself would end with it. */
  describe(error: unknown): FailureReport;
}

export function usage(message: string, hint?: string, code = 'USAGE'): Fault {
  return new Fault(code, message, { kind: 'usage', hint });
}

/** @throws Fault `DATE_INVALID` */
export function assertDate(option: string, text: string): void {
  if (isDate(text)) return;
  const message = `${option} is ${JSON.stringify(text)}; allowed is an existing date, YYYY-MM-DD`;
  throw usage(message, `Write it like ${option} 2026-11-20.`, 'DATE_INVALID');
}

const WAIT = /^(?:0|(\d+) ?([smh]))$/;
const WAIT_UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };
/** A person who waits at a terminal types the command again; after a nightly run there is none for a day. */
const TERMINAL_PATIENCE_MS = 60_000;

/**
 * How long to retry a mail server, ms: as typed, else as set, else short on a terminal; `undefined`: the default.
 * @throws Fault `WAIT_INVALID`, `SETTING_INVALID` (usage)
 */
export function readPatience({ openers, terminal }: Cli, wait: string | undefined): number | undefined {
  if (wait !== undefined) {
    const [typed, amount = '0', unit = 's'] = WAIT.exec(wait) ?? [];
    if (typed !== undefined) return Number(amount) * (WAIT_UNITS[unit] ?? 1);
    const message = `--wait is ${JSON.stringify(wait)}; allowed is a duration in seconds, minutes or hours, or 0`;
    throw usage(message, 'Write it like --wait 10m.', 'WAIT_INVALID');
  }
  const seconds = openers.readSetting('FLOWDROP_MAIL_RETRY_SECONDS');
  if (seconds !== undefined) return seconds * 1000;
  return terminal.columns.err === undefined ? undefined : TERMINAL_PATIENCE_MS;
}

const DIRECTORY_HINT = 'Run the job first, or check `drop.to` in the job file.';

/**
 * Checks that a store in a directory exists: a wrong path would look like an empty archive.
 * @param to as in a job file; S3 is not checked @throws Fault `STORE_MISSING`, `LOCATION_INVALID` (usage)
 */
export async function assertDirectory(cwd: string, to: string, hint = DIRECTORY_HINT): Promise<void> {
  const location = parseLocation(to, cwd);
  if (location.kind === 's3') return;
  const found = await stat(location.path).catch(() => undefined);
  if (found?.isDirectory()) return;
  throw new Fault('STORE_MISSING', `there is no directory ${location.path}`, { hint });
}

/** Opens the dataset of a job while `act` lasts. @param use default: only to look */
export async function withLedger<T>(
  { openStore }: Pick<Openers, 'openStore'>,
  { drop }: Job,
  act: (ledger: Ledger) => Promise<T>,
  use?: StoreUse,
): Promise<T> {
  const store = await openStore(drop.to, { objects: drop.s3, use });
  try {
    return await act(new Ledger(store, drop.dataset));
  } finally {
    await store.close();
  }
}

/** Opens the source of a job while `act` lasts; only errors are logged. @param engine the one that is open, if any */
export async function withSource<T>(
  { openers, signal }: Cli,
  job: Job,
  act: (opened: OpenedSource) => Promise<T>,
  { calendar, engine }: { readonly calendar?: OpenedSource['calendar']; readonly engine?: Engine } = {},
): Promise<T> {
  const log = await openers.openLog({ quiet: true });
  const opened = await openJobSource(openers, job, { log, calendar, signal }, engine);
  try {
    return await act(opened);
  } finally {
    await closeSource(opened);
  }
}

/** Writes a file to stdout. @throws Fault `INTERRUPTED` */
export async function pipeOut({ terminal, signal }: Cli, path: string): Promise<undefined> {
  try {
    await pipeline(createReadStream(path), terminal.stdout, { end: false, signal });
  } catch (error) {
    // A reader that has enough (`| head`) closes the pipe: not a failure, as in every other command.
    if (hasErrorCode(error, 'EPIPE')) return;
    if (!signal.aborted) throw error;
    throw new Fault('INTERRUPTED', 'stopped before all of it was read', {
      kind: 'interrupted',
      hint: 'What is on stdout is incomplete; start the same command again.',
    });
  }
}

/** What a schedule needs that several daemons share. @throws Fault `SETTING_MISSING` */
export function assertShareable({ name, schedule }: Job, hasRedis: boolean): void {
  if (!schedule?.distributed || hasRedis) return;
  throw usage(
    `the job ${name} has \`distributed: true\`, but FLOWDROP_REDIS_URL is not set`,
    'Set it, or FLOWDROP_REDIS_URL_FILE, to the Redis that the daemons share, or remove `schedule.distributed`.',
    'SETTING_MISSING',
  );
}

/** Of several failures: an error that a person must fix outranks one that may pass. */
export function worstOf(exitCodes: readonly number[]): number | undefined {
  return exitCodes.includes(EXIT_CODES.usage) ? EXIT_CODES.usage : exitCodes[0];
}

/** `alice@host`. A container's user may have no name. */
export function nameUser(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}@${hostname()}`;
  }
}

/** An engine process of `serve` or `query`. Callers' SQL runs there, and cannot read variables that are not passed on. */
export function workerCommand({ executable, args, env }: SelfCommand): WorkerCommand {
  return {
    executable,
    args: [...args, ENGINE_WORKER_COMMAND],
    env: Object.fromEntries(['PATH', 'TMPDIR', 'LD_LIBRARY_PATH'].map((name) => [name, env[name]])),
  };
}

/**
 * What to type to start this program, in a suggested next step: in a clone a bare `flowdrop` is not on the PATH. Prose has
 * the plain name. @returns `npx flowdrop` or `flowdrop`
 */
export function nameProgram(env: Readonly<Record<string, string | undefined>>): string {
  // As npm names the scripts of `npx flowdrop` and `npm run demo`.
  return ['npx', 'demo'].includes(env['npm_lifecycle_event'] ?? '') ? 'npx flowdrop' : 'flowdrop';
}
