/**
 * The contract of engines that work in parallel, for the service: many callers, every statement bounded, and any of
 * them can be aborted without harm to the others. Implementations: `worker-pool.ts` (chdb in separate processes) and
 * `server-pool.ts` (a ClickHouse server over HTTP).
 */

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

export interface EnginePool {
  /** Engines that can work concurrently. */
  readonly size: number;
  /** Engines in use. */
  readonly running: number;
  /** Tasks that wait for an engine. */
  readonly waiting: number;
  /**
   * Runs `task` with an engine of its own; waits for a free one.
   * @throws PoolBusyFault if too many wait already, EngineFault if the engine dies, the signal's reason if aborted
   */
  use<T>(request: PoolRequest, task: (engine: PooledEngine) => Promise<T>): Promise<T>;
  /** Ends running tasks and releases everything. Idempotent. */
  close(): Promise<void>;
}
