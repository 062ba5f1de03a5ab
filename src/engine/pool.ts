/**
 * Engines that work in parallel, for the service: many callers, every statement bounded, and any of them can be aborted
 * without harm to the others. What runs the statements is a `Lane` for each slot: a chdb process (`worker-pool.ts`), or
 * a ClickHouse server (`server-pool.ts`). Invariant: statements of a task run one after another, even if it does not
 * await them, none begins after it, and a slot is free only when its lane is idle.
 */
import { EngineFault } from './engine-fault.ts';
import { FairSlots, type TurnLimits } from './fair-slots.ts';

/** One engine for the duration of a task, unusable afterwards; statements run one after another. */
export interface PooledEngine {
  /** Identifies the databases and views of this engine: the same object as long as they are unchanged. */
  readonly state: object;
  /** Runs one query and returns its rows as objects. 64-bit integers become numbers. @throws EngineFault */
  rows<Row extends object>(sql: string): Promise<readonly Row[]>;
  /** Runs one statement that returns no rows. @throws EngineFault */
  command(sql: string): Promise<void>;
  /**
   * Runs one query to its end and returns its result in `format`, in pieces as they arrive. When it resolves, the query
   * has succeeded. Leaving the iteration early discards the rest. @throws EngineFault
   */
  stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>>;
}

export interface PoolRequest {
  /** The caller: one owner never holds every engine, so that a slow query does not block others. */
  readonly owner: string;
  /**
   * Aborts the task: `use` rejects at once. A running statement is stopped, or its process is killed after a moment,
   * and only then is the engine free for the next task.
   */
  readonly signal: AbortSignal;
}

/** Runs the statements of one slot. */
export interface Lane {
  readonly state: object;
  /** Runs one statement to its end. @param format absent: it returns no rows @param signal the task is over */
  run(sql: string, format: string | undefined, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** After a task. @param idle resolves when its last statement has ended @returns when the lane is free */
  settle(idle: Promise<void>): Promise<void>;
}

/** The lanes of a pool. */
export interface Lanes {
  /** The lane of a slot; one that has died is replaced. @throws EngineFault */
  open(slot: number): Promise<Lane>;
  /** All tasks are over. */
  close(): Promise<void>;
}

export class EnginePool {
  /** Engines that can work concurrently. */
  readonly size: number;
  readonly #lanes: Lanes;
  readonly #slots: FairSlots;
  /** Running tasks, by what aborts each. */
  readonly #running = new Map<AbortController, Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(limits: TurnLimits, lanes: Lanes) {
    this.size = limits.size;
    this.#lanes = lanes;
    this.#slots = new FairSlots(limits);
  }

  /** Engines in use. */
  get running(): number {
    return this.#slots.running;
  }

  /** Tasks that wait for an engine. */
  get waiting(): number {
    return this.#slots.waiting;
  }

  /**
   * Runs `task` with an engine of its own; waits for a free one.
   * @throws PoolBusyFault if too many wait already, EngineFault if the engine dies, the signal's reason if aborted
   */
  async use<T>({ owner, signal }: PoolRequest, task: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const { slot, release } = await this.#slots.take(owner, signal);
    const over = new AbortController();
    const aborted = new Promise<never>((_resolve, reject) => {
      over.signal.addEventListener('abort', () => reject(over.signal.reason));
    });
    const abort = () => over.abort(signal.reason);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    const running = this.#run(slot, task, aborted).finally(() => {
      signal.removeEventListener('abort', abort);
      this.#running.delete(over);
      release();
    });
    this.#running.set(over, running);
    // An aborting caller need not wait until the lane is idle; the slot does.
    return await Promise.race([running, aborted]);
  }

  /** Ends running tasks and releases everything. Idempotent. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  async #close(): Promise<void> {
    this.#slots.close();
    for (const over of this.#running.keys()) over.abort(new EngineFault(0, 'the engines are closed'));
    await Promise.allSettled(this.#running.values());
    await this.#lanes.close();
  }

  async #run<T>(slot: number, act: (engine: PooledEngine) => Promise<T>, aborted: Promise<never>): Promise<T> {
    const lane = await this.#lanes.open(slot);
    const task = new Task(lane);
    try {
      return await Promise.race([act(task), aborted]);
    } finally {
      await lane.settle(task.end());
      // At once, so that the next task need not wait for it; that task reports a failed start.
      if (this.#closing === undefined) await this.#lanes.open(slot).catch(() => {});
    }
  }
}

class Task implements PooledEngine {
  readonly state: object;
  readonly #lane: Lane;
  readonly #over = new AbortController();
  /** Resolves when all statements so far have ended. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(lane: Lane) {
    this.state = lane.state;
    this.#lane = lane;
  }

  async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
    const bytes = await this.#inTurn(async () => await readAll(await this.#start(sql, 'JSON')));
    return (JSON.parse(bytes.toString('utf8')) as { data: Row[] }).data; // Shape of the format; Row is the caller's.
  }

  async command(sql: string): Promise<void> {
    await this.#inTurn(async () => await readAll(await this.#start(sql)));
  }

  async stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>> {
    return await this.#inTurn(() => this.#start(sql, format));
  }

  /** No statement begins afterwards. Resolves when the running one has ended. */
  async end(): Promise<void> {
    this.#over.abort(new EngineFault(0, 'the task of this engine is over'));
    await this.#last;
  }

  async #start(sql: string, format?: string): Promise<AsyncIterable<Uint8Array>> {
    this.#over.signal.throwIfAborted();
    return await this.#lane.run(sql, format, this.#over.signal);
  }

  async #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(act);
    this.#last = turn.catch(() => {});
    return await turn;
  }
}

async function readAll(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const read: Uint8Array[] = [];
  for await (const piece of pieces) read.push(piece);
  return Buffer.concat(read);
}
