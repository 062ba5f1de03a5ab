/**
 * What the commands get from outside: the terminal, and the composition (settings turned into concrete parts). Commands
 * depend on this contract; `compose.ts` implements it, `main.ts` joins both.
 */
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { EnginePool } from '../engine/pool.ts';
import type { ServerOptions } from '../engine/server.ts';
import type { ServerPool, ServerPoolOptions } from '../engine/server-pool.ts';
import type { WorkerPoolOptions } from '../engine/worker-pool.ts';
import type { SourceApi } from '../job/job.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Source } from '../source/source.ts';
import type { Store } from '../store/store.ts';

export interface Terminal {
  /** Results. */
  out(text: string): void;
  /** Progress, messages and errors. */
  err(text: string): void;
  /** Whether stderr is a terminal that a progress bar can be drawn on. */
  readonly interactive: boolean;
  readonly stderr: NodeJS.WritableStream;
}

/** How to start this program again as a child process. */
export interface SelfCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface Composition {
  readonly clock: Clock;
  readonly version: string;
  readonly stateDir: string;
  /** Root of the package, with the shipped jobs and templates. */
  readonly packageDir: string;
  readonly templatesDir: string;
  readonly mailFrom: string;
  /** Masks every known secret in a text. */
  redact(text: string): string;
  /** @param options `secrets`: further texts to mask */
  openLog(options?: { readonly quiet?: boolean; readonly secrets?: readonly string[] }): Promise<Log>;
  /** @param to `s3://...` or a directory, as in a job file @throws Fault when it is neither */
  openStore(to: string): Promise<Store>;
  /** @param path data path; without it the data is temporary */
  openEngine(path?: string): Promise<Engine>;
  /** Engines in processes of their own. */
  openWorkers(options: WorkerPoolOptions): Promise<EnginePool>;
  openServer(options: ServerOptions): Promise<Engine>;
  openServerPool(options: ServerPoolOptions): Promise<ServerPool>;
  /** Addresses of a ClickHouse server for `serve`: the service's own user, and an administrator. */
  readonly clickhouse: { readonly url?: string; readonly adminUrl?: string };
  /** Address of an entry point; the key of what was learnt. @throws Fault `SETTING_MISSING` */
  sourceUrl(api: SourceApi): string;
  openSource(api: SourceApi, log: Log, clockOffsetMs: number): Promise<Source>;
  openMailer(): Promise<Mailer>;
}

export interface CliContext {
  readonly terminal: Terminal;
  readonly compose: Composition;
  readonly self: SelfCommand;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Working directory: jobs, outputs and state are relative to it. */
  readonly cwd: string;
}

/** Options of every command. */
export interface GlobalOptions {
  readonly json?: boolean;
  readonly jobs: string;
  readonly debug?: boolean;
}
