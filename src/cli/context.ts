/**
 * What the commands get from outside: the terminal, and the composition (settings turned into concrete parts). Commands
 * depend on this contract; `compose.ts` implements it, `main.ts` joins both.
 */
import type { Coordinator } from '../daemon/coordinator.ts';
import type { EnginePool } from '../engine/pool.ts';
import type { ServerOptions, StreamingEngine } from '../engine/server.ts';
import type { ServerPool, ServerPoolOptions } from '../engine/server-pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import type { SettingReport } from '../run/doctor/check-settings.ts';
import type { Openers } from '../run/openers.ts';
import type { StatusSettings } from '../settings/status-settings.ts';
import type { StoreAccess } from '../store/access.ts';
import type { ObjectOptions } from '../store/store.ts';
import type { DrawnLine } from './terminal/drawn-line.ts';

export interface Terminal {
  /** Results. */
  out(text: string): void;
  /** Progress, messages and errors. */
  err(text: string): void;
  /** Whether stderr is a terminal that a progress bar can be drawn on. */
  readonly interactive: boolean;
  readonly stderr: NodeJS.WritableStream;
  /** Keeps a line that is redrawn in place below all that is written meanwhile, log lines too; returns its release. */
  keepLine(line: DrawnLine): () => void;
  /** Results that are too large, or no text. */
  readonly stdout: NodeJS.WritableStream;
  /** Whether a person reads stdout. */
  readonly outIsTerminal: boolean;
  /** Whether what is written to stdout and stderr may have colours. */
  readonly colors: { readonly out: boolean; readonly err: boolean };
  /** Cells of a line at present; `undefined` where there is no terminal. */
  readonly columns: { readonly out: number | undefined; readonly err: number | undefined };
  /** All of stdin. */
  readIn(): Promise<string>;
  /** For answers; whoever reads it must not call `readIn`. */
  readonly stdin: NodeJS.ReadableStream;
  /** Whether a person can be asked. */
  readonly inIsTerminal: boolean;
}

/** How to start this program again as a child process. */
export interface SelfCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** What only `query` opens. */
interface ArchiveOpeners {
  /** How the engine reaches the objects of that store by itself; holds secrets where it is S3. */
  readAccess(to: string): Promise<StoreAccess>;
  /** Engines in processes of their own. */
  openWorkers(options: WorkerPoolOptions): Promise<EnginePool>;
}

/** What only `serve` opens. */
interface ServiceOpeners {
  openWorkers(options: WorkerPoolOptions): Promise<EnginePool>;
  openServer(options: ServerOptions): Promise<StreamingEngine>;
  openServerPool(options: ServerPoolOptions): Promise<ServerPool>;
  /** Addresses of a ClickHouse server: of the service's own user, and of an administrator. */
  readClickhouse(): { readonly url: string | undefined; readonly adminUrl: string | undefined };
}

/** What daemons need, and what jobs need to be run by several of them. */
export interface DaemonOpeners {
  /** Runs that a daemon has going on at once, at most. @throws Fault `SETTING_INVALID` */
  readMaxRuns(): number;
  /** Where the daemon shows its status; `undefined` when it is `off`. @throws Fault `SETTING_INVALID`, `SETTING_MISSING` */
  readStatusSettings(): StatusSettings | undefined;
  /** Whether machines share a Redis. @throws Fault `SETTING_INVALID` */
  hasRedis(): boolean;
  /**
   * Shares schedules with other daemons; `undefined` without `FLOWDROP_REDIS_URL`. Nothing is connected yet.
   * @param storeOf `drop.to` of a job, as in its file
   * @throws Fault `SETTING_INVALID`
   */
  openCoordinator(daemonId: string, storeOf: (job: string) => string): Promise<Coordinator | undefined>;
}

/** What only `doctor` tries. */
interface DoctorProbes {
  /** What is set, without secrets. */
  reportSettings(): SettingReport;
  /** What the Redis that shares the budget is seen to be; `undefined` where none is set. @throws Fault */
  checkRedis(): Promise<string | undefined>;
  /**
   * Tries uploads in parts at that store, and leaves an object at `key`; `false` where a store knows no parts.
   * @throws StoreFault
   */
  tryUpload(to: string, objects: ObjectOptions, key: string, signal?: AbortSignal): Promise<boolean>;
}

/** Settings turned into concrete parts, by who needs them. */
export interface Composition {
  /** What runs open, and whatever looks at a job as a run does. */
  readonly openers: Openers;
  readonly archive: ArchiveOpeners;
  readonly service: ServiceOpeners;
  readonly daemon: DaemonOpeners;
  readonly doctor: DoctorProbes;
  /** File of the shipped nightly job. */
  readonly shippedJob: string;
  /** For results, which may be anything: masks known secrets only. */
  maskValues(text: string): string;
  /** Closes what sources share: open connections would keep the process alive. Idempotent. */
  close(): Promise<void>;
}

/** All that a command may take; each names the parts that it does take. */
export interface CliContext extends Composition {
  /** Masks every known secret in what is written. */
  readonly terminal: Terminal;
  readonly self: SelfCommand;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Calls the listener at each SIGHUP from now on; without one it ends the process, as it does every program. */
  onHangup(listener: () => void): void;
  /** Working directory: jobs, outputs and state are relative to it. */
  readonly cwd: string;
}

/** Options of every command. */
export interface GlobalOptions {
  readonly json?: boolean;
  readonly jobs: string;
  readonly debug?: boolean;
}
