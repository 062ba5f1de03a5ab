/**
 * What the commands receive from outside: the terminal, and the composition (settings turned into concrete parts).
 * Commands depend on this contract; `compose.ts` implements it, `main.ts` connects the two.
 */
import type { ArchiveServerOptions } from '../archive/archive-server.ts';
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
  /** Keeps a redrawn line below all other output, log lines included; returns the function that releases it. */
  keepLine(line: DrawnLine): () => void;
  /** For results that are large or binary. */
  readonly stdout: NodeJS.WritableStream;
  /** Whether stdout is a terminal. */
  readonly outIsTerminal: boolean;
  /** Whether output to stdout and stderr may have colors. */
  readonly colors: { readonly out: boolean; readonly err: boolean };
  /** Current cells per line; `undefined` if there is no terminal. */
  readonly columns: { readonly out: number | undefined; readonly err: number | undefined };
  /** All of stdin. */
  readIn(): Promise<string>;
  /** For answers; a caller that reads it must not call `readIn`. */
  readonly stdin: NodeJS.ReadableStream;
  /** Whether stdin is a terminal, so that a person can be asked. */
  readonly inIsTerminal: boolean;
}

/** How to start this program again as a child process. */
export interface SelfCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Opened only by `query`. */
interface ArchiveOpeners {
  /** How the engine itself reads the store's objects; contains secrets for S3. */
  readAccess(to: string): Promise<StoreAccess>;
  /** Engines in separate processes. */
  openWorkers(options: WorkerPoolOptions): Promise<EnginePool>;
  /**
   * The ClickHouse server that answers in place of this machine; `undefined` if none is set. Does not connect yet.
   * @param url instead of `FLOWDROP_QUERY_ENGINE_URL` @throws Fault `SERVER_URL_INVALID` (usage), `SETTING_INVALID`
   */
  openServer(url: string | undefined): Promise<ArchiveServerOptions | undefined>;
}

/** Opened only by `serve`. */
interface ServiceOpeners {
  openWorkers(options: WorkerPoolOptions): Promise<EnginePool>;
  openServer(options: ServerOptions): Promise<StreamingEngine>;
  openServerPool(options: ServerPoolOptions): Promise<ServerPool>;
  /** Where clients of a catalog find an S3 store, in the words of Iceberg's clients; no credentials. */
  readS3Defaults(): Readonly<Record<string, string>>;
  /** Redis through which services share the budgets of keys; `undefined` without `FLOWDROP_REDIS_URL`. */
  readRedisUrl(): string | undefined;
  /** URLs of a ClickHouse server: for the service's own user, and for an administrator. */
  readClickhouse(): { readonly url: string | undefined; readonly adminUrl: string | undefined };
}

/** What daemons need, and what jobs need that several daemons share. */
export interface DaemonOpeners {
  /** Most runs that a daemon executes at the same time. @throws Fault `SETTING_INVALID` */
  readMaxRuns(): number;
  /** Where the daemon shows its status; `undefined` if `off`. @throws Fault `SETTING_INVALID`, `SETTING_MISSING` */
  readStatusSettings(): StatusSettings | undefined;
  /** Whether a shared Redis is set. @throws Fault `SETTING_INVALID` */
  hasRedis(): boolean;
  /**
   * Shares schedules with other daemons; `undefined` without `FLOWDROP_REDIS_URL`. Does not connect yet.
   * @param storeOf `drop.to` of a job, as in its file
   * @throws Fault `SETTING_INVALID`
   */
  openCoordinator(daemonId: string, storeOf: (job: string) => string): Promise<Coordinator | undefined>;
}

/** Used only by `doctor`. */
interface DoctorProbes {
  /** The settings in use, without secrets. */
  reportSettings(): SettingReport;
  /** Names that look like settings and are none. */
  reportUnknown(): SettingReport['unknown'];
  /** Folder that mail is written to without a server; `undefined` with one. @throws Fault `SETTING_INVALID` */
  findOutbox(): string | undefined;
  /** Describes the Redis that shares the budget; `undefined` if none is set. @throws Fault */
  checkRedis(): Promise<string | undefined>;
  /**
   * Tries multipart uploads in that store, and leaves an object at `key`; `false` if the store has no multipart
   * uploads.
   * @throws StoreFault
   */
  tryUpload(to: string, objects: ObjectOptions, key: string, signal?: AbortSignal): Promise<boolean>;
}

/** Settings turned into concrete parts, grouped by the commands that need them. */
export interface Composition {
  /** For runs, and for commands that read a job as a run does. */
  readonly openers: Openers;
  readonly archive: ArchiveOpeners;
  readonly service: ServiceOpeners;
  readonly daemon: DaemonOpeners;
  readonly doctor: DoctorProbes;
  /** File of the shipped nightly job. */
  readonly shippedJob: string;
  /** For results, which may contain any text: masks known secrets only. */
  maskValues(text: string): string;
  /** Closes what sources share: open connections would keep the process alive. Idempotent. */
  close(): Promise<void>;
}

/** Everything that a command may use; each command names the parts that it uses. */
export interface CliContext extends Composition {
  /** Masks every known secret in the output. */
  readonly terminal: Terminal;
  readonly self: SelfCommand;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Calls the listener at each SIGHUP from now on; without a listener, SIGHUP ends the process as usual. */
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
