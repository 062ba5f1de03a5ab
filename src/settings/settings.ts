/**
 * Settings: reads the environment; an error names the variable, the value and the allowed values. Secrets may come from
 * files and never appear in a message. `openers.ts` turns settings into concrete parts.
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  CHAIN_PATH,
  HISTORICAL_PATH,
  MARKET_STRUCTURE_PATH,
  PORTAL_PATH,
  REQUESTS_PER_SECOND,
} from '../api-contract/published-limits.ts';
import { type CalendarOverride, NO_OVERRIDE } from '../calendar/session.ts';
import { Fault } from '../core/errors.ts';
import type { ApiAccess, SnapshotApi, SqlApi } from '../job/job.ts';
import type { WebhookUse } from '../mail/webhook.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Settings that have a default; the others are required only when they are needed. */
export const DEFAULTS = {
  FLOWDROP_STATE_DIR: '.flowdrop',
  FLOWDROP_OUTBOX_DIR: 'out/mail',
  FLOWDROP_MAIL_FROM: 'flowdrop@localhost',
  FLOWDROP_LOG_LEVEL: 'info',
  FLOWDROP_STATUS_ADDRESS: '127.0.0.1:8686',
  FLOWDROP_STATUS_ACTIONS: 'on',
  FLOWDROP_RUN_HISTORY_DAYS: '90',
  FLOWDROP_QUERY_ENGINE_COLLECTION: 'flowdrop',
} as const;

/** The shortest webhook path that counts as a secret: those of chat tools have 40 characters and more. */
const MIN_SECRET_PATH_CHARACTERS = 16;

const LOG_LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error', 'silent'];
const LOG_FORMATS: readonly string[] = ['json', 'pretty'];

/** Entry points: the setting with their address, and their path; a symbol follows the path of market structure. */
const ENTRY_POINTS = {
  historical: ['FLOWDROP_API_URL', HISTORICAL_PATH],
  portal: ['FLOWDROP_PORTAL_URL', PORTAL_PATH],
  chain: ['FLOWDROP_API_URL', CHAIN_PATH],
  'market-structure': ['FLOWDROP_API_URL', MARKET_STRUCTURE_PATH.replace('/:symbol', '')],
} as const satisfies Readonly<Record<SqlApi | SnapshotApi, readonly [string, string]>>;

export function sourceUrl(env: Environment, api: SqlApi | SnapshotApi): string {
  const [name, path] = ENTRY_POINTS[api];
  const base = env[name];
  if (!base) {
    throw new Fault('SETTING_MISSING', `${name} is not set`, {
      kind: 'usage',
      hint: 'Set it to the address of the options data API, e.g. https://api.example.com. `flowdrop demo` needs none.',
    });
  }
  const url = URL.canParse(base) ? new URL(base) : undefined;
  if (url && (url.username || url.password || url.search || url.hash)) {
    // The message does not repeat the value: it may contain a secret.
    throw new Fault(
      'SETTING_INVALID',
      `${name} contains a user, a password or a query; allowed is scheme, host, port and path`,
      {
        kind: 'usage',
        hint: 'Put the key into FLOWDROP_API_KEY.',
      },
    );
  }
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new Fault('SETTING_INVALID', `${name} is ${JSON.stringify(base)}; allowed is an http or https address`, {
      kind: 'usage',
      hint: `Write it with its scheme, e.g. ${name}=https://api.example.com, in the environment or in .env.`,
    });
  }
  return `${base.replace(/\/+$/, '')}${path}`;
}

/** Settings with the keys that jobs name (`source.key`) begin with this; the name follows in capitals. */
export const JOB_KEY_PREFIX = 'FLOWDROP_KEY_';

/** The setting with the key: the job's own, or that of the entry point. The portal's is optional. */
function findKeySetting(env: Environment, { api, key }: ApiAccess): string {
  if (key !== null) return `${JOB_KEY_PREFIX}${key.toUpperCase().replaceAll('-', '_')}`;
  const hasOwn = Boolean(env['FLOWDROP_PORTAL_KEY'] || env['FLOWDROP_PORTAL_KEY_FILE']);
  return api === 'portal' && hasOwn ? 'FLOWDROP_PORTAL_KEY' : 'FLOWDROP_API_KEY';
}

/** `undefined` if it is not set. @throws Fault `SETTING_INVALID` */
export function readKey(env: Environment, cwd: string, access: ApiAccess): string | undefined {
  return readSecret(env, findKeySetting(env, access), cwd);
}

/** @throws Fault `SETTING_MISSING`, `SETTING_INVALID` */
export function readApiKey(env: Environment, cwd: string, access: ApiAccess): string {
  const apiKey = readKey(env, cwd, access);
  if (apiKey) return apiKey;
  const name = findKeySetting(env, access);
  const whose =
    access.key === null ? 'the key of the options data API' : `the key that \`source.key: ${access.key}\` names`;
  throw new Fault('SETTING_MISSING', `${name} is not set`, {
    kind: 'usage',
    hint: `Set it, or ${name}_FILE, to ${whose}. \`flowdrop demo\` needs none.`,
  });
}

/** Secrets that are sent as they are: a shell or a file that keeps quotes or a line break makes each a wrong one. */
const PLAIN_SECRET = /^FLOWDROP_(?:KEY_.*|(?:API|PORTAL)_KEY|CATALOG_TOKEN)$/;

/**
 * The variable, or the content of the file that `<NAME>_FILE` names, without blanks around it.
 * @throws Fault `SETTING_INVALID` if the file cannot be read, or if a key has blanks or quotes in it
 */
export function readSecret(env: Environment, name: string, cwd: string): string | undefined {
  const secret = readText(env, name, cwd);
  if (secret && PLAIN_SECRET.test(name)) assertPlain(name, secret);
  return secret;
}

/** @throws Fault `SETTING_INVALID`, without the value */
function assertPlain(name: string, value: string): void {
  const isQuoted = /^["'`]|["'`]$/.test(value);
  if (!isQuoted && /^[!-~]*$/.test(value)) return;
  const odd = isQuoted ? 'quotes' : 'blanks or characters beyond ASCII';
  throw new Fault(
    'SETTING_INVALID',
    `${name} has ${odd} in it (the value is not shown); allowed are letters, digits and signs`,
    {
      kind: 'usage',
      hint: `Write ${name}=VALUE: Docker's --env-file keeps quotes and comments as part of the value. \`flowdrop doctor\` checks it.`,
    },
  );
}

function readText(env: Environment, name: string, cwd: string): string | undefined {
  const value = env[name]?.trim();
  if (value) return value;
  const file = env[`${name}_FILE`];
  if (!file) return undefined;
  try {
    return readFileSync(resolve(cwd, file), 'utf8').trim();
  } catch (cause) {
    throw new Fault('SETTING_INVALID', `${name}_FILE names ${file}, which cannot be read`, {
      kind: 'usage',
      cause,
      hint: `Name a file that this user may read, or unset ${name}_FILE and set ${name}.`,
    });
  }
}

/** Requests per second that the provider allows: for historical SQL, or for each kind of snapshot. */
export function readRate(
  env: Environment,
  name: 'FLOWDROP_REQUESTS_PER_SECOND' | 'FLOWDROP_SNAPSHOTS_PER_SECOND',
): number {
  const text = env[name];
  if (!text) return REQUESTS_PER_SECOND;
  const rate = Number(text);
  if (Number.isFinite(rate) && rate > 0) return rate;
  throw new Fault('SETTING_INVALID', `${name} is ${JSON.stringify(text)}; allowed is a number above 0`, {
    kind: 'usage',
    hint: 'Set it to what the provider allows, or unset it for the default.',
  });
}

const CLOCK_RULES = ['checked', 'source'] as const;

/** Which clocks decide what is exported. @throws Fault `SETTING_INVALID` */
export function readClockRule(env: Environment): (typeof CLOCK_RULES)[number] {
  const text = env['FLOWDROP_CLOCK'];
  if (!text) return 'checked';
  const rule = CLOCK_RULES.find((known) => known === text);
  if (rule !== undefined) return rule;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_CLOCK is ${JSON.stringify(text)}; allowed are ${CLOCK_RULES.join(' and ')}`,
    { kind: 'usage', hint: 'Unset it: then all clocks are checked. `source` is for rehearsals only.' },
  );
}

/** Runs of a daemon at the same time: they share the pace of the key, so more of them wait longer for each other. */
const MAX_RUNS_DEFAULT = 2;
/** Each run is a process with its own engine; a machine runs out of memory long before this limit. */
const MAX_RUNS_LIMIT = 64;

/** Most runs that a daemon executes at the same time. @throws Fault `SETTING_INVALID` */
export function readMaxRuns(env: Environment): number {
  const text = env['FLOWDROP_MAX_RUNS'];
  if (!text) return MAX_RUNS_DEFAULT;
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= MAX_RUNS_LIMIT) return count;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_MAX_RUNS is ${JSON.stringify(text)}; allowed is a whole number from 1 to ${MAX_RUNS_LIMIT}`,
    { kind: 'usage' },
  );
}

interface WebhookSettings {
  readonly use: WebhookUse;
  readonly url: string;
  readonly secret: string | undefined;
}

/** The settings with address and secret of each webhook, and where a person finds the address. */
const WEBHOOKS = {
  alert: ['FLOWDROP_ALERT_WEBHOOK_URL', 'FLOWDROP_ALERT_WEBHOOK_SECRET', 'that the chat tool gave you'],
  event: ['FLOWDROP_EVENTS_URL', 'FLOWDROP_EVENTS_SECRET', 'of the program that receives events'],
} as const satisfies Readonly<Record<WebhookUse, readonly [string, string, string]>>;

/**
 * Where alerts or events are posted; `undefined` without an address. @throws Fault `SETTING_INVALID` that does not
 * contain the address
 * @param address of a job's own, instead of the setting's; signed with the same secret
 */
export function readWebhook(
  env: Environment,
  cwd: string,
  use: WebhookUse,
  address?: string,
): WebhookSettings | undefined {
  const [urlName, secretName, whose] = WEBHOOKS[use];
  const url = address ?? readSecret(env, urlName, cwd);
  if (!url) return undefined;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    // The message does not repeat the value: anyone who knows the address can post there.
    throw new Fault('SETTING_INVALID', `${urlName} is not an address; allowed is https:// or http://`, {
      kind: 'usage',
      hint: `Set it, or ${urlName}_FILE, to the address ${whose}.`,
    });
  }
  const secret = readSecret(env, secretName, cwd);
  return { use, url, secret };
}

/** Total time to keep retrying deferred mail; `undefined` for the default. */
export function readMailPatienceMs(env: Environment): number | undefined {
  const text = env['FLOWDROP_MAIL_RETRY_SECONDS'];
  if (!text) return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_MAIL_RETRY_SECONDS is ${JSON.stringify(text)}; allowed is a number of seconds, 0 for no second try`,
    { kind: 'usage', hint: 'Unset it for the default.' },
  );
}

export function readFlag(env: Environment, name: string): boolean {
  const text = env[name]?.toLowerCase();
  if (text === 'true' || text === '1') return true;
  if (text === 'false' || text === '0') return false;
  throw new Fault('SETTING_INVALID', `${name} is ${JSON.stringify(env[name])}; allowed are true and false`, {
    kind: 'usage',
    hint: 'Unset it for false.',
  });
}

/** The SDK reads these itself, and sends what it finds. @throws Fault `SETTING_INVALID` */
export function assertAwsKeys(env: Environment): void {
  for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']) {
    const value = env[name];
    if (value) assertPlain(name, value);
  }
}

/** Values that must never be shown. A secret that cannot be read now is reported when it is needed. */
export function listSecrets(env: Environment, cwd: string): readonly string[] {
  const read = (name: string) => {
    try {
      return readText(env, name, cwd) ?? '';
    } catch {
      return '';
    }
  };
  const urls = [
    ...['FLOWDROP_SMTP_URL', 'FLOWDROP_CLICKHOUSE_URL', 'FLOWDROP_CLICKHOUSE_ADMIN_URL'],
    ...['FLOWDROP_REDIS_URL', 'FLOWDROP_QUERY_ENGINE_URL', ...Object.values(WEBHOOKS).map(([url]) => url)],
  ].map(read);
  // A value that is no URL may be a password as a whole.
  const passwords = urls.map((url) => (URL.canParse(url) ? new URL(url).password : url));
  const aws = [env['AWS_SECRET_ACCESS_KEY'] ?? '', env['AWS_SESSION_TOKEN'] ?? ''];
  const credential = read('FLOWDROP_CATALOG_CREDENTIAL');
  const catalog = [read('FLOWDROP_CATALOG_TOKEN'), credential, credential.slice(credential.indexOf(':') + 1)];
  const webhooks = Object.values(WEBHOOKS).flatMap(([url, secret]) => [...listUrlSecrets(read(url)), read(secret)]);
  const all = [
    ...[read('FLOWDROP_API_KEY'), read('FLOWDROP_PORTAL_KEY'), ...listJobKeys(env).map(read)],
    read('FLOWDROP_STATUS_TOKEN'),
    ...passwords,
    ...passwords.map(decodePercent),
    ...aws,
    ...webhooks,
    ...catalog,
  ];
  return all.filter((secret) => secret !== '');
}

/** Settings with the keys of jobs that name their own, without `_FILE`. */
export function listJobKeys(env: Environment): readonly string[] {
  const names = Object.keys(env).filter((name) => name.startsWith(JOB_KEY_PREFIX));
  return [...new Set(names.map((name) => name.replace(/_FILE$/, '')))];
}

/** A webhook's address is the permission to post there. A short path is not secret, and may be any word. */
function listUrlSecrets(url: string): readonly string[] {
  if (!URL.canParse(url)) return [url];
  const { pathname, search } = new URL(url);
  const path = `${pathname}${search}`;
  return path.length < MIN_SECRET_PATH_CHARACTERS ? [] : [url, path];
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function readLevel(level: string): string {
  if (LOG_LEVELS.includes(level)) return level;
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_LOG_LEVEL is ${JSON.stringify(level)}; allowed are ${LOG_LEVELS.join(', ')}`,
    {
      kind: 'usage',
      hint: 'Unset it for info.',
    },
  );
}

/** Whether log lines are for people: as set, otherwise only on a terminal. */
export function readIsLogPretty(env: Environment, isTerminal: boolean): boolean {
  const format = env['FLOWDROP_LOG_FORMAT'];
  if (!format) return isTerminal;
  if (LOG_FORMATS.includes(format)) return format === 'pretty';
  throw new Fault(
    'SETTING_INVALID',
    `FLOWDROP_LOG_FORMAT is ${JSON.stringify(format)}; allowed are ${LOG_FORMATS.join(' and ')}`,
    { kind: 'usage', hint: 'Unset it: lines are pretty on a terminal, and JSON elsewhere.' },
  );
}

export function readVersion(packageDir: string): string {
  return (JSON.parse(readFileSync(join(packageDir, 'package.json'), 'utf8')) as { version: string }).version;
}

/** The operator's override of the exchange's calendar; without a file, only the rules apply. @throws Fault */
export async function readCalendar(env: Environment, cwd: string): Promise<CalendarOverride> {
  const file = env['FLOWDROP_CALENDAR_FILE'];
  if (!file) return NO_OVERRIDE;
  const text = await readFile(resolve(cwd, file), 'utf8').catch((cause: unknown) => {
    throw new Fault('SETTING_INVALID', `FLOWDROP_CALENDAR_FILE names ${file}, which cannot be read`, {
      kind: 'usage',
      cause,
      hint: 'Name a YAML or JSON file with closed:, early_close: and open:, or unset it.',
    });
  });
  const { parseCalendarOverride } = await import('../calendar/override.ts');
  return parseCalendarOverride(file, text);
}
