/**
 * The contract of engines that answer side by side, for the service: many callers, each statement bounded, any of them
 * given up without harm to the others. Implementations: `worker-pool.ts` (chdb in processes of its own) and
 * `server-pool.ts` (a ClickHouse server over HTTP).
 */

/** One engine for the length of a task, and of no use after it; statements run one after another. */
export interface PooledEngine {
  /** Stands for the databases and views of this engine: the same object as long as they are the same. */
  readonly state: object;
  /** Runs one query and returns its rows as objects. 64-bit integers come as numbers. @throws EngineFault */
  rows<Row extends object>(sql: string): Promise<readonly Row[]>;
  /** Runs one statement that returns no rows. @throws EngineFault */
  command(sql: string): Promise<void>;
  /**
   * Runs one query to its end and gives its result in `format`, in pieces as they arrive. When it resolves, the query has
   * succeeded. Leaving the iteration early gives the rest up. @throws EngineFault
   */
  stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>>;
}

export interface PoolRequest {
  /** Who asks: one owner never holds every engine, so that a slow query does not keep others out. */
  readonly owner: string;
  /**
   * Gives the task up: `use` rejects at once. A statement that runs is stopped, or its process killed after a moment, and
   * the engine is free for the next task only then.
   */
  readonly signal: AbortSignal;
}

export interface EnginePool {
  readonly kind: 'embedded' | 'server';
  /** Engines that can work at the same time. */
  readonly size: number;
  /** Engines that are taken. */
  readonly running: number;
  /** Tasks that wait for an engine. */
  readonly waiting: number;
  /**
   * Runs `task` with an engine of its own, waiting for a free one.
   * @throws PoolBusyFault when too many wait already, EngineFault when the engine dies, the signal's reason when aborted
   */
  use<T>(request: PoolRequest, task: (engine: PooledEngine) => Promise<T>): Promise<T>;
  /** Ends what runs and releases everything. Idempotent. */
  close(): Promise<void>;
}
