/**
 * The composition root: settings from the environment -> concrete source, engine, store, mailer, clock and log. The only
 * module that knows the implementations. Everything heavy is imported when it is opened.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Composition } from './cli/context.ts';
import { type Clock, systemClock } from './core/clock.ts';
import { Fault } from './core/errors.ts';
import { createRedactor } from './core/redact.ts';
import type { SourceApi } from './job/job.ts';
import type { Pacer } from './source/pacer.ts';
import { HISTORICAL_PATH, PORTAL_PATH, REQUESTS_PER_SECOND } from './wire/limits.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ComposeInput {
  readonly env: Environment;
  readonly cwd: string;
  /** Root of the package: templates and version are read from there. */
  readonly packageDir: string;
  readonly writeErr: (text: string) => void;
  /** Pretty log lines instead of JSON. */
  readonly interactive: boolean;
  readonly debug: boolean;
}

/** Settings that have a default; the rest is asked for when it is needed. */
const DEFAULTS = {
  FLOWDROP_STATE_DIR: '.flowdrop',
  FLOWDROP_OUTBOX_DIR: 'out/mail',
  FLOWDROP_MAIL_FROM: 'flowdrop@localhost',
  FLOWDROP_LOG_LEVEL: 'info',
} as const;

const LOG_LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error', 'silent'];

export function createComposition(input: ComposeInput): Composition {
  const { env, cwd } = input;
  const clock: Clock = systemClock;
  const pacers = new Map<string, Pacer>();
  const setting = (name: keyof typeof DEFAULTS) => env[name] || DEFAULTS[name];
  const secrets = () => listSecrets(env, cwd);
  return {
    clock,
    version: readVersion(input.packageDir),
    stateDir: resolve(cwd, setting('FLOWDROP_STATE_DIR')),
    packageDir: input.packageDir,
    templatesDir: join(input.packageDir, 'templates'),
    mailFrom: setting('FLOWDROP_MAIL_FROM'),
    redact: (text) => createRedactor(secrets())(text),
    async openLog(options = {}) {
      const { createLog } = await import('./core/log.ts');
      const level = input.debug ? 'debug' : options.quiet ? 'error' : readLevel(setting('FLOWDROP_LOG_LEVEL'));
      const all = [...secrets(), ...(options.secrets ?? [])];
      return createLog({ level, pretty: input.interactive, secrets: all, write: input.writeErr });
    },
    async openStore(to) {
      const { parseLocation } = await import('./store/location.ts');
      const location = parseLocation(to, cwd);
      if (location.kind === 'directory')
        return await (await import('./store/directory.ts')).openDirectoryStore(location.path);
      const { openS3Store } = await import('./store/s3.ts');
      return await openS3Store({
        bucket: location.bucket,
        prefix: location.prefix,
        ...(env['AWS_ENDPOINT_URL_S3'] ? { endpoint: env['AWS_ENDPOINT_URL_S3'] } : {}),
        ...(env['AWS_REGION'] ? { region: env['AWS_REGION'] } : {}),
        ...(env['FLOWDROP_S3_PATH_STYLE'] ? { pathStyle: readFlag(env, 'FLOWDROP_S3_PATH_STYLE') } : {}),
      });
    },
    async openEngine(path) {
      const { openEmbeddedEngine } = await import('./engine/embedded.ts');
      return await openEmbeddedEngine(path === undefined ? {} : { path });
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
      const { createPacer } = await import('./source/pacer.ts');
      const { createHistoricalSource } = await import('./source/historical.ts');
      const apiKey = readSecret(env, 'FLOWDROP_API_KEY', cwd);
      if (!apiKey) {
        throw new Fault('SETTING_MISSING', 'FLOWDROP_API_KEY is not set', {
          kind: 'usage',
          hint: 'Set it, or FLOWDROP_API_KEY_FILE, to the key of the options data API. `flowdrop demo` needs none.',
        });
      }
      // One budget per key, whichever entry point it is used at.
      const pacer = pacers.get(apiKey) ?? createPacer(clock, { requestsPerSecond: readRate(env) });
      pacers.set(apiKey, pacer);
      return createHistoricalSource(
        { url: sourceUrl(env, api), apiKey, expectsMeta: api === 'historical', clockOffsetMs },
        { clock, pacer, log },
      );
    },
    async openMailer() {
      const smtpUrl = readSecret(env, 'FLOWDROP_SMTP_URL', cwd);
      if (smtpUrl) return (await import('./mail/smtp.ts')).openSmtpMailer({ url: smtpUrl });
      return (await import('./mail/outbox.ts')).openOutboxMailer({
        directory: resolve(cwd, setting('FLOWDROP_OUTBOX_DIR')),
      });
    },
  };
}

function sourceUrl(env: Environment, api: SourceApi): string {
  const [name, path] =
    api === 'historical'
      ? (['FLOWDROP_API_URL', HISTORICAL_PATH] as const)
      : (['FLOWDROP_PORTAL_URL', PORTAL_PATH] as const);
  const base = env[name];
  if (!base) {
    throw new Fault('SETTING_MISSING', `${name} is not set`, {
      kind: 'usage',
      hint: 'Set it to the address of the options data API, e.g. https://api.example.com. `flowdrop demo` needs none.',
    });
  }
  const url = URL.canParse(base) ? new URL(base) : undefined;
  if (url && (url.username || url.password || url.search || url.hash)) {
    // The value is not repeated: what does not belong there may be a secret.
    throw new Fault(
      'SETTING_INVALID',
      `${name} has a user, a password or a query in it; allowed is scheme, host, port and path`,
      {
        kind: 'usage',
        hint: 'The key goes into FLOWDROP_API_KEY.',
      },
    );
  }
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new Fault('SETTING_INVALID', `${name} is ${JSON.stringify(base)}; allowed is an http or https address`, {
      kind: 'usage',
    });
  }
  return `${base.replace(/\/+$/, '')}${path}`;
}

/** The variable, or the content of the file that `<NAME>_FILE` names. @throws Fault when the file cannot be read */
function readSecret(env: Environment, name: string, cwd: string): string | undefined {
  const value = env[name];
  if (value) return value;
  const file = env[`${name}_FILE`];
  if (!file) return undefined;
  try {
    return readFileSync(resolve(cwd, file), 'utf8').trim();
  } catch (cause) {
    throw new Fault('SETTING_INVALID', `${name}_FILE names ${file}, which cannot be read`, { kind: 'usage', cause });
  }
}

function readRate(env: Environment): number {
  const text = env['FLOWDROP_REQUESTS_PER_SECOND'];
  if (!text) return REQUESTS_PER_SECOND;
  const rate = Number(text);
  if (Number.isFinite(rate) && rate > 0) return rate;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_REQUESTS_PER_SECOND is ${JSON.stringify(text)}; allowed is a number above 0`,
    { kind: 'usage' },
  );
}

function readFlag(env: Environment, name: string): boolean {
  const text = env[name]?.toLowerCase();
  if (text === 'true' || text === '1') return true;
  if (text === 'false' || text === '0') return false;
  throw new Fault('SETTING_INVALID', `${name} is ${JSON.stringify(env[name])}; allowed are true and false`, {
    kind: 'usage',
  });
}

/** Values that must never be shown. A secret that cannot be read now is told when it is needed. */
function listSecrets(env: Environment, cwd: string): readonly string[] {
  const read = (name: string) => {
    try {
      return readSecret(env, name, cwd) ?? '';
    } catch {
      return '';
    }
  };
  const urls = ['FLOWDROP_SMTP_URL', 'FLOWDROP_CLICKHOUSE_URL', 'FLOWDROP_CLICKHOUSE_ADMIN_URL'].map(read);
  const passwords = urls.map((url) => (URL.canParse(url) ? new URL(url).password : ''));
  const aws = [env['AWS_SECRET_ACCESS_KEY'] ?? '', env['AWS_SESSION_TOKEN'] ?? ''];
  const all = [read('FLOWDROP_API_KEY'), ...passwords, ...passwords.map(decodePercent), ...aws];
  return all.filter((secret) => secret !== '');
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readLevel(level: string): string {
  if (LOG_LEVELS.includes(level)) return level;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_LOG_LEVEL is ${JSON.stringify(level)}; allowed are ${LOG_LEVELS.join(', ')}`,
    {
      kind: 'usage',
    },
  );
}

function readVersion(packageDir: string): string {
  return (JSON.parse(readFileSync(join(packageDir, 'package.json'), 'utf8')) as { version: string }).version;
}
