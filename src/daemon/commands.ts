/**
 * Small commands that the daemon starts as child processes: status, alerts, drops, an archived report, the price of a
 * backfill. Few run at once, each with a time-out, and the queue is bounded. So a hanging store delays only the commands
 * that read it, and a hanging mail server delays only mails.
 */
import type { Readable } from 'node:stream';
import { tryParseJson } from '../core/atomic-file.ts';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import { explainAbort } from '../core/liveness.ts';
import {
  type ChildCommand,
  type ChildEnd,
  readFailure,
  type Stoppable,
  startProcess,
  streamProcess,
} from './run-process.ts';

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

export class Commands {
  readonly #commandOf: (args: readonly string[]) => ChildCommand;
  readonly #clock: Clock;
  readonly #running = new Map<Stoppable, Promise<unknown>>();
  readonly #streaming = new Set<Readable>();
  readonly #reading = { free: MAX_READING, waiting: [] as (() => void)[] };
  readonly #alerting = { free: MAX_ALERTING, waiting: [] as (() => void)[] };
  #isStopping = false;

  /** @param commandOf builds the command that runs this program with the given arguments */
  constructor(commandOf: (args: readonly string[]) => ChildCommand, clock: Clock) {
    this.#commandOf = commandOf;
    this.#clock = clock;
  }

  /**
   * What a command prints with `--json`. It is this program, so what it prints is of the command's own type.
   * @throws Fault, with the command's own code where it said one
   */
  async read<T>(args: Args): Promise<T> {
    const [verb] = args;
    const end = await this.#run(args);
    if (end.code !== 0) throw describeFailure(verb, end);
    const printed = tryParseJson(end.stdout);
    if (printed !== undefined) return printed as T;
    throw new Fault('CHILD_ANSWER_INVALID', `flowdrop ${verb} printed something else than was asked`);
  }

  /**
   * Checks what only the engine can check in a job file; this process has no engine. A check that fails to finish
   * rejects nothing: the run checks again. @throws Fault `JOB_INVALID`
   */
  async checkJob(file: string): Promise<void> {
    const end = await this.#run(['check', file]).catch(() => undefined);
    const checked = tryParseJson(end?.stdout ?? '');
    const refused = Array.isArray(checked) ? checked.find(({ code }) => code === 'JOB_INVALID') : undefined;
    if (refused) throw new Fault('JOB_INVALID', refused.message, { kind: 'usage' });
  }

  /** Its output as it comes; the caller must read it to its end, or destroy it. @throws Fault when too many are read */
  stream(args: Args): Readable {
    if (this.#streaming.size >= MAX_STREAMING) throw new Fault('BUSY', 'other drops are being read; try again later');
    this.#assertGoing();
    const stream = streamProcess(this.#commandOf(['--json', ...args]));
    this.#streaming.add(stream);
    stream.once('close', () => this.#streaming.delete(stream));
    return stream;
  }

  /** Asks running commands to stop, and starts no new ones. */
  stop(): void {
    this.#isStopping = true;
    for (const child of this.#running.keys()) child.stop();
    for (const stream of this.#streaming) stream.destroy();
  }

  kill(): void {
    for (const child of this.#running.keys()) child.kill();
  }

  async untilIdle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  async #run(args: Args): Promise<ChildEnd> {
    const [verb] = args;
    const places = verb === 'alert' ? this.#alerting : this.#reading;
    if (places.free > 0) places.free -= 1;
    else if (places.waiting.length < MAX_WAITING) {
      // Whoever leaves hands its place to the next one.
      await new Promise<void>((resolve) => void places.waiting.push(resolve));
    } else {
      throw new Fault('CHILD_FAILED', `flowdrop ${verb} was not started: ${MAX_WAITING} others are already waiting`);
    }
    const over = new AbortController();
    try {
      this.#assertGoing();
      const child = startProcess(this.#commandOf(['--json', ...args]));
      this.#running.set(child, child.done);
      const timeout = this.#clock.sleep(TIMEOUTS_MS[verb] ?? TIMEOUT_MS, over.signal);
      timeout.then(child.kill, () => undefined); // It ended in time.
      return await child.done.finally(() => this.#running.delete(child));
    } catch (cause) {
      throw new Fault('CHILD_FAILED', `flowdrop ${verb} could not be started: ${describeError(cause)}`, { cause });
    } finally {
      over.abort();
      const next = places.waiting.shift();
      if (next) next();
      else places.free += 1;
    }
  }

  #assertGoing(): void {
    if (this.#isStopping) throw new Fault('INTERRUPTED', 'the daemon is stopping', { kind: 'interrupted' });
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
