/**
 * Contract of a backend: where the service's data is and what runs its queries. This part differs between the embedded
 * engine, a ClickHouse server, and an archive that the command brings.
 */
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { EngineSettings } from '../engine/literal.ts';
import type { EnginePool } from '../engine/pool.ts';
import type { ServerEngine, ServerOptions } from '../engine/server.ts';
import type { ServerPool, ServerPoolOptions } from '../engine/server-pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import type { Parser } from '../guard/parser.ts';
import type { Dataset, SnapshotDataset } from './dataset.ts';

/**
 * Maximum tasks that wait for an engine, in either backend. Further calls fail with a `Retry-After`, which is shorter
 * than their wait would be.
 */
export const MAX_WAITING = 64;

/** Opens engines; implemented where the program is composed. */
export interface EngineOpeners {
  /** Engine processes on this machine. */
  openWorkers(options: Omit<WorkerPoolOptions, 'command'>): Promise<EnginePool>;
  /** A ClickHouse server, for an administrator's statements. */
  openServer(options: ServerOptions): Promise<ServerEngine>;
  /** A ClickHouse server, for callers' queries. */
  openServerPool(options: ServerPoolOptions): Promise<ServerPool>;
}

/** What the service gives to a backend. */
export interface BackendParts {
  readonly clock: Clock;
  readonly log: Log;
  /** To be called when an engine process has ended and will be replaced. */
  readonly onRestart: () => void;
}

export interface Backend {
  /** Runs callers' queries. */
  readonly pool: EnginePool;
  /** Parses callers' SQL; never runs it. */
  readonly parser: Parser;
  readonly dataset: Dataset;
  /** What option chain and market structure are computed from; `undefined`: they are not served. */
  readonly snapshots: SnapshotDataset | undefined;
  /** Settings of callers' statements besides the limits; `undefined`: those that keep hidden rows hidden. */
  readonly settings?: EngineSettings;
  /** Settings that the engine of `pool` supports; `undefined`: all settings that the service uses. */
  readonly knownSettings?: ReadonlySet<string>;
  /** Functions that the engine of `pool` has and the parser lacks; `undefined`: none. */
  readonly knownFunctions?: readonly string[];
  close(): Promise<void>;
}
