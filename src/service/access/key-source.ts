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
import type { ServiceOptions } from '../options.ts';
import { invalidFile, parseKeyFile } from './key-file.ts';
import { type Caller, KeyRing, parsePlainKeys } from './keys.ts';

/** Poll interval; also the longest time that a removed key keeps working. */
const POLL_MS = 1_000;
/** More than the maximum number of keys needs with comments; anything larger is not a key file. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;

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
  const ring = new KeyRing(plain);
  const taken = plain.map(({ caller }) => caller.id);
  const stop = new AbortController();
  let known: string | undefined;
  if (file === undefined && plain.length === 0) {
    throw new Fault('KEY_INVALID', 'the service needs a key or a key file', { kind: 'usage' });
  }
  if (file !== undefined) await read(file);
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
    if (file === undefined || (await readFingerprint(file)) === known) return;
    await read(file, ring.list()).catch((error: unknown) => {
      const entry = { event: 'keys-refused', file, reason: describeError(error) };
      log.error(entry, 'the key file was rejected; the keys stay as before');
    });
  }

  async function read(path: string, before?: readonly Caller[]): Promise<void> {
    // Read the fingerprint before the file: a change in between makes the next fingerprint differ.
    known = await readFingerprint(path);
    ring.replace([...plain, ...parseKeyFile(path, await readText(path), taken)]);
    const now = ring.list();
    const entry = { file: path, keys: now.length, ...(before && compareCallers(before, now)) };
    if (now.length > 0) log.info({ event: 'keys', ...entry }, `${now.length} key(s) in use`);
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

/** Changes whenever the file is written, replaced, removed or made readable. Follows links. */
async function readFingerprint(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(':');
  } catch (error) {
    return describeError(error);
  }
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
