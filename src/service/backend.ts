/** Where the service's data is and what runs its queries: the part that differs between the embedded engine and a server. */
import type { Engine } from '../engine/engine.ts';
import type { EnginePool } from '../engine/pool.ts';
import type { ServerOptions } from '../engine/server.ts';
import type { ServerPool, ServerPoolOptions } from '../engine/server-pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import type { Parser } from '../guard/parser.ts';
import type { Dataset } from './dataset.ts';

/** Tasks that may wait for an engine, of either backend; a caller is told to come again sooner than it would be answered. */
export const MAX_WAITING = 64;

/** Opens engines; the composition knows how. */
export interface EngineOpeners {
  /** Engine processes of this machine. */
  openWorkers(options: Omit<WorkerPoolOptions, 'command'>): Promise<EnginePool>;
  /** A ClickHouse server, for an administrator's statements. */
  openServer(options: ServerOptions): Promise<Engine>;
  /** A ClickHouse server, for callers' queries. */
  openServerPool(options: ServerPoolOptions): Promise<ServerPool>;
}

export interface Backend {
  /** Runs callers' queries. */
  readonly pool: EnginePool;
  /** Parses callers' SQL; never runs it. */
  readonly parser: Parser;
  readonly dataset: Dataset;
  /** Settings that the engine of `pool` knows; `undefined`: all that the service uses. */
  readonly knownSettings?: ReadonlySet<string>;
  /** Functions that the engine of `pool` has beyond those of the parser's; `undefined`: none. */
  readonly knownFunctions?: readonly string[];
  close(): Promise<void>;
}
