/**
 * Embedded engines in separate processes, as an `EnginePool`. Invariant: an aborted statement has a moment to end by
 * itself; then its process is killed and replaced, so that the pool keeps its size.
 */
import { join } from 'node:path';
import { systemClock } from '../core/clock.ts';
import { FairSlots } from './fair-slots.ts';
import type { EnginePool, PooledEngine, PoolRequest } from './pool.ts';
import { removeWorkerFolder, type WorkerCommand, WorkerProcess } from './worker-process.ts';
import { WorkerTask } from './worker-task.ts';

export interface WorkerPoolOptions {
  /** How to start one engine process. */
  readonly command: WorkerCommand;
  /** Folder with a subfolder for each process. */
  readonly folder: string;
  /** Number of processes, and so of concurrent statements. Each takes about 200 MB, and more while it works. */
  readonly size: number;
  /** Maximum tasks that may wait for an engine. */
  readonly maxWaiting: number;
  /** Maximum size of a result, bytes. */
  readonly maxResultBytes: number;
  /** Whether the folders of the processes are kept after they end. Default: false. */
  readonly keep?: boolean;
  /** Called when a process has ended and will be replaced. */
  readonly onRestart?: () => void;
}

/** Most statements end within this time after an abort; killing one would cost a new process, about 0.4 s. */
const GRACE_MS = 1_000;

/** Opens the pool; every process has started when it resolves. @throws EngineFault */
export async function openWorkerPool(options: WorkerPoolOptions): Promise<EnginePool> {
  const pool = new WorkerPool(options);
  try {
    await pool.start();
    return pool;
  } catch (error) {
    await pool.close();
    throw error;
  }
}

class WorkerPool implements EnginePool {
  readonly size: number;
  readonly #options: WorkerPoolOptions;
  readonly #turns: FairSlots;
  readonly #workers: (Promise<WorkerProcess> | undefined)[] = [];
  /** Ends of tasks, including those that no caller waits for. */
  readonly #running = new Set<Promise<void>>();
  #isClosed = false;
  #starts = 0;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.size = options.size;
    this.#turns = new FairSlots({ size: options.size, maxWaiting: options.maxWaiting });
  }

  get running(): number {
    return this.#turns.running;
  }

  get waiting(): number {
    return this.#turns.waiting;
  }

  async start(): Promise<void> {
    await Promise.all(Array.from({ length: this.size }, (_, slot) => this.#worker(slot)));
  }

  async use<T>({ owner, signal }: PoolRequest, act: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const turn = await this.#turns.take(owner, signal);
    const opening = this.#worker(turn.slot).then((worker) => ({ worker, task: new WorkerTask(worker) }));
    const result = opening.then(({ task }) => act(task));
    const settled = this.#settle(turn.slot, opening, result, signal).finally(() => turn.release());
    this.#running.add(settled);
    void settled.finally(() => this.#running.delete(settled));
    return await Promise.race([result, rejectOnAbort(signal, settled)]);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#turns.close();
    const workers = await Promise.allSettled(this.#workers);
    const open = workers.flatMap((worker) => (worker.status === 'fulfilled' && worker.value ? [worker.value] : []));
    // Idle processes close gracefully; if any task still runs, all are killed.
    const isIdle = this.#running.size === 0;
    await Promise.all(open.map((worker) => (isIdle ? worker.close() : worker.kill())));
    await Promise.allSettled(this.#running);
    if (!this.#options.keep) await removeWorkerFolder(this.#options.folder);
  }

  /** Waits until the process is idle again; after an abort, only for a moment. Replaces a process that is gone. */
  async #settle(
    slot: number,
    opening: Promise<{ readonly worker: WorkerProcess; readonly task: WorkerTask }>,
    result: Promise<unknown>,
    signal: AbortSignal,
  ): Promise<void> {
    const opened = await opening.catch(() => undefined);
    if (!opened) return; // The slot is empty again; the next task tries to fill it.
    const { worker, task } = opened;
    const over = new AbortController();
    const aborted = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      // A signal may outlive many tasks.
      signal.addEventListener('abort', () => resolve(), { once: true, signal: over.signal });
    });
    await Promise.race([result.then(ignore, ignore), aborted, worker.ended]);
    const idle = task.end().catch(ignore);
    if (await isGivenUp(idle, aborted)) await worker.kill();
    over.abort();
    if (!worker.hasEnded || this.#isClosed) return;
    this.#workers[slot] = undefined;
    // Start at once, so that the next task need not wait; that task reports a failed start.
    await this.#worker(slot).then(ignore, ignore);
  }

  #worker(slot: number): Promise<WorkerProcess> {
    const present = this.#workers[slot];
    if (present) return present;
    const { command, folder, keep, maxResultBytes } = this.#options;
    this.#starts += 1;
    const path = keep ? join(folder, String(slot)) : join(folder, `${slot}-${this.#starts}`);
    const started = WorkerProcess.start(command, { path, maxResultBytes });
    this.#workers[slot] = started;
    const drop = () => {
      if (this.#workers[slot] === started) this.#workers[slot] = undefined;
    };
    void started.then(async (worker) => {
      await worker.ended;
      if (!this.#isClosed) this.#options.onRestart?.();
      if (!keep) await removeWorkerFolder(path);
      drop();
    }, drop);
    return started;
  }
}

/** Whether the process was still busy at the end of the grace time after an abort. */
async function isGivenUp(idle: Promise<void>, aborted: Promise<void>): Promise<boolean> {
  const over = new AbortController();
  const inTime = idle.then(() => {
    over.abort();
    return false;
  });
  const late = aborted
    .then(() => systemClock.sleep(GRACE_MS, over.signal))
    .then(
      () => true,
      () => false, // The sleep is aborted only when the process is idle.
    );
  return await Promise.race([inTime, late]);
}

/** Rejects with the signal's reason; never settles once the task has ended. */
async function rejectOnAbort(signal: AbortSignal, settled: Promise<void>): Promise<never> {
  return await new Promise<never>((_resolve, reject) => {
    const give = () => reject(signal.reason);
    if (signal.aborted) give();
    signal.addEventListener('abort', give, { once: true });
    void settled.then(() => signal.removeEventListener('abort', give));
  });
}

function ignore(): void {}
