/**
 * What the program opens, by its settings: source, engine, store, mailer, clock, log. The only module that knows the
 * implementations; heavy ones are imported when they are first opened. The caller closes what it opens.
 */
import { createHash } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { ArchiveServerOptions } from './archive/server-runner.ts';
import type { CalendarOverride } from './calendar/session.ts';
import type { RestCatalog } from './catalog/rest-catalog.ts';
import { systemClock } from './core/clock.ts';
import { Fault } from './core/errors.ts';
import type { Log } from './core/log.ts';
import { createRedactor, maskByKey } from './core/redact.ts';
import { chooseRunId } from './core/run-id.ts';
import type { EmbeddedOptions } from './engine/embedded.ts';
import type { Engine } from './engine/engine.ts';
import type { EnginePool } from './engine/pool.ts';
import type { WorkerPoolOptions } from './engine/worker-pool.ts';
import type { ApiAccess, JobCatalog, ServerSource, SnapshotApi, SnapshotSource, SqlApi } from './job/job.ts';
import type { Mailer } from './mail/message.ts';
import type { Webhook, WebhookUse } from './mail/webhook.ts';
import {
  DEFAULTS,
  type Environment,
  listPasswords,
  listSecrets,
  listUnknown,
  MAIL_FOLDER,
  type RuledName,
  readRuled,
  readSecret,
} from './settings/setting-list.ts';
import {
  readApiKey,
  readCalendar,
  readKey,
  readS3Defaults,
  readStatusSettings,
  readVersion,
  readWebhook,
  reportSettings,
  s3Options,
  sourceUrl,
} from './settings/settings.ts';
import type { BudgetName } from './source/pace/reservations.ts';
import type { Pacer } from './source/pacer.ts';
import type { ServerTable } from './source/server-table.ts';
import type { SnapshotClient } from './source/snapshot.ts';
import type { Source } from './source/source.ts';
import type { StoreUse } from './store/identity.ts';
import { parseLocation, type StoreLocation } from './store/object-key.ts';
import type { ObjectOptions, Store, StoreAccess } from './store/store.ts';

/** What the client of an entry point needs to know of a job. */
export type SqlAccess = ApiAccess & { readonly api: SqlApi };

interface Surroundings {
  readonly env: Environment;
  readonly cwd: string;
  /** Root of the package: templates, version and the shipped job are read from there. */
  readonly packageDir: string;
  readonly writeErr: (text: string) => void;
  /** Whether stderr is a terminal: then log lines are pretty by default. */
  readonly interactive: boolean;
  readonly debug: boolean;
}

interface LogOptions {
  readonly quiet?: boolean | undefined;
  /** It outlives runs, so its lines have no run id. */
  readonly isService?: boolean | undefined;
}

interface StoreOptions {
  /** How objects are written to S3; default: the bucket's own settings. */
  readonly objects?: ObjectOptions | undefined;
  /** Default: `look`, which only reads and writes no identity. */
  readonly use?: StoreUse | undefined;
}

export type Openers = ReturnType<typeof createOpeners>;

/** Nothing is read or opened yet. Settings that are missing or invalid are Faults of kind `usage` where they are needed. */
export function createOpeners(given: Surroundings) {
  const { env, cwd, packageDir } = given;
  /** Secrets of flags. */
  const hidden: string[] = [];
  const listHidden = () => [...listSecrets(env, cwd), ...hidden];
  const log = createLogOpener(given, listHidden);
  const stateDir = resolve(cwd, readSetting(env, 'FLOWDROP_STATE_DIR'));
  let mask: ((text: string) => string) | undefined;
  const hide = (secrets: readonly string[]) => {
    hidden.push(...secrets);
    mask = undefined;
  };
  return {
    /** Messages, results and logs that are opened from now on mask these texts too. */
    hide,
    clock: systemClock,
    ...log,
    stateDir,
    version: readVersion(packageDir),
    templatesDir: join(packageDir, 'templates'),
    /** Pages that the package has: `data.md` and `formulas.md`. */
    docsDir: join(packageDir, 'docs'),
    /** File of the shipped nightly job. */
    shippedJob: join(packageDir, 'jobs', 'nightly-trades.yaml'),
    mailFrom: readSetting(env, 'FLOWDROP_MAIL_FROM'),
    /** For messages: masks every known secret, and any text in a place that holds only secrets. */
    redact: (text: string) => maskByKey(createRedactor(listHidden())(text)),
    /** For results, which may contain any text: masks known secrets only. */
    maskValues: (text: string) => {
      mask ??= createRedactor(listHidden());
      return mask(text);
    },
    /** @throws Fault `SETTING_INVALID` */
    readSetting: <N extends RuledName>(name: N) => readRuled(env, name),
    /** The operator's override of the exchange's calendar. @throws Fault `CALENDAR_INVALID` */
    readCalendar: async (): Promise<CalendarOverride> => await readCalendar(env, cwd),
    /** Where the daemon shows its status; `undefined` if `off`. */
    readStatusSettings: () => readStatusSettings(env, cwd),
    /** Redis through which daemons share schedules, and services and runs the budgets of keys; `undefined` without. */
    readRedisUrl: () => readSecret(env, 'FLOWDROP_REDIS_URL', cwd) || undefined,
    /**
     * URLs of a ClickHouse server: for the service's own user, and for an administrator.
     * @param flag instead of `FLOWDROP_CLICKHOUSE_URL`
     */
    readClickhouse(flag: string | undefined) {
      hide(listPasswords(flag ?? ''));
      return {
        url: flag ?? (readSecret(env, 'FLOWDROP_CLICKHOUSE_URL', cwd) || undefined),
        adminUrl: readSecret(env, 'FLOWDROP_CLICKHOUSE_ADMIN_URL', cwd) || undefined,
      };
    },
    /** Where clients of a catalog find an S3 store, in the words of Iceberg's clients; no credentials. */
    readS3Defaults: () => readS3Defaults(env),
    ...createStoreOpeners(env, cwd, stateDir),
    ...createEngineOpeners(env, cwd, hide),
    ...createSourceOpeners(env, cwd, stateDir),
    ...createMailOpeners(env, cwd),
    /** The settings in use, without secrets. */
    reportSettings: () => reportSettings(env, cwd),
    /** Names that look like settings and are none. */
    reportUnknown: () => listUnknown(env),
    /** Describes the Redis that shares the budget; `undefined` if none is set. @throws Fault */
    async checkRedis() {
      const url = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
      return url && (await (await import('./source/pace/redis-cell.ts')).checkRedis(url));
    },
  };
}

function createLogOpener({ env, writeErr, interactive, debug }: Surroundings, listHidden: () => readonly string[]) {
  const runId = chooseRunId(env['FLOWDROP_RUN_ID'], systemClock.now());
  let keepLine: ((line: string) => void) | undefined;
  return {
    /** Run id of this process: the one it was given, or a new one. */
    runId,
    async openLog({ quiet, isService }: LogOptions = {}): Promise<Log> {
      const { createLog } = await import('./core/log.ts');
      return createLog({
        level: debug ? 'debug' : quiet ? 'error' : readRuled(env, 'FLOWDROP_LOG_LEVEL'),
        pretty: (readRuled(env, 'FLOWDROP_LOG_FORMAT') ?? (interactive ? 'pretty' : 'json')) === 'pretty',
        secrets: listHidden(),
        write: writeErr,
        keep: (line) => keepLine?.(line),
        run: isService ? undefined : runId,
      });
    },
    /** From now on, log lines also go to this file, as JSON; its folder exists. A disk that is full ends that silently. */
    keepLog(path: string): void {
      // Synchronous: the last lines of a process count most.
      keepLine = (line) => {
        try {
          appendFileSync(path, line, { mode: 0o640 });
        } catch {
          keepLine = undefined;
        }
      };
    },
  };
}

function createStoreOpeners(env: Environment, cwd: string, stateDir: string) {
  const makeScratch = async () => {
    const { makeScratchFolder } = await import('./state/job-state.ts');
    return await makeScratchFolder(stateDir, systemClock.now());
  };
  const openBareStore = async (location: StoreLocation, objects: ObjectOptions): Promise<Store> => {
    if (location.kind === 's3') {
      const { openS3Store } = await import('./store/s3.ts');
      return await openS3Store({ ...s3Options(env, location), objects }, { clock: systemClock, makeScratch });
    }
    const { openDirectoryStore } = await import('./store/directory.ts');
    return await openDirectoryStore(location.path);
  };
  return {
    /**
     * Opens the store and checks its identity. Creates a directory and an identity only for a use that writes.
     * @param to `s3://...` or a directory, as in a job file
     * @throws Fault if it is neither, `STORE_CHANGED` if another store, or none, has taken its place, StoreFault
     */
    async openStore(to: string, { objects = {}, use = 'look' }: StoreOptions = {}): Promise<Store> {
      const { holdStore } = await import('./store/identity.ts');
      const location = parseLocation(to, cwd);
      const store = await openBareStore(location, objects);
      try {
        const place = { kind: location.kind, address: formatAddress(env, location), stateDir };
        return await holdStore(store, place, use, systemClock);
      } catch (error) {
        await store.close();
        throw error;
      }
    },
    /** The same text for the same store, however a job file names it. */
    addressOf: (to: string) => formatAddress(env, parseLocation(to, cwd)),
    /** How the engine itself reads the store's objects; contains secrets for S3. */
    async readAccess(to: string): Promise<StoreAccess> {
      const location = parseLocation(to, cwd);
      if (location.kind === 'directory') return location;
      const { readS3Access } = await import('./store/s3-client.ts');
      return await readS3Access(s3Options(env, location));
    },
    /** Sends nothing yet. */
    async openCatalog(target: JobCatalog): Promise<RestCatalog> {
      const token = readSecret(env, 'FLOWDROP_CATALOG_TOKEN', cwd);
      const credential = readSecret(env, 'FLOWDROP_CATALOG_CREDENTIAL', cwd);
      return (await import('./catalog/rest-catalog.ts')).openRestCatalog(target, { token, credential });
    },
  };
}

function createEngineOpeners(env: Environment, cwd: string, hide: (secrets: readonly string[]) => void) {
  return {
    /** Without a path the data is temporary. Only one engine at a time in a process. */
    async openEngine(options?: EmbeddedOptions): Promise<Engine> {
      return await (await import('./engine/embedded.ts')).openEmbeddedEngine(options);
    },
    /** Engines in separate processes. */
    async openWorkers(options: WorkerPoolOptions): Promise<EnginePool> {
      return await (await import('./engine/worker-pool.ts')).openWorkerPool(options);
    },
    /**
     * The ClickHouse server that answers queries in place of this machine; `undefined` if none is set. Does not connect yet.
     * @param given instead of `FLOWDROP_QUERY_ENGINE_URL` @throws Fault `SERVER_URL_INVALID` (usage)
     */
    async openQueryServer(given: string | undefined): Promise<ArchiveServerOptions | undefined> {
      hide(listPasswords(given ?? ''));
      const url = given ?? readSecret(env, 'FLOWDROP_QUERY_ENGINE_URL', cwd);
      if (!url) return undefined;
      return {
        engine: await (await import('./engine/server.ts')).openServerEngine({ url }),
        collection: readSetting(env, 'FLOWDROP_QUERY_ENGINE_COLLECTION'),
        cluster: env['FLOWDROP_QUERY_ENGINE_CLUSTER'] || undefined,
      };
    },
  };
}

function createSourceOpeners(env: Environment, cwd: string, stateDir: string) {
  const clock = systemClock;
  /** One per budget and key, for all entry points. */
  const pacers = new Map<string, Promise<Pacer>>();
  const openPacer = async (budget: BudgetName, apiKey: string): Promise<Pacer> => {
    const setting = budget === 'historical' ? 'FLOWDROP_REQUESTS_PER_SECOND' : 'FLOWDROP_SNAPSHOTS_PER_SECOND';
    const requestsPerSecond = readRuled(env, setting);
    const redisUrl = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
    const open = async () =>
      await (await import('./source/pacer.ts')).openPacer(budget, {
        clock,
        stateDir,
        apiKey,
        requestsPerSecond,
        redisUrl,
      });
    const name = `${budget} ${apiKey}`;
    const pacer = pacers.get(name) ?? open();
    pacers.set(name, pacer);
    return await pacer;
  };
  return {
    /** URL of an entry point; also the key of its limits. */
    sourceUrl: (api: SqlApi | SnapshotApi) => sourceUrl(env, api),
    /** Distinguishes API keys without containing them; empty without a key. */
    readKeyFingerprint: (access: ApiAccess) => fingerprint(readKey(env, cwd, access)),
    async openSource(source: SqlAccess, log: Log, clockOffsetMs: number): Promise<Source> {
      const { api } = source;
      const { createHistoricalSource } = await import('./source/historical.ts');
      const apiKey = readApiKey(env, cwd, source);
      const pacer = await openPacer('historical', apiKey);
      return createHistoricalSource(
        { url: sourceUrl(env, api), apiKey, expectsMeta: api === 'historical', clockOffsetMs },
        { clock, pacer, log },
      );
    },
    async openSnapshots(source: SnapshotSource, log: Log, clockOffsetMs: number): Promise<SnapshotClient> {
      const apiKey = readApiKey(env, cwd, source);
      const options = { url: sourceUrl(env, source.api), apiKey, clockOffsetMs };
      const deps = { clock, pacer: await openPacer(source.api, apiKey), log };
      return (await import('./source/snapshot.ts')).createSnapshotClient(source, options, deps);
    },
    /** A table of the ClickHouse server. @throws Fault `SERVER_URL_INVALID` */
    async openTable(source: ServerSource, log: Log): Promise<ServerTable> {
      const url = readSecret(env, 'FLOWDROP_CLICKHOUSE_URL', cwd);
      if (!url) {
        throw new Fault('SETTING_MISSING', 'FLOWDROP_CLICKHOUSE_URL is not set', {
          kind: 'usage',
          hint: 'Set it, or FLOWDROP_CLICKHOUSE_URL_FILE, to the server that the job reads: https://USER:PASSWORD@HOST:8443/DATABASE.',
        });
      }
      const { openServerTable } = await import('./source/server-table.ts');
      const { openServerEngine } = await import('./engine/server.ts');
      return openServerTable(url, source, { engine: await openServerEngine({ url }), clock, log });
    },
    /** Closes what sources share: open connections would keep the process alive. Idempotent. */
    async close(): Promise<void> {
      const opened = await Promise.allSettled(pacers.values());
      for (const pacer of opened) if (pacer.status === 'fulfilled') await pacer.value.close?.();
      pacers.clear();
    },
  };
}

function createMailOpeners(env: Environment, cwd: string) {
  const directory = () => resolve(cwd, readSetting(env, 'FLOWDROP_OUTBOX_DIR'));
  const readServer = () => readSecret(env, 'FLOWDROP_SMTP_URL', cwd) || undefined;
  const openAnyMailer = async (): Promise<Mailer> => {
    const url = readServer();
    if (!url || url === MAIL_FOLDER)
      return (await import('./mail/message.ts')).openOutboxMailer({
        directory: directory(),
        isRecipient: url === MAIL_FOLDER,
      });
    return (await import('./mail/smtp.ts')).openSmtpMailer({ url });
  };
  return {
    async openMailer(): Promise<Mailer> {
      const domains = env['FLOWDROP_MAIL_DOMAINS'];
      if (!domains) return await openAnyMailer();
      const { parseMailDomains, restrictMailer } = await import('./mail/message.ts');
      const allowed = parseMailDomains(domains);
      return restrictMailer(await openAnyMailer(), allowed);
    },
    /** Folder that mail is written to without a server; `undefined` with one. */
    findOutbox: () => ([undefined, MAIL_FOLDER].includes(readServer()) ? directory() : undefined),
    /** As of the mailer that is opened. @throws Fault `SETTING_INVALID` */
    deliversMail: () => readServer() !== undefined,
    /**
     * Where alerts or events are posted; `undefined` without an address.
     * @param address of a job's own, instead of the setting's
     */
    async openWebhook(use: WebhookUse, address?: string): Promise<Webhook | undefined> {
      const settings = readWebhook(env, cwd, use, address);
      return settings && (await import('./mail/webhook.ts')).createWebhook(settings, systemClock);
    },
  };
}

function readSetting(env: Environment, name: keyof typeof DEFAULTS): string {
  return env[name] || DEFAULTS[name];
}

/** Includes the endpoint: buckets of the same name on two servers are two stores. */
function formatAddress(env: Environment, location: StoreLocation): string {
  if (location.kind === 'directory') return location.path;
  return `${env['AWS_ENDPOINT_URL_S3'] ?? ''} s3://${location.bucket}/${location.prefix}`;
}

function fingerprint(key: string | undefined): string {
  return key === undefined ? '' : createHash('sha256').update(key).digest('hex').slice(0, 16);
}
