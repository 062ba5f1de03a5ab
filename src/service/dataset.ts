/**
 * The data that the service answers from, wherever it is kept: what the parts that query it need to know. Types only.
 */
import type { PooledEngine } from '../engine/pool.ts';

/** Something that runs statements and small queries. */
export type StatementRunner = Pick<PooledEngine, 'command' | 'rows'>;

/** Where a loader puts rows. */
export interface LoadTarget {
  readonly engine: StatementRunner;
  /** Quoted name of a table that the loader may create and drop. */
  readonly scratch: string;
  /** The statement that inserts what `select` gives; its columns are the table's, in their order. */
  insertSql(select: string): string;
}

export interface DatasetTables {
  /** Quoted names, which no query of a caller may spell. */
  readonly trades: string;
  readonly chains: string;
  readonly dates: string;
}

export interface Dataset {
  readonly tables: DatasetTables;
  /** Database names that no query may spell. */
  readonly databases: readonly string[];
  /** Trades held, hidden ones included where they can be counted; `null` where they cannot. */
  readonly rows: number | null;
  /** How old the newest trades of `tables.trades` are, milliseconds. */
  readonly delayMs: number;
  /** First visible date, YYYY-MM-DD. */
  readonly earliest: string;
  /** Makes an engine ready: tables, views, and the views' bounds as the service's clock has them now. @throws EngineFault */
  prepare(engine: PooledEngine): Promise<void>;
}
