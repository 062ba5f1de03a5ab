/**
 * The settings in use, for people: which settings exist, and which are set, misspelled or invalid. Invariant: it
 * contains no secret. `settings.ts` reads them; a test checks that every setting read there is listed here.
 */
import { type Fault, isFault } from '../core/errors.ts';
import { findNearest } from '../core/nearest.ts';
import {
  DEFAULTS,
  type Environment,
  listJobKeys,
  readClockRule,
  readFlag,
  readIsLogPretty,
  readLevel,
  readMaxRuns,
  readRate,
  readSecret,
} from './settings.ts';
import { readHistoryDays, readPublicUrl, readStatusSettings } from './status-settings.ts';

/**
 * Every setting of flowdrop, and how much of it may be shown: nothing of a secret, which may also come from the file
 * that `<NAME>_FILE` names; everything of the others.
 */
const SETTINGS: Readonly<Record<string, 'plain' | 'secret'>> = {
  FLOWDROP_API_URL: 'plain',
  FLOWDROP_PORTAL_URL: 'plain',
  FLOWDROP_API_KEY: 'secret',
  FLOWDROP_PORTAL_KEY: 'secret',
  FLOWDROP_REQUESTS_PER_SECOND: 'plain',
  FLOWDROP_SNAPSHOTS_PER_SECOND: 'plain',
  FLOWDROP_REDIS_URL: 'secret',
  FLOWDROP_STATE_DIR: 'plain',
  FLOWDROP_MAX_RUNS: 'plain',
  FLOWDROP_SMTP_URL: 'secret',
  FLOWDROP_MAIL_DOMAINS: 'plain',
  FLOWDROP_MAIL_RETRY_SECONDS: 'plain',
  FLOWDROP_ALERT_WEBHOOK_URL: 'secret',
  FLOWDROP_ALERT_WEBHOOK_SECRET: 'secret',
  FLOWDROP_EVENTS_URL: 'secret',
  FLOWDROP_EVENTS_SECRET: 'secret',
  FLOWDROP_OUTBOX_DIR: 'plain',
  FLOWDROP_MAIL_FROM: 'plain',
  FLOWDROP_S3_PATH_STYLE: 'plain',
  FLOWDROP_CLICKHOUSE_URL: 'secret',
  FLOWDROP_CLICKHOUSE_ADMIN_URL: 'secret',
  FLOWDROP_QUERY_ENGINE_URL: 'secret',
  FLOWDROP_QUERY_ENGINE_COLLECTION: 'plain',
  FLOWDROP_QUERY_ENGINE_CLUSTER: 'plain',
  FLOWDROP_CATALOG_TOKEN: 'secret',
  FLOWDROP_CATALOG_CREDENTIAL: 'secret',
  FLOWDROP_CALENDAR_FILE: 'plain',
  FLOWDROP_LOG_LEVEL: 'plain',
  FLOWDROP_LOG_FORMAT: 'plain',
  FLOWDROP_CLOCK: 'plain',
  FLOWDROP_RUN_ID: 'plain',
  FLOWDROP_RUN_HISTORY_DAYS: 'plain',
  FLOWDROP_STATUS_ADDRESS: 'plain',
  FLOWDROP_STATUS_TOKEN: 'secret',
  FLOWDROP_PUBLIC_URL: 'plain',
  FLOWDROP_STATUS_ACTIONS: 'plain',
};

/** The AWS SDK's own settings that people usually set by hand. */
const AWS_SETTINGS: Readonly<Record<string, 'plain' | 'secret'>> = {
  AWS_ENDPOINT_URL_S3: 'plain',
  AWS_REGION: 'plain',
  AWS_PROFILE: 'plain',
  AWS_ACCESS_KEY_ID: 'secret',
  AWS_SECRET_ACCESS_KEY: 'secret',
  AWS_SESSION_TOKEN: 'secret',
};

/** Reports the settings without any secret. Faults are returned, not thrown. */
export function reportSettings(env: Environment, cwd: string) {
  const settings = listSettings(env);
  const known = { ...settings, ...AWS_SETTINGS };
  const set = Object.entries(known).flatMap(([name, shown]) => {
    const value = env[name];
    if (value) return [shown === 'secret' || hasCredentials(value) ? name : `${name}=${value}`];
    return shown === 'secret' && env[`${name}_FILE`] ? [`${name} (from a file)`] : [];
  });
  // The token is read together with its address.
  const secrets = Object.keys(settings).filter(
    (name) => settings[name] === 'secret' && name !== 'FLOWDROP_STATUS_TOKEN',
  );
  const checks: readonly (() => unknown)[] = [
    ...secrets.map((name) => () => readSecret(env, name, cwd)),
    () => readRate(env, 'FLOWDROP_REQUESTS_PER_SECOND'),
    () => readRate(env, 'FLOWDROP_SNAPSHOTS_PER_SECOND'),
    () => readMaxRuns(env),
    () => readClockRule(env),
    () => env['FLOWDROP_S3_PATH_STYLE'] && readFlag(env, 'FLOWDROP_S3_PATH_STYLE'),
    () => readLevel(env['FLOWDROP_LOG_LEVEL'] || DEFAULTS.FLOWDROP_LOG_LEVEL),
    () => readIsLogPretty(env, false),
    () => readStatusSettings(env, cwd),
    () => readPublicUrl(env),
    () => readHistoryDays(env),
  ];
  return { set, unknown: listUnknown(env), faults: checks.flatMap(catchFault) };
}

/** Names with our prefix that are no settings, each with the nearest setting. */
export function listUnknown(env: Environment) {
  const names = Object.entries(listSettings(env)).flatMap(([name, shown]) =>
    shown === 'secret' ? [name, `${name}_FILE`] : [name],
  );
  return Object.keys(env)
    .filter((name) => name.startsWith('FLOWDROP_') && !names.includes(name))
    .map((name) => ({ name, meant: findNearest(name, names) }));
}

function listSettings(env: Environment): Readonly<Record<string, 'plain' | 'secret'>> {
  return { ...SETTINGS, ...Object.fromEntries(listJobKeys(env).map((name) => [name, 'secret'] as const)) };
}

/** Finds credentials where none belong: such a value is refused when it is used, and must not be shown before. */
function hasCredentials(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  return url !== undefined && (url.username !== '' || url.password !== '' || url.search !== '');
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
