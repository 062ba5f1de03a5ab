/**
 * Engines that work in parallel, for the service: many callers, every statement bounded, and any of them can be aborted
 * without harm to the others. What runs the statements is a `Lane` for each slot: a chdb process (`worker-pool.ts`), or
 * a ClickHouse server (`server.ts`). Invariants: statements of a task run one after another, even if it does not
 * await them, none begins after it, and a slot is free only when its lane is idle. A slot has one holder; with more than
 * one slot no owner holds all of them; the queue is bounded.
 */
import { buffer } from 'node:stream/consumers';
import { untilAborted } from '../core/side-by-side.ts';
import { EngineFault, PoolBusyFault } from './engine-fault.ts';

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

export interface TurnLimits {
  /** Tasks that may run concurrently; at least 1. */
  readonly size: number;
  /** Tasks that may wait for an engine; more are refused. */
  readonly maxWaiting: number;
  /** Called with the engine of each task before it. @throws what the task then fails with */
  readonly prepare?: ((engine: PooledEngine) => Promise<void>) | undefined;
}

export interface Lane {
  readonly state: object;
  /** Runs one statement to its end. @param format absent: it returns no rows @param signal the task is over */
  run(sql: string, format: string | undefined, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** After a task. @param idle resolves when its last statement has ended @returns when the lane is free */
  settle(idle: Promise<void>): Promise<void>;
}

export interface Lanes {
  /** The lane of a slot; one that has died is replaced. @throws EngineFault */
  open(slot: number): Promise<Lane>;
  /** All tasks are over. */
  close(): Promise<void>;
}

interface Waiter {
  readonly owner: string;
  give(slot: number): void;
  refuse(reason: unknown): void;
}

export class EnginePool {
  /** Engines that can work concurrently. */
  readonly size: number;
  readonly #limits: TurnLimits;
  readonly #lanes: Lanes;
  /** By slot: its owner. */
  readonly #holders: (string | undefined)[];
  #queue: Waiter[] = [];
  /** Running tasks, by what aborts each. */
  readonly #running = new Map<AbortController, Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(limits: TurnLimits, lanes: Lanes) {
    this.size = limits.size;
    this.#limits = limits;
    this.#lanes = lanes;
    this.#holders = Array.from({ length: limits.size }, () => undefined);
  }

  get running(): number {
    return this.#holders.filter((owner) => owner !== undefined).length;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Runs `task` with an engine of its own; waits for a free one.
   * @throws PoolBusyFault if too many wait already, EngineFault if the engine dies, the signal's reason if aborted
   */
  async use<T>({ owner, signal }: PoolRequest, task: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const slot = await this.#takeSlot(owner, signal);
    const over = new AbortController();
    const abort = () => over.abort(signal.reason);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    const running = this.#run(slot, task, over.signal).finally(() => {
      signal.removeEventListener('abort', abort);
      this.#running.delete(over);
      this.#holders[slot] = undefined;
      this.#giveOut();
    });
    this.#running.set(over, running);
    // An aborting caller need not wait until the lane is idle; the slot does.
    return await untilAborted(running, over.signal);
  }

  /** Ends running tasks and releases everything. Idempotent. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  async #close(): Promise<void> {
    for (const waiter of this.#queue.splice(0)) waiter.refuse(createClosed());
    for (const over of this.#running.keys()) over.abort(createClosed());
    await Promise.allSettled(this.#running.values());
    await this.#lanes.close();
  }

  async #run<T>(slot: number, act: (engine: PooledEngine) => Promise<T>, signal: AbortSignal): Promise<T> {
    const lane = await this.#lanes.open(slot);
    const { engine, end } = beginTask(lane);
    const task = async () => {
      await this.#limits.prepare?.(engine);
      return await act(engine);
    };
    try {
      return await untilAborted(task(), signal);
    } finally {
      await lane.settle(end());
      // At once, so that the next task need not wait for it; that task reports a failed start.
      if (this.#closing === undefined) await this.#lanes.open(slot).catch(() => {});
    }
  }

  /** The owner with the fewest slots goes first, then the earliest arrival. */
  async #takeSlot(owner: string, signal: AbortSignal): Promise<number> {
    signal.throwIfAborted();
    if (this.#closing !== undefined) throw createClosed();
    const over = new AbortController();
    const taking = new Promise<number>((give, refuse) => {
      const waiter = { owner, give, refuse };
      const leave = () => {
        if (this.#leave(waiter)) refuse(signal.reason);
      };
      signal.addEventListener('abort', leave, { signal: over.signal });
      this.#queue.push(waiter);
      this.#giveOut();
      if (this.#queue.length > this.#limits.maxWaiting) this.#refuseOne();
    });
    return await taking.finally(() => over.abort());
  }

  /** Whether the waiter was still in the queue. */
  #leave(waiter: Waiter): boolean {
    const isThere = this.#queue.includes(waiter);
    this.#queue = this.#queue.filter((one) => one !== waiter);
    return isThere;
  }

  #giveOut(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      // Lowest first: an idle engine that was used before is warm.
      const slot = this.#holders.indexOf(undefined);
      if (slot === -1) return;
      this.#holders[slot] = next.owner;
      this.#leave(next);
      next.give(slot);
    }
  }

  #next(): Waiter | undefined {
    let best: Waiter | undefined;
    // No owner has all of several slots.
    let fewest = Math.max(1, this.size - 1);
    for (const waiter of this.#queue) {
      const held = this.#holders.filter((owner) => owner === waiter.owner).length;
      if (held >= fewest) continue;
      best = waiter;
      fewest = held;
    }
    return best;
  }

  /**
   * Refuses the newest waiter of the owner with the most waiters: usually the one that just came. Otherwise one caller
   * with many requests would fill the queue, and all others would be refused.
   */
  #refuseOne(): void {
    const countOf = (owner: string) => this.#queue.filter((waiter) => waiter.owner === owner).length;
    const most = Math.max(...this.#queue.map(({ owner }) => countOf(owner)));
    const refused = this.#queue.findLast(({ owner }) => countOf(owner) === most);
    if (refused && this.#leave(refused)) refused.refuse(new PoolBusyFault(this.#queue.length));
  }
}

function createClosed(): EngineFault {
  return new EngineFault(0, 'the engines are closed');
}

/** The engine of a task, and what ends it: no statement begins afterwards, and it resolves when the running one has ended. */
function beginTask(lane: Lane) {
  const over = new AbortController();
  /** Resolves when all statements so far have ended. */
  let last: Promise<unknown> = Promise.resolve();
  const run = async <T>(sql: string, format: string | undefined, read: (result: AsyncIterable<Uint8Array>) => T) => {
    const turn = last.then(async () => {
      over.signal.throwIfAborted();
      return await read(await lane.run(sql, format, over.signal));
    });
    last = turn.catch(() => {});
    return await turn;
  };
  const engine: PooledEngine = {
    state: lane.state,
    async rows<Row extends object>(sql: string) {
      const bytes = await run(sql, 'JSON', buffer);
      return (JSON.parse(bytes.toString('utf8')) as { data: Row[] }).data; // Shape of the format; Row is the caller's.
    },
    async command(sql) {
      await run(sql, undefined, buffer);
    },
    stream: async (sql, format) => await run(sql, format, (result) => result),
  };
  const end = async () => {
    over.abort(new EngineFault(0, 'the task of this engine is over'));
    await last;
  };
  return { engine, end };
}
