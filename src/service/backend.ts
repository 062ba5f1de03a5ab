/** Where the service's data is and what runs its queries: the part that differs between the embedded engine and a server. */
import type { EnginePool } from '../engine/pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import type { Dataset, StatementRunner } from './dataset.ts';

/** Opens engines; the composition knows how. */
export interface EngineOpeners {
  /** Engine processes of this machine. */
  openWorkers(options: Omit<WorkerPoolOptions, 'command'>): Promise<EnginePool>;
}

export interface Backend {
  /** Runs callers' queries. */
  readonly pool: EnginePool;
  /** Parses callers' SQL; never runs it. */
  readonly parser: Pick<StatementRunner, 'rows'>;
  readonly dataset: Dataset;
  /** Settings that the engine of `pool` knows; `undefined`: all that the service uses. */
  readonly knownSettings?: ReadonlySet<string>;
  close(): Promise<void>;
}
