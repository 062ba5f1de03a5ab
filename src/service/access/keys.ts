/**
 * The keys that callers may use, and what each is entitled to. Only hashes are held, and every one is compared in
 * constant time, so that neither a dump of the memory nor an answer's delay says anything about a key. The hash is a
 * plain SHA-256, without salt or stretching: keys are random tokens of 128 bits and more, which no dictionary holds, and a
 * salt would make each request hash once per key. Where keys come from is not known here: `key-source.ts` and
 * `key-file.ts` do.
 */
import { createHash, randomInt, timingSafeEqual } from 'node:crypto';
import { Fault } from '../../core/errors.ts';

/** The subscription to historical SQL. */
export const ENTITLEMENTS = ['active', 'trialing', 'none'] as const;
export type Entitlement = (typeof ENTITLEMENTS)[number];

const KEY_PREFIXES = ['cus', 'apikey'] as const;
export type KeyPrefix = (typeof KEY_PREFIXES)[number];

export interface Caller {
  /** First 12 hex digits of the key's SHA-256: says nothing about the key, so it may be logged. */
  readonly id: string;
  readonly name: string;
  readonly historical: Entitlement;
  /** Option chain and market structure. The API makes no difference between a trialing and an active one. */
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
/** 62^32 is more than 2^190: nobody guesses one, however fast the service answers. */
const RANDOM_CHARACTERS = 32;

export class KeyRing {
  #entries: readonly KeyEntry[] = [];
  #callers: ReadonlyMap<string, Caller> = new Map();

  constructor(entries: readonly KeyEntry[]) {
    this.replace(entries);
  }

  /** From now on exactly these keys are valid; a caller whose entry changed has the new rights at once. */
  replace(entries: readonly KeyEntry[]): void {
    this.#entries = entries;
    this.#callers = new Map(entries.map(({ caller }) => [caller.id, caller]));
  }

  /** Whose key it is, or `undefined` when it is not one of ours. Every key is compared, whichever matches. */
  identify(key: string): Caller | undefined {
    const given = hashKey(key);
    let found: Caller | undefined;
    for (const { hash, caller } of this.#entries) if (timingSafeEqual(given, hash)) found = caller;
    return found;
  }

  /** The caller of a session, as long as the key is valid. */
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
 * Keys in plain text, as the command line gives them: entitled to everything. One that is given twice counts once.
 * @throws Fault `KEY_INVALID` (kind `usage`), which does not repeat the keys
 */
export function parsePlainKeys(keys: readonly string[]): readonly KeyEntry[] {
  if (!keys.every((key) => KEY.test(key))) {
    throw new Fault('KEY_INVALID', 'keys begin with cus_ or apikey_, and hold no spaces', { kind: 'usage' });
  }
  return [...new Set(keys)].map((key, index) =>
    buildEntry(hashKey(key), { name: `--key ${index + 1}`, historical: 'active', realtime: true }),
  );
}
