/**
 * The composition root: settings from the environment -> concrete source, engine, store, mailer, clock and log. The only
 * module that knows the implementations. Everything heavy is imported when it is opened.
 */
import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Composition } from './cli/context.ts';
import { type Clock, systemClock } from './core/clock.ts';
import { Fault } from './core/errors.ts';
import { createRedactor, maskByKey } from './core/redact.ts';
import { chooseRunId } from './core/run-id.ts';
import {
  DEFAULTS,
  type Environment,
  listSecrets,
  readAlertWebhook,
  readApiKey,
  readCalendar,
  readClockRule,
  readFlag,
  readIsLogPretty,
  readLevel,
  readMailPatienceMs,
  readMaxRuns,
  readRate,
  readSecret,
  readVersion,
  sourceUrl,
} from './settings/settings.ts';
import { reportSettings } from './settings/settings-report.ts';
import { readStatusSettings } from './settings/status-settings.ts';
import type { BudgetName } from './source/pace/budget.ts';
import type { Pacer } from './source/pacer.ts';
import type { StoreLocation } from './store/location.ts';
import type { S3Options } from './store/s3-client.ts';
import type { ObjectOptions, Store } from './store/store.ts';

export interface ComposeInput {
  readonly env: Environment;
  readonly cwd: string;
  /** Root of the package: templates and version are read from there. */
  readonly packageDir: string;
  readonly writeErr: (text: string) => void;
  /** Whether a person reads stderr: then log lines are pretty, unless it is set otherwise. */
  readonly interactive: boolean;
  readonly debug: boolean;
}

export function createComposition(input: ComposeInput): Composition {
  const { env, cwd } = input;
  const clock: Clock = systemClock;
  const pacers = new Map<string, Promise<Pacer>>();
  const setting = (name: keyof typeof DEFAULTS) => env[name] || DEFAULTS[name];
  const secrets = () => listSecrets(env, cwd);
  const runId = chooseRunId(env['FLOWDROP_RUN_ID'], clock.now());
  let maskValues: ((text: string) => string) | undefined;
  const openLog: Composition['openLog'] = async (options = {}) => {
    const { createLog } = await import('./core/log.ts');
    const level = input.debug ? 'debug' : options.quiet ? 'error' : readLevel(setting('FLOWDROP_LOG_LEVEL'));
    const all = [...secrets(), ...(options.secrets ?? [])];
    return createLog({
      level,
      pretty: readIsLogPretty(env, input.interactive),
      secrets: all,
      write: input.writeErr,
      ...(options.isService ? {} : { run: runId }),
    });
  };
  const stateDir = resolve(cwd, setting('FLOWDROP_STATE_DIR'));
  /** One for each budget and key, whichever entry point they are used at. */
  const openPacer = (budget: BudgetName, apiKey: string): Promise<Pacer> => {
    const open = async () => {
      const redisUrl = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
      const pacer = await import('./source/pacer.ts');
      return await pacer.openPacer(budget, {
        clock,
        stateDir,
        apiKey,
        requestsPerSecond: readRate(
          env,
          budget === 'historical' ? 'FLOWDROP_REQUESTS_PER_SECOND' : 'FLOWDROP_SNAPSHOTS_PER_SECOND',
        ),
        redisUrl,
      });
    };
    const name = `${budget} ${apiKey}`;
    const pacer = pacers.get(name) ?? open();
    pacers.set(name, pacer);
    return pacer;
  };
  const openAnyMailer = async () => {
    const smtpUrl = readSecret(env, 'FLOWDROP_SMTP_URL', cwd);
    if (smtpUrl) {
      const patienceMs = readMailPatienceMs(env);
      const { openSmtpMailer } = await import('./mail/smtp.ts');
      return openSmtpMailer({ url: smtpUrl, ...(patienceMs === undefined ? {} : { patienceMs }) });
    }
    const directory = resolve(cwd, setting('FLOWDROP_OUTBOX_DIR'));
    return (await import('./mail/outbox.ts')).openOutboxMailer({ directory });
  };
  const openBareStore = async (location: StoreLocation, objects: ObjectOptions): Promise<Store> => {
    if (location.kind === 'directory') {
      const { openDirectoryStore } = await import('./store/directory.ts');
      return await openDirectoryStore(location.path, { make: false });
    }
    const { openS3Store } = await import('./store/s3.ts');
    const log = await openLog();
    return await openS3Store(
      { ...s3Options(env, location), objects },
      { clock, note: (text) => log.debug({ event: 'store-note' }, text) },
    );
  };
  return {
    clock,
    get clockRule() {
      return readClockRule(env);
    },
    runId,
    version: readVersion(input.packageDir),
    stateDir,
    packageDir: input.packageDir,
    templatesDir: join(input.packageDir, 'templates'),
    mailFrom: setting('FLOWDROP_MAIL_FROM'),
    get keyFingerprint() {
      return fingerprint(readSecret(env, 'FLOWDROP_API_KEY', cwd));
    },
    redact: (text) => maskByKey(createRedactor(secrets())(text)),
    maskValues(text) {
      maskValues ??= createRedactor(secrets());
      return maskValues(text);
    },
    openLog,
    async openStore(to, { objects = {}, use = 'look' } = {}) {
      const { parseLocation } = await import('./store/location.ts');
      const { holdStore } = await import('./store/held-store.ts');
      const location = parseLocation(to, cwd);
      const store = await openBareStore(location, objects);
      try {
        const place = { kind: location.kind, address: formatAddress(env, location), stateDir };
        return await holdStore(store, place, use, clock);
      } catch (error) {
        await store.close();
        throw error;
      }
    },
    async tryUpload(to, objects, key, signal) {
      const { parseLocation } = await import('./store/location.ts');
      const location = parseLocation(to, cwd);
      if (location.kind === 'directory') return false;
      await (await import('./store/s3-trial.ts')).tryS3Upload({ ...s3Options(env, location), objects }, key, signal);
      return true;
    },
    async readAccess(to) {
      const { parseLocation } = await import('./store/location.ts');
      const location = parseLocation(to, cwd);
      if (location.kind === 'directory') return location;
      const { readS3Access } = await import('./store/s3-access.ts');
      return await readS3Access(s3Options(env, location));
    },
    async openEngine(options) {
      return await (await import('./engine/embedded.ts')).openEmbeddedEngine(options);
    },
    async openWorkers(options) {
      return await (await import('./engine/worker-pool.ts')).openWorkerPool(options);
    },
    async openServer(options) {
      return await (await import('./engine/server.ts')).openServerEngine(options);
    },
    async openServerPool(options) {
      return await (await import('./engine/server-pool.ts')).openServerPool(options);
    },
    get clickhouse() {
      const url = readSecret(env, 'FLOWDROP_CLICKHOUSE_URL', cwd);
      const adminUrl = readSecret(env, 'FLOWDROP_CLICKHOUSE_ADMIN_URL', cwd);
      return { ...(url ? { url } : {}), ...(adminUrl ? { adminUrl } : {}) };
    },
    sourceUrl: (api) => sourceUrl(env, api),
    async openSource(api, log, clockOffsetMs) {
      const { createHistoricalSource } = await import('./source/historical.ts');
      const apiKey = readApiKey(env, cwd);
      const pacer = await openPacer('historical', apiKey);
      return createHistoricalSource(
        { url: sourceUrl(env, api), apiKey, expectsMeta: api === 'historical', clockOffsetMs },
        { clock, pacer, log },
      );
    },
    async openSnapshots(source, log, clockOffsetMs) {
      const apiKey = readApiKey(env, cwd);
      const options = { url: sourceUrl(env, source.api), apiKey, clockOffsetMs };
      const deps = { clock, pacer: await openPacer(source.api, apiKey), log };
      if (source.api === 'chain') return (await import('./source/chain.ts')).createChainClient(options, deps);
      const { createMarketStructureClient } = await import('./source/market-structure.ts');
      return createMarketStructureClient(options, source.columns, deps);
    },
    async openTable(source, log) {
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
    async openMailer() {
      const domains = env['FLOWDROP_MAIL_DOMAINS'];
      if (!domains) return await openAnyMailer();
      const { parseMailDomains, restrictMailer } = await import('./mail/domains.ts');
      const allowed = parseMailDomains(domains);
      return restrictMailer(await openAnyMailer(), allowed);
    },
    async openWebhook() {
      const settings = readAlertWebhook(env, cwd);
      return settings && (await import('./mail/webhook.ts')).createWebhook(settings, clock);
    },
    get maxRuns() {
      return readMaxRuns(env);
    },
    get redisUrl() {
      return readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
    },
    async checkRedis() {
      const url = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
      return url && (await (await import('./source/pace/redis-check.ts')).checkRedis(url));
    },
    async openCoordinator(daemonId, storeOf) {
      const url = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
      if (!url) return undefined;
      const { parseLocation } = await import('./store/location.ts');
      const { openRedisCoordinator } = await import('./daemon/redis-coordinator.ts');
      return openRedisCoordinator({
        url,
        daemonId,
        storeOf: (job) => {
          return formatAddress(env, parseLocation(storeOf(job), cwd));
        },
      });
    },
    get statusAddress() {
      return readStatusSettings(env, cwd);
    },
    readCalendar: () => readCalendar(env, cwd),
    reportSettings: () => reportSettings(env, cwd),
    async close() {
      const opened = await Promise.allSettled(pacers.values());
      for (const pacer of opened) if (pacer.status === 'fulfilled') await pacer.value.close?.();
      pacers.clear();
    },
  };
}

/** Buckets of one name at two servers are two stores. */
function formatAddress(env: Environment, location: StoreLocation): string {
  if (location.kind === 'directory') return location.path;
  return `${env['AWS_ENDPOINT_URL_S3'] ?? ''} s3://${location.bucket}/${location.prefix}`;
}

function s3Options(
  env: Environment,
  { bucket, prefix }: { readonly bucket: string; readonly prefix: string },
): S3Options {
  return {
    bucket,
    prefix,
    ...(env['AWS_ENDPOINT_URL_S3'] ? { endpoint: env['AWS_ENDPOINT_URL_S3'] } : {}),
    ...(env['AWS_REGION'] ? { region: env['AWS_REGION'] } : {}),
    ...(env['FLOWDROP_S3_PATH_STYLE'] ? { pathStyle: readFlag(env, 'FLOWDROP_S3_PATH_STYLE') } : {}),
  };
}

function fingerprint(key: string | undefined): string {
  return key === undefined ? '' : createHash('sha256').update(key).digest('hex').slice(0, 16);
}
