/**
 * Child processes that run this program: its output is kept up to a limit, streamed, or, as the log of a run, written to
 * a file that outlives this process. A child ends by itself, when asked to stop, or when killed.
 *
 * Small commands that the daemon starts as child processes: status, alerts, drops, an archived report, the price of a
 * backfill. Few run at once, each with a time-out, and the queue is bounded. So a hanging store delays only the commands
 * that read it, and a hanging mail server delays only mails.
 */
import { spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { PassThrough, type Readable } from 'node:stream';
import { z } from 'zod';
import { tryParseJson } from '../core/atomic-file.ts';
import type { Clock } from '../core/clock.ts';
import { describeError, EXIT_CODES, Fault, isFault } from '../core/errors.ts';
import { explainAbort } from '../core/liveness.ts';
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

export interface ChildProcess {
  stop(): void;
  kill(): void;
  /** Rejects when the process could not be started. */
  readonly done: Promise<ChildEnd>;
  /** Of a run, if it could be opened. */
  readonly logFile?: string | undefined;
}

/** Where its output goes beside what is kept of it. */
interface ChildOutput {
  readonly onOut?: ((line: string) => void) | undefined;
  /** Also an open file, or this process's own stderr, as on a terminal. */
  readonly onErr?: ((line: string) => void) | number | 'inherit' | undefined;
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

export function startProcess(command: ChildCommand, { onOut, onErr }: ChildOutput = {}): ChildProcess {
  const { executable, args, cwd, env } = command;
  const errors = typeof onErr === 'function' ? 'pipe' : (onErr ?? 'pipe');
  const child = spawn(executable, args, { cwd, env: { ...env }, stdio: ['ignore', 'pipe', errors] });
  if (child.stdout && onOut) createInterface({ input: child.stdout }).on('line', onOut);
  if (child.stderr && typeof onErr === 'function') createInterface({ input: child.stderr }).on('line', onErr);
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
    const child = startProcess({ ...command, env: { ...command.env, FLOWDROP_RUN_ID: runId } }, { onErr: file?.fd });
    return { ...child, logFile: file && logFile };
  } finally {
    // The child has its own copy of the handle.
    await file?.close();
  }
}

/** Asks to stop, and kills what has not ended in time. Never rejects. @param over aborted when it has ended */
export async function stopInTime(child: Omit<ChildProcess, 'done'>, clock: Clock, over: AbortSignal): Promise<void> {
  child.stop();
  await clock.sleep(STOP_GRACE_MS, over).then(
    () => child.kill(),
    () => undefined, // It ended in time.
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

/** Each process takes 100 MB or more. Reading commands do not wait for alerts. */
const MAX_READING = 2;
const MAX_ALERTING = 1;
/** Downloads at the same time. */
const MAX_STREAMING = 2;
/** When this many wait, something hangs, and another command would hang too. */
const MAX_WAITING = 100;
/** Reading a store of some thousand dates takes seconds; a mail server may defer an alert. */
const TIMEOUT_MS = 60_000;
const TIMEOUTS_MS: Readonly<Record<string, number>> = { report: 30_000, alert: 300_000 };

type Args = readonly [verb: string, ...string[]];

export type Commands = ReturnType<typeof createCommands>;

/** @param commandOf builds the command that runs this program with the given arguments */
export function createCommands(commandOf: (args: readonly string[]) => ChildCommand, clock: Clock) {
  const running = new Set<ChildProcess>();
  const streaming = new Set<Readable>();
  const reading = { free: MAX_READING, waiting: [] as (() => void)[] };
  const alerting = { free: MAX_ALERTING, waiting: [] as (() => void)[] };
  let isStopping = false;
  return { read, checkJob, stream, stop, kill, untilIdle };

  /**
   * What a command prints with `--json`. It is this program, so what it prints is of the command's own type.
   * @throws Fault, with the command's own code where it said one
   */
  async function read<T>(args: Args): Promise<T> {
    const [verb] = args;
    const end = await run(args);
    // A status that asks for a person is whole.
    const isWhole = end.code === 0 || (verb === 'status' && end.code === EXIT_CODES.incomplete);
    if (!isWhole) throw describeFailure(verb, end);
    const printed = tryParseJson(end.stdout);
    if (printed !== undefined) return printed as T;
    throw new Fault('CHILD_ANSWER_INVALID', `flowdrop ${verb} printed something else than was asked`);
  }

  /**
   * Checks what only the engine can check in a job file; this process has no engine. A check that fails to finish
   * rejects nothing: the run checks again. @throws Fault `JOB_INVALID`
   */
  async function checkJob(file: string): Promise<void> {
    const end = await run(['check', file]).catch(() => undefined);
    const checked = tryParseJson(end?.stdout ?? '');
    const refused = Array.isArray(checked) ? checked.find(({ code }) => code === 'JOB_INVALID') : undefined;
    if (refused) throw new Fault('JOB_INVALID', refused.message, { kind: 'usage' });
  }

  /**
   * Its output as it comes; it fails if the process does. The caller must read it to its end, or destroy it, which ends the
   * process. @throws Fault when too many are read
   */
  function stream(args: Args): Readable {
    if (streaming.size >= MAX_STREAMING) throw new Fault('BUSY', 'other drops are being read; try again later');
    assertGoing();
    const { executable, args: all, cwd, env } = commandOf(['--json', ...args]);
    const child = spawn(executable, all, { cwd, env: { ...env }, stdio: ['ignore', 'pipe', 'ignore'] });
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
    streaming.add(stream);
    stream.once('close', () => streaming.delete(stream));
    return stream;
  }

  /** Asks running commands to stop, and starts no new ones. */
  function stop(): void {
    isStopping = true;
    for (const child of running) child.stop();
    for (const stream of streaming) stream.destroy();
  }

  function kill(): void {
    for (const child of running) child.kill();
  }

  async function untilIdle(): Promise<void> {
    await Promise.allSettled([...running].map(({ done }) => done));
  }

  async function run(args: Args): Promise<ChildEnd> {
    const [verb] = args;
    const places = verb === 'alert' ? alerting : reading;
    if (places.free > 0) places.free -= 1;
    else if (places.waiting.length < MAX_WAITING) {
      // Whoever leaves hands its place to the next one.
      await new Promise<void>((resolve) => void places.waiting.push(resolve));
    } else {
      throw new Fault('CHILD_FAILED', `flowdrop ${verb} was not started: ${MAX_WAITING} others are already waiting`);
    }
    const over = new AbortController();
    try {
      assertGoing();
      const child = startProcess(commandOf(['--json', ...args]));
      running.add(child);
      const timeout = clock.sleep(TIMEOUTS_MS[verb] ?? TIMEOUT_MS, over.signal);
      timeout.then(child.kill, () => undefined); // It ended in time.
      return await child.done.finally(() => running.delete(child));
    } catch (cause) {
      if (isFault(cause)) throw cause;
      throw new Fault('CHILD_FAILED', `flowdrop ${verb} could not be started: ${describeError(cause)}`, { cause });
    } finally {
      over.abort();
      const next = places.waiting.shift();
      if (next) next();
      else places.free += 1;
    }
  }

  function assertGoing(): void {
    if (isStopping) throw new Fault('INTERRUPTED', 'the daemon is stopping', { kind: 'interrupted' });
  }
}

function describeFailure(verb: string, end: ChildEnd): Fault {
  const said = readFailure(end);
  if (said) return new Fault(said.code, said.message);
  const { code, signal, stderr } = end;
  const how = code === undefined ? `was ended by ${signal}` : `ended with exit code ${code}`;
  const words = stderr.trim();
  const hint = explainAbort({ code, signal });
  // In the message, because the daemon's log and page show only that.
  const message = `flowdrop ${verb} ${how}${words === '' ? '' : `: ${words}`}`;
  return new Fault('CHILD_FAILED', hint === '' ? message : `${message}. ${hint}`);
}
