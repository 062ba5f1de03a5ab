/**
 * The features of a ClickHouse server, and the rights of its user. Invariant: the server itself is queried, so builds
 * and forks with fewer or more settings and functions are recognized.
 */
import { EngineFault } from './engine-fault.ts';

export interface Capabilities {
  /** As the server writes it, e.g. `24.8.4.13`. */
  readonly version: string;
  /** Names of all settings: any other setting makes a statement fail. */
  readonly settings: ReadonlySet<string>;
  /** Names of all functions and their aliases, as the server writes them. */
  readonly functions: readonly string[];
  /** 0: may write; 1: may read and change no setting; 2: may read and change settings, except this one. */
  readonly readonly: 0 | 1 | 2;
}

/** The part of `Engine` and of `PooledEngine` that these queries need. */
interface RowReader {
  rows<Row extends object>(sql: string): Promise<readonly Row[]>;
}

/** @throws EngineFault */
export async function readCapabilities(engine: RowReader): Promise<Capabilities> {
  const [server] = await engine.rows<{ version: string }>('SELECT version() AS version');
  const settings = await engine.rows<{ name: string; value: string }>('SELECT name, value FROM system.settings');
  const functions = await engine.rows<{ name: string }>('SELECT name FROM system.functions');
  const level = Number(settings.find(({ name }) => name === 'readonly')?.value);
  if (server === undefined || (level !== 0 && level !== 1 && level !== 2))
    throw new EngineFault(0, 'the server does not report its version or its setting `readonly`: is it ClickHouse?');
  return {
    version: server.version,
    settings: new Set(settings.map(({ name }) => name)),
    functions: functions.map(({ name }) => name),
    readonly: level,
  };
}

/** The first version in which a view can have the rights of its owner, and the oldest that is supported. */
export const OLDEST_VERSION = '24.2';

/** Whether a server is older than `OLDEST_VERSION`, such as the one of the tests, 18.16. */
export function isTooOld(version: string): boolean {
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_VERSION.split('.').map(Number);
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < oldestMajor || (major === oldestMajor && minor < oldestMinor);
}

/** Keeps only the settings that the server knows. */
export function keepKnown<Value>(
  settings: Readonly<Record<string, Value>>,
  capabilities: Pick<Capabilities, 'settings'>,
): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(settings).filter(([name]) => capabilities.settings.has(name)));
}
