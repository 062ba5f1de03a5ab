/**
 * Reads the settings for the parts that need them. `setting-list.ts` says which there are, and what is allowed.
 * `openers.ts` turns them into concrete parts.
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { CHAIN_PATH, HISTORICAL_PATH, MARKET_STRUCTURE_PATH, PORTAL_PATH } from '../api-contract/published-limits.ts';
import { type CalendarOverride, NO_OVERRIDE } from '../calendar/session.ts';
import { Fault, isFault } from '../core/errors.ts';
import { formatListenAddress, isLoopback } from '../core/listen-address.ts';
import type { ApiAccess, SnapshotApi, SqlApi } from '../job/job.ts';
import type { WebhookUse } from '../mail/webhook.ts';
import type { S3Options } from '../store/s3-client.ts';
import {
  AWS_SETTINGS,
  assertPlain,
  type Environment,
  hasCredentials,
  invalid,
  JOB_KEY_PREFIX,
  listSecretSettings,
  listUnknown,
  type RuledName,
  readRuled,
  readSecret,
  SETTINGS,
  type SettingName,
} from './setting-list.ts';

/** The shortest token: too long to guess over the network, or from a cookie derived from it. */
const MIN_TOKEN_CHARACTERS = 16;

/** Where the daemon shows its status; `undefined` if `off`. @throws Fault that does not contain the token */
export function readStatusSettings(env: Environment, cwd: string) {
  const address = readRuled(env, 'FLOWDROP_STATUS_ADDRESS');
  if (address === 'off') return undefined;
  const token = readSecret(env, 'FLOWDROP_STATUS_TOKEN', cwd);
  if (token !== undefined && !(token.length >= MIN_TOKEN_CHARACTERS && /^[!-~]+$/.test(token))) {
    const allowed = `${MIN_TOKEN_CHARACTERS} or more visible ASCII characters without spaces`;
    throw invalid(
      `FLOWDROP_STATUS_TOKEN is not a valid token; allowed are ${allowed}`,
      'Make one with `openssl rand -hex 24`.',
    );
  }
  if (token === undefined && !isLoopback(address.host)) {
    const shown = formatListenAddress(address);
    throw new Fault('SETTING_MISSING', `FLOWDROP_STATUS_ADDRESS is ${shown}, and FLOWDROP_STATUS_TOKEN is not set`, {
      kind: 'usage',
      hint: 'Other machines need a token: set FLOWDROP_STATUS_TOKEN or FLOWDROP_STATUS_TOKEN_FILE.',
    });
  }
  return {
    address,
    /** The token that a viewer must send; `undefined`: none, which only an address of this machine may allow. */
    token,
    /** Whether the page may act: start and stop runs, accept gaps. */
    mayAct: readRuled(env, 'FLOWDROP_STATUS_ACTIONS') === 'on',
  };
}

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
  if (hasCredentials(base) || url?.hash) {
    // The message does not repeat the value: it may contain a secret.
    throw invalid(
      `${name} contains a user, a password or a query; allowed is scheme, host, port and path`,
      'Put the key into FLOWDROP_API_KEY.',
    );
  }
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw invalid(
      `${name} is ${JSON.stringify(base)}; allowed is an http or https address`,
      `Write it with its scheme, e.g. ${name}=${completeAddress(base) ?? 'https://api.example.com'}, in the environment or in .env.`,
    );
  }
  return `${base.replace(/\/+$/, '')}${path}`;
}

/** With the scheme that was left out; `undefined` for what is no host: it may be a key. */
export function completeAddress(text: string): string | undefined {
  const host = /^([a-z0-9.-]+)(?::\d+)?\/?$/i.exec(text)?.[1] ?? '';
  if (isLoopback(host)) return `http://${text}`;
  return host.includes('.') ? `https://${text}` : undefined;
}

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

/**
 * How an S3 store is reached: the variables of the AWS tools, and `FLOWDROP_S3_PATH_STYLE`. The SDK reads the keys itself,
 * and sends what it finds. @throws Fault `SETTING_INVALID`
 */
export function s3Options(env: Environment, { bucket, prefix }: Pick<S3Options, 'bucket' | 'prefix'>): S3Options {
  for (const [name, isSecret] of Object.entries(AWS_SETTINGS)) {
    const value = env[name];
    if (isSecret && value) assertPlain(name, value);
  }
  return {
    bucket,
    prefix,
    endpoint: env['AWS_ENDPOINT_URL_S3'] || undefined,
    region: env['AWS_REGION'] || undefined,
    pathStyle: readRuled(env, 'FLOWDROP_S3_PATH_STYLE'),
  };
}

/**
 * Where clients of a catalog find the store, in the words of Iceberg's clients; no credentials. Names of properties differ
 * between clients, so each fact has those of Java and Python.
 */
export function readS3Defaults(env: Environment): Readonly<Record<string, string>> {
  const { AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: region } = env;
  const address = endpoint && URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  return {
    ...(address ? { 's3.endpoint': `${address.protocol}//${address.host}${address.pathname.replace(/\/$/, '')}` } : {}),
    ...(region ? { 'client.region': region, 's3.region': region } : {}),
    ...(readRuled(env, 'FLOWDROP_S3_PATH_STYLE') ? { 's3.path-style-access': 'true' } : {}),
  };
}

/** The settings with address and secret of each webhook, and where a person finds the address. */
const WEBHOOKS = {
  alert: ['FLOWDROP_ALERT_WEBHOOK_URL', 'FLOWDROP_ALERT_WEBHOOK_SECRET', 'that the chat tool gave you'],
  event: ['FLOWDROP_EVENTS_URL', 'FLOWDROP_EVENTS_SECRET', 'of the program that receives events'],
} as const satisfies Readonly<Record<WebhookUse, readonly [SettingName, SettingName, string]>>;

/**
 * Where alerts or events are posted; `undefined` without an address. @throws Fault `SETTING_INVALID` that does not
 * contain the address
 * @param address of a job's own, instead of the setting's; signed with the same secret
 */
export function readWebhook(env: Environment, cwd: string, use: WebhookUse, address?: string) {
  const [urlName, secretName, whose] = WEBHOOKS[use];
  const url = address ?? readSecret(env, urlName, cwd);
  if (!url) return undefined;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    // The message does not repeat the value: anyone who knows the address can post there.
    throw invalid(
      `${urlName} is not an address; allowed is https:// or http://`,
      `Set it, or ${urlName}_FILE, to the address ${whose}.`,
    );
  }
  return { use, url, secret: readSecret(env, secretName, cwd) };
}

/** The settings in use, without any secret. */
export function reportSettings(env: Environment, cwd: string) {
  const secrets = listSecretSettings(env);
  const names = new Set([...Object.keys(SETTINGS), ...secrets.keys(), ...Object.keys(AWS_SETTINGS)]);
  const set = [...names].flatMap((name) => {
    const value = env[name];
    const isSecret = secrets.has(name) || AWS_SETTINGS[name] === true;
    if (value) return [isSecret || hasCredentials(value) ? name : `${name}=${value}`];
    return isSecret && env[`${name}_FILE`] ? [`${name} (from a file)`] : [];
  });
  const ruled = Object.entries<object>(SETTINGS).flatMap(([name, rule]) => ('parse' in rule ? [name] : []));
  // It is in one of the two lists.
  const read = (name: string) => (secrets.has(name) ? readSecret(env, name, cwd) : readRuled(env, name as RuledName));
  // What belongs to the status page is read together.
  const apart = [...secrets.keys(), ...ruled].filter((name) => !name.includes('_STATUS_'));
  const checks = [...apart.map((name) => () => read(name)), () => readStatusSettings(env, cwd)];
  return {
    /** `NAME=value`; only `NAME` for a secret, `NAME (from a file)` for one that is read from a file. */
    set,
    unknown: listUnknown(env),
    /** Settings that cannot be read or are invalid. */
    faults: checks.flatMap(catchFault),
  };
}

function catchFault(check: () => unknown): readonly Fault[] {
  try {
    check();
    return [];
  } catch (error) {
    if (isFault(error)) return [error];
    throw error;
  }
}

export function readVersion(packageDir: string): string {
  return (JSON.parse(readFileSync(join(packageDir, 'package.json'), 'utf8')) as { version: string }).version;
}

/** The operator's override of the exchange's calendar; without a file, only the rules apply. @throws Fault */
export async function readCalendar(env: Environment, cwd: string): Promise<CalendarOverride> {
  const file = env['FLOWDROP_CALENDAR_FILE'];
  if (!file) return NO_OVERRIDE;
  const text = await readFile(resolve(cwd, file), 'utf8').catch((cause: unknown) => {
    throw invalid(
      `FLOWDROP_CALENDAR_FILE names ${file}, which cannot be read`,
      'Name a YAML or JSON file with closed:, early_close: and open:, or unset it.',
      cause,
    );
  });
  const { parseCalendarOverride } = await import('../calendar/override.ts');
  return parseCalendarOverride(file, text);
}
