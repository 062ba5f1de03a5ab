/**
 * Opens what a run needs from outside, by the settings: the store, the engine, the source, the mailer. A contract: the
 * composition root implements it, and the caller closes what it opens.
 */
import type { CalendarOverride } from '../calendar/session.ts';
import type { RestCatalog } from '../catalog/rest-catalog.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { EmbeddedOptions } from '../engine/embedded.ts';
import type { Engine } from '../engine/engine.ts';
import type { ClockRule } from '../export/clocks.ts';
import type { ApiAccess, JobCatalog, ServerSource, SnapshotApi, SnapshotSource, SqlApi } from '../job/job.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Webhook, WebhookUse } from '../mail/webhook.ts';
import type { ServerTable } from '../source/server-table.ts';
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';
import type { StoreUse } from '../store/identity.ts';
import type { ObjectOptions, Store } from '../store/store.ts';

interface OpenStoreOptions {
  /** How objects are written to S3; default: the bucket's own settings. */
  readonly objects?: ObjectOptions | undefined;
  /** Default: `look`, which only reads and writes no identity. */
  readonly use?: StoreUse | undefined;
}

/** What the client of an entry point needs to know of a job. */
export type SqlAccess = ApiAccess & { readonly api: SqlApi };

/** What opens a job's source. */
export interface SourceOpeners {
  readonly clock: Clock;
  readonly stateDir: string;
  /** Distinguishes API keys without containing them; empty without a key. @throws Fault `SETTING_INVALID` */
  readKeyFingerprint(access: ApiAccess): string;
  /** URL of an entry point; also the key of its limits. @throws Fault `SETTING_MISSING` */
  sourceUrl(api: SqlApi | SnapshotApi): string;
  /** Without a path the data is temporary. Only one engine at a time in a process. */
  openEngine(options?: EmbeddedOptions): Promise<Engine>;
  openSource(source: SqlAccess, log: Log, clockOffsetMs: number): Promise<Source>;
  /** @throws Fault `SETTING_MISSING`, `SETTING_INVALID` */
  openSnapshots(source: SnapshotSource, log: Log, clockOffsetMs: number): Promise<SnapshotClient>;
  /** A table of the ClickHouse server. @throws Fault `SETTING_MISSING`, `SERVER_URL_INVALID` */
  openTable(source: ServerSource, log: Log): Promise<ServerTable>;
}

export interface Openers extends SourceOpeners {
  /** Which clocks decide what is exported. @throws Fault `SETTING_INVALID` */
  readClockRule(): ClockRule;
  readonly version: string;
  readonly templatesDir: string;
  /** Address of the status page for readers of mails. @throws Fault `SETTING_INVALID` */
  readPublicUrl(): string | undefined;
  readonly mailFrom: string;
  /** Run id of this process: the one it was given, or a new one. */
  readonly runId: string;
  /** For messages: masks every known secret, and any text in a place that holds only secrets. */
  redact(text: string): string;
  /** @param options `secrets`: more texts to mask; `isService`: it outlives runs, so its lines have no run id */
  openLog(options?: {
    readonly quiet?: boolean | undefined;
    readonly secrets?: readonly string[] | undefined;
    readonly isService?: boolean | undefined;
  }): Promise<Log>;
  /** From now on, log lines also go to this file, as JSON; its folder exists. A disk that is full ends that silently. */
  keepLog(path: string): void;
  /** How many days the records of runs are kept. @throws Fault `SETTING_INVALID` */
  readHistoryDays(): number;
  /**
   * Opens the store and checks its identity. Creates a directory and an identity only for a use that writes.
   * @param to `s3://...` or a directory, as in a job file
   * @throws Fault if it is neither, `STORE_CHANGED` if another store, or none, has taken its place, StoreFault
   */
  openStore(to: string, options?: OpenStoreOptions): Promise<Store>;
  /** Sends nothing yet. @throws Fault `SETTING_INVALID` */
  openCatalog(target: JobCatalog): Promise<RestCatalog>;
  openMailer(): Promise<Mailer>;
  /**
   * Where alerts or events are posted; `undefined` without an address.
   * @param address of a job's own, instead of the setting's @throws Fault `SETTING_INVALID`
   */
  openWebhook(use: WebhookUse, address?: string): Promise<Webhook | undefined>;
  /** The operator's override of the exchange's calendar. @throws Fault `SETTING_INVALID`, `CALENDAR_INVALID` */
  readCalendar(): Promise<CalendarOverride>;
}
