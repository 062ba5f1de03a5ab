/** The data behind the service, wherever it is stored: what its readers need to know. Types only. */
import type { EngineSettings } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';

/** Runs statements and small queries. */
export type StatementRunner = Pick<PooledEngine, 'command' | 'rows'>;

/** Where a loader writes rows. */
export interface LoadTarget {
  readonly engine: StatementRunner;
  /** Quoted name of a table that the loader may create and drop. */
  readonly scratch: string;
  /** The statement that inserts the rows of `select`; its columns must be the table's, in the same order. */
  insertSql(select: string): string;
}

export interface DatasetTables {
  /** Quoted names; a caller's query may not contain them. */
  readonly trades: string;
  readonly chains: string;
  readonly dates: string;
}

/** A caller's statement as the guard admitted it, and what it must run with. */
export interface AdmittedStatement {
  readonly text: string;
  readonly settings: EngineSettings;
  /** ClickHouse's name of the format of its rows. */
  readonly format: string;
}

/** What historical SQL reads. */
export interface Dataset {
  /** Database names that a caller's query may not contain. */
  readonly databases: readonly string[];
  /** Number of stored trades, including hidden ones where they can be counted; `null` where they cannot. */
  readonly rows: number | null;
  /** Days back from the present that an active subscription sees; `undefined`: all dates. */
  readonly lookbackDays: number | undefined;
  /**
   * Runs a statement to its end over the visible rows. When it resolves, the query has succeeded; the pieces then are
   * read before the next statement. @throws EngineFault
   */
  stream(engine: PooledEngine, statement: AdmittedStatement): Promise<AsyncIterable<Uint8Array>>;
}

/** What the snapshots read. */
export interface SnapshotDataset {
  readonly tables: DatasetTables;
  /** Delay that `tables.trades` already applies to its trades, milliseconds; 0 for none. */
  readonly delayMs: number;
  /** First visible date, YYYY-MM-DD. */
  readonly earliest: string;
  /**
   * Prepares an engine: tables, views, and the bounds of the views at the service's present time.
   * @throws EngineFault
   */
  prepare(engine: PooledEngine): Promise<void>;
}
