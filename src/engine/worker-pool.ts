/**
 * Embedded engines in separate processes, as an `EnginePool`. Messages go over Node's channel between parent and child,
 * one answer for each request, in order. Invariants: a statement ends with its result, its error, or the process, and a
 * killed process never answers again; an aborted statement has a moment to end by itself, then its process is killed
 * and replaced, so that the pool keeps its size.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../core/atomic-file.ts';
import { systemClock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { EngineFault } from './engine-fault.ts';
import { EnginePool, type Lane, type TurnLimits } from './pool.ts';
import type { WorkerAnswer, WorkerPiece, WorkerRequest, WorkerStart } from './worker.ts';

/** How to start an engine process. */
export interface WorkerCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** `size` is the number of processes. Each takes about 200 MB, and more while it works. */
export interface WorkerPoolOptions extends TurnLimits {
  readonly command: WorkerCommand;
  readonly folder: string;
  /** Maximum size of a result, bytes. */
  readonly maxResultBytes: number;
  /** Whether the folders of the processes are kept after they end. Default: false. */
  readonly keep?: boolean;
  /** Called when a process has ended and will be replaced. */
  readonly onRestart?: () => void;
}

/** Size of the end of the process's stderr that is kept for the message when it dies. */
const LAST_WORDS_BYTES = 2_048;
/** Opening takes a fraction of a second, on a busy machine a few seconds. */
const START_TIMEOUT_MS = 60_000;
/** Most statements end within this time after an abort; killing one would cost a new process, about 0.4 s. */
const GRACE_MS = 1_000;

/** Opens the pool; every process has started when it resolves. @throws EngineFault */
export async function openWorkerPool(options: WorkerPoolOptions): Promise<EnginePool> {
  const { command, folder, keep, maxResultBytes, onRestart } = options;
  const workers = new Map<number, Promise<WorkerProcess>>();
  let isClosed = false;
  let starts = 0;
  const open = async (slot: number): Promise<WorkerProcess> => {
    const present = workers.get(slot);
    if (present !== undefined && !(await present).hasEnded) return await present;
    const starting = start(slot);
    workers.set(slot, starting);
    // The next task tries again.
    starting.catch(() => workers.delete(slot));
    return await starting;
  };
  /** @throws the engine's Fault if it does not open, such as `ENGINE_BUSY` */
  const start = async (slot: number): Promise<WorkerProcess> => {
    starts += 1;
    const path = join(folder, keep ? String(slot) : `${slot}-${starts}`);
    await makeFolder(path);
    const worker = new WorkerProcess(command, path);
    // A process that hangs while it opens would block its slot forever.
    const opening = new AbortController();
    systemClock.sleep(START_TIMEOUT_MS, opening.signal).then(
      () => worker.kill(),
      () => {}, // It has opened, or failed to.
    );
    try {
      await worker.ask({ path, maxResultBytes });
    } catch (error) {
      await worker.kill();
      throw error;
    } finally {
      opening.abort();
    }
    void worker.ended.then(async () => {
      if (!isClosed) onRestart?.();
      if (!keep) await remove(path);
    });
    return worker;
  };
  const close = async (): Promise<void> => {
    isClosed = true;
    await Promise.allSettled([...workers.values()].map(async (starting) => await (await starting).close()));
    if (!keep) await remove(folder);
  };
  const pool = new EnginePool(options, { open, close });
  try {
    await Promise.all(Array.from({ length: options.size }, (_, slot) => open(slot)));
    return pool;
  } catch (error) {
    await pool.close();
    throw error;
  }
}

async function remove(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}

class WorkerProcess implements Lane {
  readonly state = this;
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  hasEnded = false;
  readonly #child: ChildProcess;
  /** Those who wait for an answer, in the order of their requests. */
  readonly #asked: ((answer: WorkerAnswer | undefined) => void)[] = [];
  #lastWords = '';
  #results = 0;

  constructor({ executable, args, env }: WorkerCommand, path: string) {
    const child = spawn(executable, args, {
      // A separate folder: the program reads a settings file from its working directory.
      cwd: path,
      env: { ...env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
    });
    this.#child = child;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-LAST_WORDS_BYTES);
    });
    child.on('message', (answer) => this.#asked.shift()?.(answer as WorkerAnswer));
    this.ended = new Promise((resolve) => {
      const end = () => {
        this.hasEnded = true;
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

  async run(sql: string, format = 'Null', over: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    this.#results += 1;
    const result = this.#results;
    return this.#read(result, await this.ask({ sql, format, result }), over);
  }

  /** The next statement discards what was not read. */
  async *#read(result: number, first: WorkerPiece, over: AbortSignal): AsyncGenerator<Uint8Array> {
    let { piece, left } = first;
    if (piece.length > 0) yield piece;
    while (left > 0) {
      over.throwIfAborted();
      ({ piece, left } = await this.ask({ result }));
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

  async ask(request: WorkerRequest | WorkerStart): Promise<WorkerPiece> {
    const answer = await new Promise<WorkerAnswer | undefined>((resolve) => {
      if (this.hasEnded) return resolve(undefined);
      this.#asked.push(resolve);
      this.#child.send(request, () => {}); // The process has ended; `ended` reports it.
    });
    if (answer === undefined) {
      throw new EngineFault(0, `the engine process ended: ${this.#lastWords.trim() || 'without output'}`);
    }
    if (!('error' in answer)) return answer;
    const { clickhouseCode, error, fault } = answer;
    throw fault ? new Fault(fault.code, error, fault) : new EngineFault(clickhouseCode, error);
  }
}
