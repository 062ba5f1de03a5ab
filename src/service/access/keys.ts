/**
 * The keys that callers may use, and the entitlements of each. Only hashes are held, and all of them are compared in
 * constant time, so neither a memory dump nor response timing reveals a key. The hash is a plain SHA-256 without salt
 * or stretching: keys are random tokens of at least 128 bits, so no dictionary contains them, and with a salt each
 * request would need one hash per key. Reading keys is the task of `key-source.ts` and `key-file.ts`.
 */
import { createHash, randomInt, timingSafeEqual } from 'node:crypto';
import { Fault } from '../../core/errors.ts';

/** The subscription to historical SQL. */
export const ENTITLEMENTS = ['active', 'trialing', 'none'] as const;
export type Entitlement = (typeof ENTITLEMENTS)[number];

type KeyPrefix = 'cus' | 'apikey';

export interface Caller {
  /** First 12 hex digits of the key's SHA-256. They reveal nothing about the key, so they may be logged. */
  readonly id: string;
  readonly name: string;
  readonly historical: Entitlement;
  /** Option chain and market structure. The API treats trial and active subscriptions alike here. */
  readonly realtime: boolean;
}

export interface KeyEntry {
  /** SHA-256 of the key: 32 bytes. */
  readonly hash: Buffer;
  readonly caller: Caller;
}

const KEY = /^(cus|apikey)_\S+$/;
const ID_DIGITS = 12;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 62^32 is more than 2^190, so a key cannot be guessed, however fast the service answers. */
const RANDOM_CHARACTERS = 32;

export class KeyRing {
  #entries: readonly KeyEntry[] = [];
  #callers: ReadonlyMap<string, Caller> = new Map();

  constructor(entries: readonly KeyEntry[]) {
    this.replace(entries);
  }

  /** Replaces all keys; a caller whose entry changed has the new rights at once. */
  replace(entries: readonly KeyEntry[]): void {
    this.#entries = entries;
    this.#callers = new Map(entries.map(({ caller }) => [caller.id, caller]));
  }

  /** The caller of a key, or `undefined` for an unknown key. Compares every key, even after a match. */
  identify(key: string): Caller | undefined {
    const given = hashKey(key);
    let found: Caller | undefined;
    for (const { hash, caller } of this.#entries) if (timingSafeEqual(given, hash)) found = caller;
    return found;
  }

  /** The caller of a session, while its key is valid. */
  find(id: string): Caller | undefined {
    return this.#callers.get(id);
  }

  list(): readonly Caller[] {
    return [...this.#callers.values()];
  }
}

export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

export function buildEntry(hash: Buffer, rights: Omit<Caller, 'id'>): KeyEntry {
  return { hash, caller: { id: hash.toString('hex').slice(0, ID_DIGITS), ...rights } };
}

/** A new random key. */
export function createKey(prefix: KeyPrefix): string {
  const random = Array.from({ length: RANDOM_CHARACTERS }, () => BASE62[randomInt(BASE62.length)]);
  return `${prefix}_${random.join('')}`;
}

/**
 * Parses keys given in plain text on the command line. They are entitled to every product; a duplicate counts once.
 * @throws Fault `KEY_INVALID` (kind `usage`); its message does not contain the keys
 */
export function parsePlainKeys(keys: readonly string[]): readonly KeyEntry[] {
  if (!keys.every((key) => KEY.test(key))) {
    throw new Fault('KEY_INVALID', 'keys begin with cus_ or apikey_, and hold no spaces', { kind: 'usage' });
  }
  return [...new Set(keys)].map((key, index) =>
    buildEntry(hashKey(key), { name: `--key ${index + 1}`, historical: 'active', realtime: true }),
  );
}
