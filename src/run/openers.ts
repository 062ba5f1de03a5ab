/**
 * What opens the outside world for a run: the store, the engine, the source, the mailer, by the settings. A contract: the
 * composition root implements it, and whoever opens something closes it.
 */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { EmbeddedOptions } from '../engine/embedded.ts';
import type { Engine } from '../engine/engine.ts';
import type { ClockRule } from '../export/clocks.ts';
import type { ServerSource, SnapshotApi, SnapshotSource, SqlApi } from '../job/job.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Webhook } from '../mail/webhook.ts';
import type { ServerTable } from '../source/server-table.ts';
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';
import type { StoreUse } from '../store/identity.ts';
import type { ObjectOptions, Store } from '../store/store.ts';

interface OpenStoreOptions {
  /** How objects are written to S3; default: as the bucket has it. */
  readonly objects?: ObjectOptions | undefined;
  /** Default: `look`, to read what is there and write no identity. */
  readonly use?: StoreUse | undefined;
}

/** What the job's source is opened with. */
export interface SourceOpeners {
  readonly clock: Clock;
  readonly stateDir: string;
  /** Distinguishes API keys without containing them; empty without a key. @throws Fault `SETTING_INVALID` */
  readKeyFingerprint(): string;
  /** Address of an entry point; the key of its limits. @throws Fault `SETTING_MISSING` */
  sourceUrl(api: SqlApi | SnapshotApi): string;
  /** Without a path the data is temporary. One at a time in a process. */
  openEngine(options?: EmbeddedOptions): Promise<Engine>;
  openSource(api: SqlApi, log: Log, clockOffsetMs: number): Promise<Source>;
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
  readonly mailFrom: string;
  /** Id of what this process does: the one it was given, or a new one. */
  readonly runId: string;
  /** For messages: masks every known secret, and what stands where only secrets stand. */
  redact(text: string): string;
  /**
   * @param options `secrets`: further texts to mask; `isService`: it outlives runs, so its lines do not carry the run id
   */
  openLog(options?: {
    readonly quiet?: boolean | undefined;
    readonly secrets?: readonly string[] | undefined;
    readonly isService?: boolean | undefined;
  }): Promise<Log>;
  /**
   * Opens the store and checks its identity. Makes a directory, and an identity, only for a use that writes.
   * @param to `s3://...` or a directory, as in a job file
   * @throws Fault when it is neither, `STORE_CHANGED` when another store, or none, has taken its place, StoreFault
   */
  openStore(to: string, options?: OpenStoreOptions): Promise<Store>;
  openMailer(): Promise<Mailer>;
  /** Where alerts are posted to; `undefined` when there is no address. @throws Fault `SETTING_INVALID` */
  openWebhook(): Promise<Webhook | undefined>;
  /** The operator's override of the exchange's calendar. @throws Fault `SETTING_INVALID`, `CALENDAR_INVALID` */
  readCalendar(): Promise<CalendarOverride>;
}
