/**
 * The only list of settings: what may be shown of each, what it is read as and what is allowed. Secrets may come from
 * files and never appear in a message or a report. `settings.ts` reads them for the parts that need them.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { REQUESTS_PER_SECOND } from '../api-contract/published-limits.ts';
import { Fault } from '../core/errors.ts';
import { type ListenAddress, parseListenAddress } from '../core/listen-address.ts';
import { findNearest } from '../core/nearest.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Settings that have a default; the others are required only when they are needed. */
export const DEFAULTS = {
  FLOWDROP_STATE_DIR: '.flowdrop',
  FLOWDROP_OUTBOX_DIR: 'out/mail',
  FLOWDROP_MAIL_FROM: 'flowdrop@localhost',
  FLOWDROP_LOG_LEVEL: 'info',
  FLOWDROP_CLOCK: 'checked',
  FLOWDROP_REQUESTS_PER_SECOND: `${REQUESTS_PER_SECOND}`,
  FLOWDROP_SNAPSHOTS_PER_SECOND: `${REQUESTS_PER_SECOND}`,
  // They share the pace of the key, so more of them wait longer for each other.
  FLOWDROP_MAX_RUNS: '2',
  FLOWDROP_STATUS_ADDRESS: '127.0.0.1:8686',
  FLOWDROP_STATUS_ACTIONS: 'on',
  FLOWDROP_RUN_HISTORY_DAYS: '90',
  FLOWDROP_QUERY_ENGINE_COLLECTION: 'flowdrop',
} as const;

/** The shortest webhook path that counts as a secret: those of chat tools have 40 characters and more. */
const MIN_SECRET_PATH_CHARACTERS = 16;
/** Each run is a process with its own engine; a machine runs out of memory long before this limit. */
const MAX_RUNS_LIMIT = 64;
/** Longer than any lookback or audit; ten years of runs would make every listing slow. */
const MAX_HISTORY_DAYS = 3650;
/** A value that means something, and what the message says of any other. */
interface Rule<T> {
  /** `undefined` for a value that means nothing. */
  parse(text: string): T | undefined;
  readonly allowed: string;
  readonly hint?: string | undefined;
  /** Shown in place of a value that may be a secret. */
  readonly hidden?: string | undefined;
}

/** Nothing is shown of a secret, which may also come from the file that `<NAME>_FILE` names. */
interface Secret {
  /** Parts of the value that must never be shown. */
  secrets(value: string): readonly string[];
  /** It is sent as it is: a shell or a file that keeps quotes or a line break makes it a wrong one. */
  readonly isPlain?: true;
}

const PLAIN = {};
const WHOLE: Secret = { secrets: (value) => [value] };
const KEY: Secret = { ...WHOLE, isPlain: true };
const WITH_PASSWORD: Secret = { secrets: listPasswords };
/** In place of a mail server: the folder is where mail belongs. */
export const MAIL_FOLDER = 'folder';
const MAIL_SERVER: Secret = { secrets: (url) => (url === MAIL_FOLDER ? [] : listPasswords(url)) };
/** A webhook's address is the permission to post there. */
const WEBHOOK: Secret = { secrets: (url) => [...listPasswords(url), ...listUrlSecrets(url)] };

const RATE = numberRule(
  (rate) => Number.isFinite(rate) && rate > 0,
  'a number above 0',
  'Set it to what the provider allows, or unset it for the default.',
);

/** Every setting of flowdrop, in the order in which `doctor` lists them. */
export const SETTINGS = {
  FLOWDROP_API_URL: PLAIN,
  FLOWDROP_PORTAL_URL: PLAIN,
  FLOWDROP_API_KEY: KEY,
  FLOWDROP_PORTAL_KEY: KEY,
  FLOWDROP_REQUESTS_PER_SECOND: RATE,
  FLOWDROP_SNAPSHOTS_PER_SECOND: RATE,
  FLOWDROP_REDIS_URL: WITH_PASSWORD,
  FLOWDROP_STATE_DIR: PLAIN,
  FLOWDROP_MAX_RUNS: wholeRule(MAX_RUNS_LIMIT),
  FLOWDROP_SMTP_URL: MAIL_SERVER,
  FLOWDROP_MAIL_DOMAINS: PLAIN,
  FLOWDROP_MAIL_RETRY_SECONDS: numberRule(
    (seconds) => Number.isFinite(seconds) && seconds >= 0,
    'a number of seconds, 0 for no second try',
    'Unset it for the default.',
  ),
  FLOWDROP_ALERT_WEBHOOK_URL: WEBHOOK,
  FLOWDROP_ALERT_WEBHOOK_SECRET: WHOLE,
  FLOWDROP_EVENTS_URL: WEBHOOK,
  FLOWDROP_EVENTS_SECRET: WHOLE,
  FLOWDROP_OUTBOX_DIR: PLAIN,
  FLOWDROP_MAIL_FROM: PLAIN,
  FLOWDROP_S3_PATH_STYLE: {
    parse: (text) => ({ true: true, 1: true, false: false, 0: false })[text.toLowerCase()],
    allowed: 'are true and false',
    hint: 'Unset it for false.',
  } as Rule<boolean>,
  FLOWDROP_CLICKHOUSE_URL: WITH_PASSWORD,
  FLOWDROP_CLICKHOUSE_ADMIN_URL: WITH_PASSWORD,
  FLOWDROP_QUERY_ENGINE_URL: WITH_PASSWORD,
  FLOWDROP_QUERY_ENGINE_COLLECTION: PLAIN,
  FLOWDROP_QUERY_ENGINE_CLUSTER: PLAIN,
  FLOWDROP_CATALOG_TOKEN: KEY,
  FLOWDROP_CATALOG_CREDENTIAL: { secrets: (value) => [value, value.slice(value.indexOf(':') + 1)] } as Secret,
  FLOWDROP_CALENDAR_FILE: PLAIN,
  FLOWDROP_LOG_LEVEL: wordRule(['debug', 'info', 'warn', 'error', 'silent'], 'Unset it for info.'),
  FLOWDROP_LOG_FORMAT: wordRule(['json', 'pretty'], 'Unset it: lines are pretty on a terminal, and JSON elsewhere.'),
  FLOWDROP_CLOCK: wordRule(
    ['checked', 'source'],
    'Unset it: then all clocks are checked. `source` is for rehearsals only.',
  ),
  FLOWDROP_RUN_ID: PLAIN,
  FLOWDROP_RUN_HISTORY_DAYS: wholeRule(MAX_HISTORY_DAYS),
  FLOWDROP_STATUS_ADDRESS: {
    parse: (text) => (text === 'off' ? text : parseListenAddress(text)),
    allowed: 'is host:port or off',
    hint: 'For example 127.0.0.1:8686; [::]:8686 or :8686 for every address of the machine, which needs a token.',
  } as Rule<ListenAddress | 'off'>,
  FLOWDROP_STATUS_TOKEN: WHOLE,
  FLOWDROP_PUBLIC_URL: {
    parse: parsePublicUrl,
    allowed: 'is http or https, host, port and path',
    hint: 'For example https://flowdrop.example.com, where a proxy serves the status page.',
    hidden: 'not an address for readers',
  } as Rule<string>,
  FLOWDROP_STATUS_ACTIONS: wordRule(['on', 'off']),
};

export type SettingName = keyof typeof SETTINGS;
export type RuledName = { [N in SettingName]: (typeof SETTINGS)[N] extends Rule<unknown> ? N : never }[SettingName];
type ValueOf<N extends RuledName> = (typeof SETTINGS)[N] extends Rule<infer T> ? T : never;

/** The AWS SDK's own settings that people usually set by hand, and whether they are secret. */
export const AWS_SETTINGS: Readonly<Record<string, boolean>> = {
  AWS_ENDPOINT_URL_S3: false,
  AWS_REGION: false,
  AWS_PROFILE: false,
  AWS_ACCESS_KEY_ID: true,
  AWS_SECRET_ACCESS_KEY: true,
  AWS_SESSION_TOKEN: true,
};

function numberRule(isAllowed: (value: number) => boolean, allowed: string, hint?: string): Rule<number> {
  return { parse: (text) => (isAllowed(Number(text)) ? Number(text) : undefined), allowed: `is ${allowed}`, hint };
}

function wholeRule(most: number): Rule<number> {
  return numberRule((n) => Number.isInteger(n) && n >= 1 && n <= most, `a whole number from 1 to ${most}`);
}

function wordRule<const T extends string>(words: readonly T[], hint?: string): Rule<T> {
  const allowed = `are ${new Intl.ListFormat('en').format(words)}`;
  return { parse: (text) => words.find((word) => word === text), allowed, hint };
}

/** The value of a setting with a rule; `undefined` if it is unset and has no default. @throws Fault `SETTING_INVALID` */
export function readRuled<N extends RuledName>(
  env: Environment,
  name: N,
): ValueOf<N> | (N extends keyof typeof DEFAULTS ? never : undefined) {
  const text = env[name] || (DEFAULTS as Environment)[name];
  const { parse, allowed, hint, hidden } = SETTINGS[name] as Rule<ValueOf<N>>;
  const value = text ? parse(text) : undefined;
  // Defaults are valid.
  if (!text || value !== undefined) return value as ReturnType<typeof readRuled<N>>;
  throw invalid(`${name} is ${hidden ?? JSON.stringify(text)}; allowed ${allowed}`, hint);
}

export function invalid(message: string, hint?: string, cause?: unknown): Fault {
  return new Fault('SETTING_INVALID', message, { kind: 'usage', hint, cause });
}

function parsePublicUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    return undefined;
  return url.href.replace(/\/+$/, '');
}

/** Settings with the keys that jobs name (`source.key`) begin with this; the name follows in capitals. */
export const JOB_KEY_PREFIX = 'FLOWDROP_KEY_';

/** Every secret that can be set, with the keys that jobs name. */
export function listSecretSettings(env: Environment): ReadonlyMap<string, Secret> {
  const own = Object.keys(env)
    .filter((name) => name.startsWith(JOB_KEY_PREFIX))
    .map((name) => [name.replace(/_FILE$/, ''), KEY] as const);
  const known = Object.entries<object>(SETTINGS).flatMap(([name, setting]) =>
    'secrets' in setting ? [[name, setting as Secret] as const] : [],
  );
  return new Map([...known, ...own]);
}

/**
 * The variable, or the content of the file that `<NAME>_FILE` names, without blanks around it.
 * @throws Fault `SETTING_INVALID` if the file cannot be read, or if a key has blanks or quotes in it
 */
export function readSecret(env: Environment, name: string, cwd: string): string | undefined {
  const secret = readText(env, name, cwd);
  if (secret && listSecretSettings(env).get(name)?.isPlain) assertPlain(name, secret);
  return secret;
}

/** @throws Fault `SETTING_INVALID`, without the value */
export function assertPlain(name: string, value: string): void {
  const isQuoted = /^["'`]|["'`]$/.test(value);
  if (!isQuoted && /^[!-~]*$/.test(value)) return;
  const odd = isQuoted ? 'quotes' : 'blanks or characters beyond ASCII';
  throw invalid(
    `${name} has ${odd} in it (the value is not shown); allowed are letters, digits and signs`,
    `Write ${name}=VALUE: Docker's --env-file keeps quotes and comments as part of the value. \`flowdrop doctor\` checks it.`,
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
    throw invalid(
      `${name}_FILE names ${file}, which cannot be read`,
      `Name a file that this user may read, or unset ${name}_FILE and set ${name}.`,
      cause,
    );
  }
}

/** Values that must never be shown. A secret that cannot be read now is reported when it is needed. */
export function listSecrets(env: Environment, cwd: string): readonly string[] {
  const ours = [...listSecretSettings(env)].flatMap(([name, { secrets }]) => {
    try {
      const value = readText(env, name, cwd);
      return value ? secrets(value) : [];
    } catch {
      return [];
    }
  });
  const aws = [env['AWS_SECRET_ACCESS_KEY'] ?? '', env['AWS_SESSION_TOKEN'] ?? ''];
  return [...ours, ...aws].filter((secret) => secret !== '');
}

/** The password of an address, as written and as meant. A value that is no URL may be a password as a whole. */
export function listPasswords(text: string): readonly string[] {
  const password = URL.canParse(text) ? new URL(text).password : text;
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password, /:\/\/[^:/]*:(.*)@/.exec(text)?.[1] ?? password];
  }
}

/** A short path is not secret, and may be any word. */
function listUrlSecrets(url: string): readonly string[] {
  if (!URL.canParse(url)) return [url];
  const { pathname, search } = new URL(url);
  const path = `${pathname}${search}`;
  return path.length < MIN_SECRET_PATH_CHARACTERS ? [] : [url, path];
}

/** Names with our prefix that are no settings, each with the nearest setting. */
export function listUnknown(env: Environment) {
  const secrets = [...listSecretSettings(env).keys()];
  const names = [...Object.keys(SETTINGS), ...secrets, ...secrets.map((name) => `${name}_FILE`)];
  return Object.keys(env)
    .filter((name) => name.startsWith('FLOWDROP_') && !names.includes(name))
    .map((name) => ({ name, meant: findNearest(name, names) }));
}

/** Finds credentials where none belong: such a value is refused when it is used, and must not be shown before. */
export function hasCredentials(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  return url !== undefined && (url.username !== '' || url.password !== '' || url.search !== '');
}
