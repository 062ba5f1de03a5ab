/** The keys that callers may use. Compared in constant time, so that an answer's delay says nothing about a key. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { Fault } from '../core/errors.ts';

const KEY = /^(cus_|apikey_)\S+$/;

export class KeyRing {
  readonly #digests: readonly Buffer[];

  /** @throws Fault `KEY_INVALID` (kind `usage`) */
  constructor(keys: readonly string[]) {
    if (keys.length === 0 || !keys.every((key) => KEY.test(key))) {
      throw new Fault('KEY_INVALID', 'the service needs at least one key, and keys begin with cus_ or apikey_', {
        kind: 'usage',
      });
    }
    this.#digests = keys.map(digest);
  }

  /** The number of the key, or `undefined` when it is not one of ours. Every key is compared, whichever matches. */
  identify(key: string): number | undefined {
    const given = digest(key);
    let found: number | undefined;
    for (const [index, expected] of this.#digests.entries()) if (timingSafeEqual(given, expected)) found = index;
    return found;
  }
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
