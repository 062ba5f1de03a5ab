/**
 * Source of the service's keys: the command line and the key file, which is read again when it changes. Invariant: the
 * ring always holds one complete, valid state of the file; an unreadable or invalid new version is only logged. The
 * file is polled by path once a second. Kernel watches would lose files that are replaced by a rename, mounted over a
 * network, or reached through a link that moves.
 */
import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { invalidFile, parseKeyFile } from './key-file.ts';
import { type Caller, type KeyEntry, KeyRing, parsePlainKeys } from './keys.ts';

/** Poll interval; also the longest time that a removed key keeps working. */
const POLL_MS = 1_000;
/** More than the maximum number of keys needs with comments; anything larger is not a key file. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;

interface KeySourceOptions {
  /** Keys in plain text, entitled to every product. */
  readonly keys: readonly string[];
  /** Path of the key file. */
  readonly keyFile?: string | undefined;
}

export interface KeySource {
  readonly ring: KeyRing;
  /** Checks the file now. Never rejects. */
  refresh(): Promise<void>;
  /** Stops polling; the keys stay as they are. Idempotent. */
  close(): Promise<void>;
}

/**
 * Reads the keys, then polls the file until `close()`.
 * @param clock its `sleep` sets the polling times
 * @throws Fault `KEY_INVALID`, `KEY_FILE_INVALID`, `KEY_FILE_UNREADABLE` (kind `usage`)
 */
export async function openKeys(options: KeySourceOptions, clock: Clock, log: Log): Promise<KeySource> {
  const plain = parsePlainKeys(options.keys);
  const { keyFile: file } = options;
  if (file === undefined) {
    if (plain.length > 0) return { ring: new KeyRing(plain), refresh: async () => {}, close: async () => {} };
    throw new Fault('KEY_INVALID', 'the service needs a key or a key file', { kind: 'usage' });
  }
  let known = await readFingerprint(file);
  const ring = new KeyRing([...plain, ...(await readEntries(file, plain))]);
  logKeys(ring.list());

  const refresh = async () => {
    // Read the fingerprint before the file: a change in between makes the next fingerprint differ.
    const seen = await readFingerprint(file);
    if (seen === known) return;
    known = seen;
    try {
      const entries = await readEntries(file, plain);
      const before = ring.list();
      ring.replace([...plain, ...entries]);
      logKeys(ring.list(), before);
    } catch (error) {
      log.error(
        { event: 'keys-refused', file, reason: describeError(error) },
        'the key file was rejected; the keys stay as before',
      );
    }
  };

  const stop = new AbortController();
  const watching = watch(clock, refresh, stop.signal);
  const close = async () => {
    stop.abort();
    await watching;
  };
  return { ring, refresh, close };

  function logKeys(now: readonly Caller[], before?: readonly Caller[]): void {
    const changes = before ? compareCallers(before, now) : {};
    const entry = { file, keys: now.length, ...changes };
    if (now.length > 0) log.info({ event: 'keys', ...entry }, `${now.length} key(s) in use`);
    else log.error({ event: 'keys-none', ...entry }, 'there is no key: every call is refused');
  }
}

async function watch(clock: Clock, refresh: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await clock.sleep(POLL_MS, signal);
    } catch {
      return; // Only the signal ends a sleep early.
    }
    await refresh();
  }
}

/** Caller names by type of change. A key replaced under the same name counts as both added and removed. */
function compareCallers(
  before: readonly Caller[],
  now: readonly Caller[],
): Readonly<Record<string, readonly string[]>> {
  const old = new Map(before.map((caller) => [caller.id, caller]));
  const ids = new Set(now.map(({ id }) => id));
  const isSame = (a: Caller, b: Caller) => JSON.stringify(a) === JSON.stringify(b);
  const kept = now.flatMap((caller) => ({ caller, was: old.get(caller.id) }));
  return {
    added: kept.filter(({ was }) => was === undefined).map(({ caller }) => caller.name),
    changed: kept.filter(({ caller, was }) => was && !isSame(was, caller)).map(({ caller }) => caller.name),
    removed: before.filter(({ id }) => !ids.has(id)).map(({ name }) => name),
  };
}

/** Changes whenever the file is written, replaced, removed or made readable. Follows links. */
async function readFingerprint(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(':');
  } catch (error) {
    return describeError(error);
  }
}

async function readEntries(file: string, plain: readonly KeyEntry[]): Promise<readonly KeyEntry[]> {
  const entries = parseKeyFile(file, await readText(file));
  const taken = new Set(plain.map(({ caller }) => caller.id));
  const doubles = entries.flatMap(({ caller }, index) => (taken.has(caller.id) ? [index] : []));
  if (doubles.length === 0) return entries;
  throw invalidFile(
    file,
    doubles.map((index) => ` keys.${index}.hash: is the hash of a key given with --key`),
  );
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
