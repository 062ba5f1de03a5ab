/**
 * The keys that callers may use: those of the command line, and of the key file, which is read again when it changes. Only
 * hashes are held, and all of them are compared in constant time, so neither a memory dump nor response timing reveals a
 * key. Invariant: the ring always holds one complete, valid state of the file; an unreadable or invalid new version is only
 * logged. The file is polled by path once a second. Kernel watches would lose files that are replaced by a rename, mounted
 * over a network, or reached through a link that moves.
 */
import { timingSafeEqual } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { countOf } from '../../core/units.ts';
import type { ServiceOptions } from '../options.ts';
import { buildEntry, type Caller, hashKey, invalidFile, type KeyEntry, parseKeyFile } from './key-file.ts';

const PLAIN_KEY = /^(cus|apikey)_\S+$/;
/** Poll interval; also the longest time that a removed key keeps working. */
const POLL_MS = 1_000;
/** More than the maximum number of keys needs with comments; anything larger is not a key file. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;

export type KeyRing = ReturnType<typeof createKeyRing>;

export function createKeyRing(first: readonly KeyEntry[]) {
  let entries = first;
  return {
    /** Replaces all keys; a caller whose entry changed has the new rights at once. */
    replace(all: readonly KeyEntry[]): void {
      entries = all;
    },
    /** The caller of a key, or `undefined` for an unknown key. Compares every key, even after a match. */
    identify(key: string): Caller | undefined {
      const given = hashKey(key);
      return entries.filter(({ hash }) => timingSafeEqual(given, hash))[0]?.caller;
    },
    /** The caller of a session, while its key is valid. */
    find: (id: string): Caller | undefined => entries.find(({ caller }) => caller.id === id)?.caller,
    list: (): readonly Caller[] => entries.map(({ caller }) => caller),
  };
}

/**
 * Parses keys given in plain text on the command line. They are entitled to every product; a duplicate counts once.
 * @throws Fault `KEY_INVALID` (kind `usage`); its message does not contain the keys
 */
export function parsePlainKeys(keys: readonly string[]): readonly KeyEntry[] {
  if (!keys.every((key) => PLAIN_KEY.test(key))) {
    throw new Fault('KEY_INVALID', 'keys begin with cus_ or apikey_, and hold no spaces', { kind: 'usage' });
  }
  return [...new Set(keys)].map((key, index) =>
    buildEntry(hashKey(key), { name: `--key ${index + 1}`, historical: 'active', realtime: true }),
  );
}

export type KeySource = Awaited<ReturnType<typeof openKeys>>;

/**
 * Reads the keys, then polls the file until `close()`.
 * @param clock its `sleep` sets the polling times
 * @throws Fault `KEY_INVALID`, `KEY_FILE_INVALID`, `KEY_FILE_UNREADABLE` (kind `usage`)
 */
export async function openKeys(
  { keys, keyFile: file }: Pick<ServiceOptions, 'keys' | 'keyFile'>,
  clock: Clock,
  log: Log,
) {
  const plain = parsePlainKeys(keys);
  const ring = createKeyRing(plain);
  const taken = plain.map(({ caller }) => caller.id);
  const stop = new AbortController();
  /** The file's text at the last look, or why it could not be read. */
  let seen: string | undefined;
  if (file === undefined && plain.length === 0) {
    throw new Fault('KEY_INVALID', 'the service needs a key or a key file', { kind: 'usage' });
  }
  if (file !== undefined) await look(file);
  const watching = file === undefined ? undefined : watch();
  return {
    ring,
    refresh,
    /** Stops polling; the keys stay as they are. Idempotent. */
    async close(): Promise<void> {
      stop.abort();
      await watching;
    },
  };

  async function watch(): Promise<void> {
    // Only the signal ends a sleep early.
    const sleep = () => clock.sleep(POLL_MS, stop.signal).catch(() => {});
    for (await sleep(); !stop.signal.aborted; await sleep()) await refresh();
  }

  /** Checks the file now. Never rejects. */
  async function refresh(): Promise<void> {
    if (file === undefined) return;
    await look(file).catch((error: unknown) => {
      const entry = { event: 'keys-refused', file, reason: describeError(error) };
      log.error(entry, 'the key file was rejected; the keys stay as before');
    });
  }

  /** Takes the file's keys if it has changed. @throws Fault, once for each change that cannot be used */
  async function look(path: string): Promise<void> {
    const found = await readText(path).catch((error: unknown) => ({ error }));
    const text = typeof found === 'string' ? found : describeError(found.error);
    if (text === seen) return;
    const isFirst = seen === undefined;
    seen = text;
    if (typeof found !== 'string') throw found.error;
    const before = ring.list();
    ring.replace([...plain, ...parseKeyFile(path, found, taken)]);
    const now = ring.list();
    const entry = { file: path, keys: now.length, ...(isFirst ? {} : compareCallers(before, now)) };
    if (now.length > 0) log.info({ event: 'keys', ...entry }, `${countOf(now.length, 'key')} in use`);
    else log.error({ event: 'keys-none', ...entry }, 'there is no key: every call is refused');
  }
}

/** Caller names by type of change. A key replaced under the same name counts as both added and removed. */
function compareCallers(before: readonly Caller[], now: readonly Caller[]) {
  const old = new Map(before.map((caller) => [caller.id, caller]));
  const ids = new Set(now.map(({ id }) => id));
  const isSame = (caller: Caller) => JSON.stringify(old.get(caller.id)) === JSON.stringify(caller);
  const namesOf = (callers: readonly Caller[]) => callers.map(({ name }) => name);
  return {
    added: namesOf(now.filter(({ id }) => !old.has(id))),
    changed: namesOf(now.filter((caller) => old.has(caller.id) && !isSame(caller))),
    removed: namesOf(before.filter(({ id }) => !ids.has(id))),
  };
}

async function readText(file: string): Promise<string> {
  try {
    const found = await stat(file);
    if (found.isFile() && found.size <= MAX_FILE_BYTES) return await readFile(file, 'utf8');
  } catch (cause) {
    throw new Fault('KEY_FILE_UNREADABLE', `cannot read the key file ${file}: ${describeError(cause)}`, {
      kind: 'usage',
      cause,
      hint: '`flowdrop key --name NAME --file FILE` makes one.',
    });
  }
  throw invalidFile(file, [` is not a file of at most ${MAX_FILE_BYTES} bytes`]);
}
