/**
 * Embedded engines in separate processes, as an `EnginePool`. Invariant: an aborted statement has a moment to end by
 * itself; then its process is killed and replaced, so that the pool keeps its size.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TurnLimits } from './fair-slots.ts';
import { EnginePool, type Lanes } from './pool.ts';
import { type WorkerCommand, WorkerProcess } from './worker-process.ts';

/** `size` is the number of processes. Each takes about 200 MB, and more while it works. */
export interface WorkerPoolOptions extends TurnLimits {
  /** How to start one engine process. */
  readonly command: WorkerCommand;
  /** Folder with a subfolder for each process. */
  readonly folder: string;
  /** Maximum size of a result, bytes. */
  readonly maxResultBytes: number;
  /** Whether the folders of the processes are kept after they end. Default: false. */
  readonly keep?: boolean;
  /** Called when a process has ended and will be replaced. */
  readonly onRestart?: () => void;
}

/** Opens the pool; every process has started when it resolves. @throws EngineFault */
export async function openWorkerPool(options: WorkerPoolOptions): Promise<EnginePool> {
  const workers = new Workers(options);
  const pool = new EnginePool(options, workers);
  try {
    await Promise.all(Array.from({ length: options.size }, (_, slot) => workers.open(slot)));
    return pool;
  } catch (error) {
    await pool.close();
    throw error;
  }
}

class Workers implements Lanes {
  readonly #options: WorkerPoolOptions;
  readonly #workers = new Map<number, Promise<WorkerProcess>>();
  #isClosed = false;
  #starts = 0;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  async open(slot: number): Promise<WorkerProcess> {
    const present = this.#workers.get(slot);
    if (present !== undefined && !(await present).hasEnded) return await present;
    const starting = this.#start(slot);
    this.#workers.set(slot, starting);
    // The next task tries again.
    starting.catch(() => this.#workers.delete(slot));
    return await starting;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const close = (worker: WorkerProcess) => worker.close();
    await Promise.allSettled([...this.#workers.values()].map((starting) => starting.then(close)));
    if (!this.#options.keep) await remove(this.#options.folder);
  }

  async #start(slot: number): Promise<WorkerProcess> {
    const { command, folder, keep, maxResultBytes, onRestart } = this.#options;
    this.#starts += 1;
    const path = keep ? join(folder, String(slot)) : join(folder, `${slot}-${this.#starts}`);
    const worker = await WorkerProcess.start(command, { path, maxResultBytes });
    void worker.ended.then(async () => {
      if (!this.#isClosed) onRestart?.();
      if (!keep) await remove(path);
    });
    return worker;
  }
}

/** Removes the files of ended processes. */
async function remove(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}
