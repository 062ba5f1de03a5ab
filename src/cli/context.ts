/**
 * What the commands get from outside: the terminal, and the composition (settings turned into concrete parts). Commands
 * depend on this contract; `compose.ts` implements it, `main.ts` joins both.
 */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import type { ListenAddress } from '../core/listen-address.ts';
import type { Log } from '../core/log.ts';
import type { Coordinator } from '../daemon/coordinator.ts';
import type { EmbeddedOptions } from '../engine/embedded.ts';
import type { Engine } from '../engine/engine.ts';
import type { EnginePool } from '../engine/pool.ts';
import type { ServerOptions, StreamingEngine } from '../engine/server.ts';
import type { ServerPool, ServerPoolOptions } from '../engine/server-pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import type { ClockRule } from '../export/clocks.ts';
import type { ServerSource, SnapshotApi, SnapshotSource, SqlApi } from '../job/job.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Webhook } from '../mail/webhook.ts';
import type { SettingReport } from '../run/doctor/settings.ts';
import type { ServerTable } from '../source/server-table.ts';
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';
import type { StoreAccess } from '../store/access.ts';
import type { StoreUse } from '../store/identity.ts';
import type { ObjectOptions, Store } from '../store/store.ts';
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

/** Where the daemon listens, and what whoever looks must show. */
export interface StatusAddress {
  readonly address: ListenAddress;
  readonly token: string | undefined;
}

/** How to start this program again as a child process. */
export interface SelfCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface OpenStoreOptions {
  /** How objects are written to S3; default: as the bucket has it. */
  readonly objects?: ObjectOptions | undefined;
  /** Default: `look`, to read what is there and write no identity. */
  readonly use?: StoreUse | undefined;
}

export interface Composition {
  readonly clock: Clock;
  /** Which clocks decide what is exported. @throws Fault `SETTING_INVALID` */
  readonly clockRule: ClockRule;
  readonly version: string;
  readonly stateDir: string;
  /** Root of the package, with the shipped jobs and templates. */
  readonly packageDir: string;
  readonly templatesDir: string;
  readonly mailFrom: string;
  /** Tells the API key from others without telling it; empty without a key. */
  readonly keyFingerprint: string;
  /** Id of what this process does: the one it was given, or a new one. */
  readonly runId: string;
  /** For messages: masks every known secret, and what stands where only secrets stand. */
  redact(text: string): string;
  /** For results, which may be anything: masks known secrets only. */
  maskValues(text: string): string;
  /**
   * @param options `secrets`: further texts to mask; `isService`: it outlives runs, so its lines do not carry the run id
   */
  openLog(options?: {
    readonly quiet?: boolean;
    readonly secrets?: readonly string[];
    readonly isService?: boolean;
  }): Promise<Log>;
  /**
   * Opens the store and holds it to its identity. Makes a directory, and an identity, only for a use that writes.
   * @param to `s3://...` or a directory, as in a job file
   * @throws Fault when it is neither, `STORE_CHANGED` when another store, or none, has taken its place, StoreFault
   */
  openStore(to: string, options?: OpenStoreOptions): Promise<Store>;
  /**
   * Tries uploads in parts at that store, and leaves an object at `key`; `false` where a store knows no parts.
   * @throws StoreFault
   */
  tryUpload(to: string, objects: ObjectOptions, key: string, signal?: AbortSignal): Promise<boolean>;
  /** How the engine reaches the objects of that store by itself; holds secrets where it is S3. */
  readAccess(to: string): Promise<StoreAccess>;
  /** Without a path the data is temporary. */
  openEngine(options?: EmbeddedOptions): Promise<Engine>;
  /** Engines in processes of their own. */
  openWorkers(options: WorkerPoolOptions): Promise<EnginePool>;
  openServer(options: ServerOptions): Promise<StreamingEngine>;
  openServerPool(options: ServerPoolOptions): Promise<ServerPool>;
  /** Addresses of a ClickHouse server, for `serve` and for jobs that read its tables: the user, and an administrator. */
  readonly clickhouse: { readonly url?: string; readonly adminUrl?: string };
  /** Address of an entry point; the key of what was learnt. @throws Fault `SETTING_MISSING` */
  sourceUrl(api: SqlApi | SnapshotApi): string;
  openSource(api: SqlApi, log: Log, clockOffsetMs: number): Promise<Source>;
  /** @throws Fault `SETTING_MISSING`, `SETTING_INVALID` */
  openSnapshots(source: SnapshotSource, log: Log, clockOffsetMs: number): Promise<SnapshotClient>;
  /** A table of the ClickHouse server. @throws Fault `SETTING_MISSING`, `SERVER_URL_INVALID` */
  openTable(source: ServerSource, log: Log): Promise<ServerTable>;
  openMailer(): Promise<Mailer>;
  /** Where alerts are posted to; `undefined` when there is no address. @throws Fault `SETTING_INVALID` */
  openWebhook(): Promise<Webhook | undefined>;
  /** Runs that a daemon has going on at once, at most. @throws Fault `SETTING_INVALID` */
  readonly maxRuns: number;
  /** Address of the Redis that machines share, with its password. @throws Fault `SETTING_INVALID` */
  readonly redisUrl: string | undefined;
  /** What the Redis that shares the budget is seen to be; `undefined` where none is set. @throws Fault */
  checkRedis(): Promise<string | undefined>;
  /**
   * Shares schedules with other daemons; `undefined` without `FLOWDROP_REDIS_URL`. Nothing is connected yet.
   * @param storeOf `drop.to` of a job, as in its file
   * @throws Fault `SETTING_INVALID`
   */
  openCoordinator(daemonId: string, storeOf: (job: string) => string): Promise<Coordinator | undefined>;
  /** Where the daemon shows its status; `undefined` when it is `off`. @throws Fault `SETTING_INVALID`, `SETTING_MISSING` */
  readonly statusAddress: StatusAddress | undefined;
  /** The operator's override of the exchange's calendar. @throws Fault `SETTING_INVALID`, `CALENDAR_INVALID` */
  readCalendar(): Promise<CalendarOverride>;
  /** What is set, without secrets. */
  reportSettings(): SettingReport;
  /** Lets go of what sources share: connections would keep the process alive. Idempotent. */
  close(): Promise<void>;
}

export interface CliContext {
  readonly terminal: Terminal;
  readonly compose: Composition;
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
