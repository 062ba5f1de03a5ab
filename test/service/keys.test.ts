/** Keys: how they are made, hashed and told apart. That a replaced key is forgotten is in `serve-keys.test.ts`. */
import { describe, expect, test } from 'vitest';
import { isFault } from '../../src/core/errors.ts';
import { buildEntry, createKey, hashKey } from '../../src/service/access/key-file.ts';
import { createKeyRing, parsePlainKeys } from '../../src/service/access/keys.ts';

const RIGHTS = { historical: 'active', realtime: false } as const;

function entry(key: string, name: string) {
  return buildEntry(hashKey(key), { name, ...RIGHTS });
}

describe('a key ring', () => {
  test('knows a key by its hash, and no other key', () => {
    const ring = createKeyRing([entry('cus_one', 'one'), entry('cus_two', 'two')]);
    expect(ring.identify('cus_one')?.name).toBe('one');
    expect(ring.identify('cus_two')?.name).toBe('two');
    for (const wrong of ['cus_three', 'cus_on', 'cus_one ', 'CUS_ONE', '', '\0']) {
      expect(ring.identify(wrong)).toBeUndefined();
    }
  });

  test('names a caller by twelve digits of the hash, and finds it by them', () => {
    const ring = createKeyRing([entry('cus_one', 'one')]);
    const caller = ring.identify('cus_one');
    expect(caller).toEqual({ id: hashKey('cus_one').toString('hex').slice(0, 12), name: 'one', ...RIGHTS });
    expect(caller?.id).toMatch(/^[0-9a-f]{12}$/);
    expect(ring.find(caller?.id ?? '')).toBe(caller);
    expect(ring.find('000000000000')).toBeUndefined();
    expect(ring.find('__proto__')).toBeUndefined();
  });
});

describe('keys of the command line', () => {
  test('are entitled to everything, and one given twice counts once', () => {
    const callers = parsePlainKeys(['cus_a', 'apikey_b', 'cus_a']).map(({ caller }) => caller);
    expect(callers).toMatchObject([
      { name: '--key 1', historical: 'active', realtime: true },
      { name: '--key 2', historical: 'active', realtime: true },
    ]);
  });

  test.each([['secret'], ['cus_'], ['cus_with space'], ['CUS_secret'], ['xcus_secret']])(
    'like %j are refused without being repeated',
    (key) => {
      const fault = catchFault(() => parsePlainKeys(['cus_fine', key]));
      expect(fault).toMatchObject({ code: 'KEY_INVALID', kind: 'usage' });
      expect(fault.message).not.toContain('secret');
      expect(fault.message).not.toContain('fine');
    },
  );
});

describe('a new key', () => {
  test('has its prefix, 32 characters, and is never the same', () => {
    const keys = Array.from({ length: 500 }, (_, index) => createKey(index % 2 === 0 ? 'cus' : 'apikey'));
    for (const key of keys) expect(key).toMatch(/^(cus|apikey)_[0-9A-Za-z]{32}$/);
    expect(new Set(keys).size).toBe(500);
    const used = new Set(keys.join('').replaceAll(/cus_|apikey_/g, ''));
    expect(used.size).toBe(62);
    expect(() => parsePlainKeys(keys)).not.toThrow();
  });
});

function catchFault(act: () => unknown) {
  try {
    act();
  } catch (error) {
    if (isFault(error)) return error;
    throw error;
  }
  expect.unreachable('nothing was thrown');
}
