/**
 * The composition root: settings from the environment -> concrete source, engine, store, mailer, clock and log. The
 * only module that knows the implementations. Heavy modules are imported only when they are opened.
 */
import { createHash } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Composition, DaemonOpeners } from './cli/context.ts';
import { systemClock } from './core/clock.ts';
import { Fault } from './core/errors.ts';
import { createRedactor, maskByKey } from './core/redact.ts';
import { chooseRunId } from './core/run-id.ts';
import type { EnginePool } from './engine/pool.ts';
import type { WorkerPoolOptions } from './engine/worker-pool.ts';
import type { Mailer } from './mail/mailer.ts';
import type { Openers } from './run/openers.ts';
import {
  assertAwsKeys,
  DEFAULTS,
  type Environment,
  listSecrets,
  readApiKey,
  readCalendar,
  readClockRule,
  readFlag,
  readIsLogPretty,
  readKey,
  readLevel,
  readMailPatienceMs,
  readMaxRuns,
  readRate,
  readSecret,
  readVersion,
  readWebhook,
  sourceUrl,
} from './settings/settings.ts';
import { listUnknown, reportSettings } from './settings/settings-report.ts';
import { readHistoryDays, readPublicUrl, readStatusSettings } from './settings/status-settings.ts';
import type { BudgetName } from './source/pace/budget.ts';
import type { Pacer } from './source/pacer.ts';
import type { StoreLocation } from './store/location.ts';
import type { S3Options } from './store/s3-client.ts';
import type { ObjectOptions, Store } from './store/store.ts';

interface ComposeInput {
  readonly env: Environment;
  readonly cwd: string;
  /** Root of the package: templates, version and the shipped job are read from there. */
  readonly packageDir: string;
  readonly writeErr: (text: string) => void;
  /** Whether stderr is a terminal: then log lines are pretty by default. */
  readonly interactive: boolean;
  readonly debug: boolean;
}

export function createComposition(input: ComposeInput): Composition {
  const { env, cwd, packageDir } = input;
  const stateDir = resolve(cwd, readSetting(env, 'FLOWDROP_STATE_DIR'));
  const pacers = createPacers(env, cwd, stateDir);
  const openers = createOpeners(input, stateDir, pacers.open);
  let mask: ((text: string) => string) | undefined;
  return {
    openers,
    archive: {
      openWorkers,
      async readAccess(to) {
        const { parseLocation } = await import('./store/location.ts');
        const location = parseLocation(to, cwd);
        if (location.kind === 'directory') return location;
        const { readS3Access } = await import('./store/s3-access.ts');
        return await readS3Access(s3Options(env, location));
      },
      async openServer(given) {
        const url = given ?? readSecret(env, 'FLOWDROP_QUERY_ENGINE_URL', cwd);
        if (!url) return undefined;
        return {
          engine: await (await import('./engine/server.ts')).openServerEngine({ url }),
          collection: readSetting(env, 'FLOWDROP_QUERY_ENGINE_COLLECTION'),
          cluster: env['FLOWDROP_QUERY_ENGINE_CLUSTER'] || undefined,
        };
      },
    },
    service: {
      openWorkers,
      async openServer(options) {
        return await (await import('./engine/server.ts')).openServerEngine(options);
      },
      async openServerPool(options) {
        return await (await import('./engine/server-pool.ts')).openServerPool(options);
      },
      readS3Defaults: () => readS3Defaults(env),
      readRedisUrl: () => readSecret(env, 'FLOWDROP_REDIS_URL', cwd) || undefined,
      readClickhouse: () => ({
        url: readSecret(env, 'FLOWDROP_CLICKHOUSE_URL', cwd) || undefined,
        adminUrl: readSecret(env, 'FLOWDROP_CLICKHOUSE_ADMIN_URL', cwd) || undefined,
      }),
    },
    daemon: createDaemonOpeners(env, cwd),
    doctor: {
      reportSettings: () => reportSettings(env, cwd),
      reportUnknown: () => listUnknown(env),
      findOutbox: () => (readSecret(env, 'FLOWDROP_SMTP_URL', cwd) ? undefined : outboxDirectory(env, cwd)),
      async checkRedis() {
        const url = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
        return url && (await (await import('./source/pace/redis-check.ts')).checkRedis(url));
      },
      async tryUpload(to, objects, key, signal) {
        const { parseLocation } = await import('./store/location.ts');
        const location = parseLocation(to, cwd);
        if (location.kind === 'directory') return false;
        await (await import('./store/s3-trial.ts')).tryS3Upload({ ...s3Options(env, location), objects }, key, signal);
        return true;
      },
    },
    shippedJob: join(packageDir, 'jobs', 'nightly-trades.yaml'),
    maskValues(text) {
      mask ??= createRedactor(listSecrets(env, cwd));
      return mask(text);
    },
    close: pacers.close,
  };
}

type OpenPacer = (budget: BudgetName, apiKey: string) => Promise<Pacer>;

function createOpeners(input: ComposeInput, stateDir: string, openPacer: OpenPacer): Openers {
  const { env, cwd, packageDir } = input;
  const clock = systemClock;
  const runId = chooseRunId(env['FLOWDROP_RUN_ID'], clock.now());
  const secrets = () => listSecrets(env, cwd);
  let keepLine: ((line: string) => void) | undefined;
  const openLog: Openers['openLog'] = async ({ quiet, isService, secrets: more = [] } = {}) => {
    const { createLog } = await import('./core/log.ts');
    return createLog({
      level: input.debug ? 'debug' : quiet ? 'error' : readLevel(readSetting(env, 'FLOWDROP_LOG_LEVEL')),
      pretty: readIsLogPretty(env, input.interactive),
      secrets: [...secrets(), ...more],
      write: input.writeErr,
      keep: (line) => keepLine?.(line),
      run: isService ? undefined : runId,
    });
  };
  const keepLog = (path: string) => {
    // Synchronous: the last lines of a process count most.
    keepLine = (line) => {
      try {
        appendFileSync(path, line, { mode: 0o640 });
      } catch {
        keepLine = undefined;
      }
    };
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
    readClockRule: () => readClockRule(env),
    runId,
    version: readVersion(packageDir),
    stateDir,
    templatesDir: join(packageDir, 'templates'),
    readPublicUrl: () => readPublicUrl(env),
    mailFrom: readSetting(env, 'FLOWDROP_MAIL_FROM'),
    readKeyFingerprint: (access) => fingerprint(readKey(env, cwd, access)),
    redact: (text) => maskByKey(createRedactor(secrets())(text)),
    openLog,
    keepLog,
    readHistoryDays: () => readHistoryDays(env),
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
    async openEngine(options) {
      return await (await import('./engine/embedded.ts')).openEmbeddedEngine(options);
    },
    sourceUrl: (api) => sourceUrl(env, api),
    async openSource(source, log, clockOffsetMs) {
      const { api } = source;
      const { createHistoricalSource } = await import('./source/historical.ts');
      const apiKey = readApiKey(env, cwd, source);
      const pacer = await openPacer('historical', apiKey);
      return createHistoricalSource(
        { url: sourceUrl(env, api), apiKey, expectsMeta: api === 'historical', clockOffsetMs },
        { clock, pacer, log },
      );
    },
    async openSnapshots(source, log, clockOffsetMs) {
      const apiKey = readApiKey(env, cwd, source);
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
    async openCatalog(target) {
      const token = readSecret(env, 'FLOWDROP_CATALOG_TOKEN', cwd);
      const credential = readSecret(env, 'FLOWDROP_CATALOG_CREDENTIAL', cwd);
      return (await import('./catalog/rest-catalog.ts')).openRestCatalog(target, { token, credential });
    },
    async openMailer() {
      const domains = env['FLOWDROP_MAIL_DOMAINS'];
      if (!domains) return await openAnyMailer(env, cwd);
      const { parseMailDomains, restrictMailer } = await import('./mail/domains.ts');
      const allowed = parseMailDomains(domains);
      return restrictMailer(await openAnyMailer(env, cwd), allowed);
    },
    async openWebhook(use, address) {
      const settings = readWebhook(env, cwd, use, address);
      return settings && (await import('./mail/webhook.ts')).createWebhook(settings, clock);
    },
    readCalendar: () => readCalendar(env, cwd),
  };
}

function createDaemonOpeners(env: Environment, cwd: string): DaemonOpeners {
  return {
    readMaxRuns: () => readMaxRuns(env),
    readStatusSettings: () => readStatusSettings(env, cwd),
    hasRedis: () => Boolean(readSecret(env, 'FLOWDROP_REDIS_URL', cwd)),
    async openCoordinator(daemonId, storeOf) {
      const url = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
      if (!url) return undefined;
      const { parseLocation } = await import('./store/location.ts');
      const { openRedisCoordinator } = await import('./daemon/redis-coordinator.ts');
      return openRedisCoordinator({
        url,
        daemonId,
        storeOf: (job) => formatAddress(env, parseLocation(storeOf(job), cwd)),
      });
    },
  };
}

/** One pacer per budget and key, for all entry points. */
function createPacers(env: Environment, cwd: string, stateDir: string): { open: OpenPacer; close(): Promise<void> } {
  const pacers = new Map<string, Promise<Pacer>>();
  const open: OpenPacer = async (budget, apiKey) => {
    const redisUrl = readSecret(env, 'FLOWDROP_REDIS_URL', cwd);
    const pacer = await import('./source/pacer.ts');
    const setting = budget === 'historical' ? 'FLOWDROP_REQUESTS_PER_SECOND' : 'FLOWDROP_SNAPSHOTS_PER_SECOND';
    const requestsPerSecond = readRate(env, setting);
    return await pacer.openPacer(budget, { clock: systemClock, stateDir, apiKey, requestsPerSecond, redisUrl });
  };
  return {
    open(budget, apiKey) {
      const name = `${budget} ${apiKey}`;
      const pacer = pacers.get(name) ?? open(budget, apiKey);
      pacers.set(name, pacer);
      return pacer;
    },
    async close() {
      const opened = await Promise.allSettled(pacers.values());
      for (const pacer of opened) if (pacer.status === 'fulfilled') await pacer.value.close?.();
      pacers.clear();
    },
  };
}

async function openAnyMailer(env: Environment, cwd: string): Promise<Mailer> {
  const url = readSecret(env, 'FLOWDROP_SMTP_URL', cwd);
  if (url) {
    const patienceMs = readMailPatienceMs(env);
    return (await import('./mail/smtp.ts')).openSmtpMailer({ url, patienceMs });
  }
  return (await import('./mail/outbox.ts')).openOutboxMailer({ directory: outboxDirectory(env, cwd) });
}

function outboxDirectory(env: Environment, cwd: string): string {
  return resolve(cwd, readSetting(env, 'FLOWDROP_OUTBOX_DIR'));
}

async function openWorkers(options: WorkerPoolOptions): Promise<EnginePool> {
  return await (await import('./engine/worker-pool.ts')).openWorkerPool(options);
}

function readSetting(env: Environment, name: keyof typeof DEFAULTS): string {
  return env[name] || DEFAULTS[name];
}

/** Includes the endpoint: buckets of the same name on two servers are two stores. */
function formatAddress(env: Environment, location: StoreLocation): string {
  if (location.kind === 'directory') return location.path;
  return `${env['AWS_ENDPOINT_URL_S3'] ?? ''} s3://${location.bucket}/${location.prefix}`;
}

function s3Options(
  env: Environment,
  { bucket, prefix }: { readonly bucket: string; readonly prefix: string },
): S3Options {
  assertAwsKeys(env);
  return {
    bucket,
    prefix,
    endpoint: env['AWS_ENDPOINT_URL_S3'] || undefined,
    region: env['AWS_REGION'] || undefined,
    pathStyle: env['FLOWDROP_S3_PATH_STYLE'] ? readFlag(env, 'FLOWDROP_S3_PATH_STYLE') : undefined,
  };
}

/** Names of properties differ between clients, so each fact has those of Java and Python. */
function readS3Defaults(env: Environment): Readonly<Record<string, string>> {
  const { AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: region } = env;
  const address = endpoint && URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isPathStyle = Boolean(env['FLOWDROP_S3_PATH_STYLE'] && readFlag(env, 'FLOWDROP_S3_PATH_STYLE'));
  return {
    ...(address ? { 's3.endpoint': `${address.protocol}//${address.host}${address.pathname.replace(/\/$/, '')}` } : {}),
    ...(region ? { 'client.region': region, 's3.region': region } : {}),
    ...(isPathStyle ? { 's3.path-style-access': 'true' } : {}),
  };
}

function fingerprint(key: string | undefined): string {
  return key === undefined ? '' : createHash('sha256').update(key).digest('hex').slice(0, 16);
}
