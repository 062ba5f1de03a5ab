/**
 * The service's side of one engine process. Messages go over Node's channel between parent and child, one answer for
 * each request, in order. Invariant: a statement ends with its result, its error, or the process; there is no fourth
 * outcome, and a killed process never answers again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { makeFolder } from '../core/atomic-file.ts';
import { systemClock } from '../core/clock.ts';
import { type FailureKind, Fault } from '../core/errors.ts';
import { EngineFault } from './engine-fault.ts';
import type { Lane } from './pool.ts';

/** How to start an engine process. */
export interface WorkerCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The first message to a new process. */
export interface WorkerOptions {
  /** Folder of the engine's data; only this process uses it. */
  readonly path: string;
  /** Maximum size of a result, bytes; a longer one is refused with the code of TOO_MANY_ROWS_OR_BYTES. */
  readonly maxResultBytes: number;
}

/** A statement and the number of its result; or the next piece of a result. */
export type WorkerRequest =
  | { readonly sql: string; readonly format: string; readonly result: number }
  | { readonly result: number };

export interface WorkerPiece {
  readonly piece: Uint8Array;
  /** Bytes of the result after it. */
  readonly left: number;
}

export interface WorkerFailure {
  /** ClickHouse's error number. */
  readonly code: number;
  readonly error: string;
  /** Set if the fault is not from a statement: the engine did not open. */
  readonly fault?: { readonly code: string; readonly kind: FailureKind; readonly hint: string | undefined };
}

type WorkerAnswer = WorkerPiece | WorkerFailure;

/** Size of the end of the process's stderr that is kept for the message when it dies. */
const LAST_WORDS_BYTES = 2_048;
/** Opening takes a fraction of a second, on a busy machine a few seconds. */
const START_TIMEOUT_MS = 60_000;
/** Most statements end within this time after an abort; killing one would cost a new process, about 0.4 s. */
const GRACE_MS = 1_000;

export class WorkerProcess implements Lane {
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  /** Those who wait for an answer, in the order of their requests. */
  readonly #asked: ((answer: WorkerAnswer | undefined) => void)[] = [];
  #lastWords = '';
  #hasEnded = false;
  #results = 0;

  /** @throws the engine's Fault if it does not open, such as `ENGINE_BUSY` */
  static async start(command: WorkerCommand, options: WorkerOptions): Promise<WorkerProcess> {
    await makeFolder(options.path);
    const child = spawn(command.executable, command.args, {
      // A separate folder: the program reads a settings file from its working directory.
      cwd: options.path,
      env: { ...command.env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
    });
    // A process that hangs while it opens would block its slot forever.
    const opening = new AbortController();
    systemClock.sleep(START_TIMEOUT_MS, opening.signal).then(
      () => child.kill('SIGKILL'),
      () => {}, // It has opened, or failed to.
    );
    const worker = new WorkerProcess(child);
    try {
      await worker.#ask(options);
      return worker;
    } catch (error) {
      await worker.kill();
      throw error;
    } finally {
      opening.abort();
    }
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-LAST_WORDS_BYTES);
    });
    child.on('message', (answer) => this.#asked.shift()?.(answer as WorkerAnswer));
    this.ended = new Promise((resolve) => {
      const end = () => {
        this.#hasEnded = true;
        for (const answer of this.#asked.splice(0)) answer(undefined);
        resolve();
      };
      // Its last words and answers have arrived by then.
      child.once('close', end);
      child.once('error', (error) => {
        this.#lastWords = error.message;
        end();
      });
    });
  }

  get state(): object {
    return this;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  async run(sql: string, format = 'Null', over: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    this.#results += 1;
    const result = this.#results;
    return this.#read(result, await this.#ask({ sql, format, result }), over);
  }

  /** The next statement discards what was not read. */
  async *#read(result: number, first: WorkerPiece, over: AbortSignal): AsyncGenerator<Uint8Array> {
    let { piece, left } = first;
    if (piece.length > 0) yield piece;
    while (left > 0) {
      over.throwIfAborted();
      ({ piece, left } = await this.#ask({ result }));
      yield piece;
    }
  }

  /** A process that is still busy after a moment is killed. */
  async settle(idle: Promise<void>): Promise<void> {
    const over = new AbortController();
    const kill = () => this.kill();
    const killing = systemClock.sleep(GRACE_MS, over.signal).then(kill, () => {}); // It is idle.
    await Promise.race([idle, killing]);
    over.abort();
  }

  /** Lets the process close its engine and end. */
  async close(): Promise<void> {
    // Not `disconnect`, after which Node may never tell that the process has ended.
    this.#child.send('close', () => {});
    await this.ended;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }

  async #ask(request: WorkerRequest | WorkerOptions): Promise<WorkerPiece> {
    const answer = await new Promise<WorkerAnswer | undefined>((resolve) => {
      if (this.#hasEnded) return resolve(undefined);
      this.#asked.push(resolve);
      this.#child.send(request, () => {}); // The process has ended; `ended` reports it.
    });
    if (answer === undefined) {
      throw new EngineFault(0, `the engine process ended: ${this.#lastWords.trim() || 'without output'}`);
    }
    if (!('error' in answer)) return answer;
    const { code, error, fault } = answer;
    throw fault ? new Fault(fault.code, error, { kind: fault.kind, hint: fault.hint }) : new EngineFault(code, error);
  }
}
