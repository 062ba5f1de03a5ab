/**
 * Contract of a backend: where the service's data is, what its readers need to know of it, and what runs its queries.
 * This part differs between the embedded engine, a ClickHouse server, and an archive that the command brings.
 */
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { EngineSettings } from '../engine/literal.ts';
import type { EnginePool, PooledEngine } from '../engine/pool.ts';
import type { Capabilities } from '../engine/server.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';

/**
 * Maximum tasks that wait for an engine. Further calls fail with a `Retry-After`, which is shorter than their wait would
 * be.
 */
export const MAX_WAITING = 64;

/** What the service gives to a backend. */
export interface BackendParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Temporary folder, removed when the service ends. */
  readonly folder: string;
  /** Starts engine processes on this machine, each with its files in a subfolder. The service ends them. */
  startEngines(
    folder: string,
    size: number,
    options?: Pick<WorkerPoolOptions, 'keep' | 'prepare'>,
  ): Promise<EnginePool>;
  /** What must be closed when the service ends, or when the backend cannot be opened; called in reverse order. */
  readonly closers: (() => Promise<void>)[];
}

export interface Backend {
  /** Runs callers' queries and snapshots. */
  readonly pool: EnginePool;
  /** Parses callers' SQL; never runs it. */
  readonly parser: EnginePool;
  /** Database names that a caller's query may not contain. */
  readonly databases: readonly string[];
  /** Number of stored trades, including hidden ones where they can be counted; `null` where they cannot. */
  readonly rows: number | null;
  /** Days back from the present that an active subscription sees; `undefined`: all dates. */
  readonly lookbackDays: number | undefined;
  /**
   * Answers a caller's statement. When it resolves, the query has succeeded; the pieces then are read before the next
   * statement. Absent: `run` does.
   * @param text as the guard admitted it @param run runs it to its end with all that it needs @throws EngineFault
   */
  stream?(engine: PooledEngine, text: string, run: RunStatement): Promise<AsyncIterable<Uint8Array>>;
  /** What option chain and market structure are computed from; `undefined`: they are not served. */
  readonly snapshots: SnapshotDataset | undefined;
  /** Settings of callers' statements besides the limits; `undefined`: those that keep hidden rows hidden. */
  readonly settings?: EngineSettings;
  /** What the engine of `pool` has, if it is another one than the parser's. */
  readonly capabilities?: Capabilities;
}

type RunStatement = () => Promise<AsyncIterable<Uint8Array>>;

/** What the snapshots read. */
export interface SnapshotDataset {
  /** Quoted names; a caller's query may not contain them. */
  readonly tables: { readonly trades: string; readonly chains: string; readonly dates: string };
  /** Delay that `tables.trades` already applies to its trades, milliseconds; 0 for none. */
  readonly delayMs: number;
  /** First visible date, YYYY-MM-DD. */
  readonly earliest: string;
}

/** Runs statements and small queries. */
export type StatementRunner = Pick<PooledEngine, 'command' | 'rows'>;

/** Runs the service's own statements. */
export function runOn(pool: Pick<EnginePool, 'use'>): StatementRunner {
  const request = { owner: 'service', signal: new AbortController().signal };
  return {
    rows: (sql) => pool.use(request, (engine) => engine.rows(sql)),
    command: (sql) => pool.use(request, (engine) => engine.command(sql)),
  };
}

/** Where a loader writes rows. */
export interface LoadTarget {
  readonly engine: StatementRunner;
  /** The statement that inserts the rows of `select`; its columns must be the table's, in the same order. */
  insertSql(select: string): string;
}
