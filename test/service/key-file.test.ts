/**
 * Keys, and the key file: what it may say, what its faults are called, and that a change of the real file counts at once,
 * while a broken one changes nothing. Adding entries to it is `test/cli/key.test.ts`; that a removed key is refused,
 * `serve-keys.test.ts`.
 */
import { mkdir, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { isFault } from '../../src/core/errors.ts';
import { createLog } from '../../src/core/log.ts';
import { buildEntry, createKey, hashKey, parseKeyFile } from '../../src/service/access/key-file.ts';
import { createKeyRing, type KeySource, openKeys, parsePlainKeys } from '../../src/service/access/keys.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';

const hashOf = (key: string) => `sha256:${hashKey(key).toString('hex')}`;

function entryText(key: string, name: string, rest = 'entitlement: active'): string {
  return `  - name: ${name}\n    hash: ${hashOf(key)}\n    ${rest}\n`;
}

function faultsOf(text: string): string {
  try {
    parseKeyFile('keys.yaml', text);
  } catch (error) {
    if (isFault(error) && error.code === 'KEY_FILE_INVALID' && error.kind === 'usage') return error.message;
    throw error;
  }
  expect.unreachable('the file was accepted');
}

describe('a key file', () => {
  test('gives each key its name and rights', () => {
    const entries = parseKeyFile(
      'keys.yaml',
      `# Ours\nkeys:\n${entryText('cus_a', 'desk', 'entitlement: active\n    realtime: true')}${entryText('cus_b', 'The trial @ 2', 'entitlement: trialing')}`,
    );
    expect(entries.map(({ caller }) => caller)).toMatchObject([
      { name: 'desk', historical: 'active', realtime: true },
      { name: 'The trial @ 2', historical: 'trialing', realtime: false },
    ]);
    expect(entries[0]?.hash).toEqual(hashKey('cus_a'));
  });

  test('may be JSON, may have upper-case digits, and may be empty when it says so', () => {
    const hash = hashOf('cus_a').toUpperCase().replace('SHA256', 'sha256');
    const entries = parseKeyFile('keys.json', JSON.stringify({ keys: [{ name: 'a', hash, entitlement: 'none' }] }));
    expect(entries[0]?.hash).toEqual(hashKey('cus_a'));
    expect(parseKeyFile('keys.yaml', 'keys: []')).toEqual([]);
  });

  test.each([
    ['', 'keys.yaml:1: the file: got nothing; allowed: a section of keys'],
    ['other: 1\nkeys: []', 'keys.yaml:1: other: unknown key "other"; allowed here: keys'],
    ['# none\nversion: 2', 'keys.yaml:2: keys: is missing; allowed: a list of entries'],
    ['keys:\n', 'keys.yaml:1: keys: got nothing; allowed: a list of entries'],
    ['keys: [', 'keys.yaml:1: '],
    ['keys: []\nkeys: []', 'keys.yaml:2: Map keys must be unique'],
    ['keys: &a\n  - *a', 'keys.yaml: '],
    [
      `keys:\n${entryText('cus_a', 'a', 'entitlement: paid')}`,
      'keys.yaml:4: keys.0.entitlement: got "paid"; allowed: active, trialing, none',
    ],
    [
      `keys:\n${entryText('cus_a', 'a', 'realtime: true')}`,
      'keys.yaml:2: keys.0.entitlement: is missing; allowed: active, trialing, none',
    ],
    [
      `keys:\n${entryText('cus_a', 'a', 'entitlement: none\n    realtime: "yes"')}`,
      'keys.yaml:5: keys.0.realtime: got "yes"; allowed: true or false',
    ],
    [
      `keys:\n${entryText('cus_a', 'a', 'entitlement: none\n    expires: never')}`,
      'keys.yaml:5: keys.0.expires: unknown key "expires"; allowed here: name, hash, entitlement, realtime',
    ],
    [`keys:\n${entryText('cus_a', '"-"')}`, 'keys.yaml:2: keys.0.name: got "-"; allowed: up to 64 letters'],
    [`keys:\n${entryText('cus_a', '7')}`, 'keys.yaml:2: keys.0.name: got 7; allowed: text'],
    [
      `keys:\n${entryText('cus_a', 'a')}${entryText('cus_b', 'A')}`,
      'keys.yaml:5: keys.1.name: has the same name as keys.0',
    ],
    [
      `keys:\n${entryText('cus_a', 'a')}${entryText('cus_a', 'b')}`,
      'keys.yaml:6: keys.1.hash: has the same hash as keys.0',
    ],
  ])('that says %j is refused with its place and what is allowed', (text, says) => {
    expect(faultsOf(text)).toContain(says);
  });

  test('tells every fault it has', () => {
    const text = `keys:\n${entryText('cus_a', 'a', 'entitlement: paid')}${entryText('cus_b', 'b', 'entitlement: gold')}`;
    expect(faultsOf(text).split('\n')).toHaveLength(2);
  });

  test('with more keys than a request can be compared with is refused', () => {
    const keys = Array.from({ length: 10_001 }, () => ({ name: 'a', hash: hashOf('cus_a'), entitlement: 'none' }));
    expect(faultsOf(JSON.stringify({ keys }))).toContain('got a list of 10001; allowed: up to 10000 keys');
  });

  test.each([
    ['keys:\n  - name: a\n    hash: cus_Top5ecret\n    entitlement: active'],
    ['keys:\n  - name: a\n    hash: apikey_Top5ecret\n    entitlement: active'],
    ['keys:\n  - name: a\n    key: cus_Top5ecret\n    entitlement: active'],
    ['keys:\n  - name: a\n    api_key: Top5ecret\n    entitlement: active'],
  ])('with a key in plain text (%j) says so, and does not repeat it', (text) => {
    const faults = faultsOf(text);
    expect(faults).toContain('keys.yaml:3: keys.0.');
    expect(faults).toContain('is a key in plain text (not shown here)');
    expect(faults).not.toContain('Top5ecret');
  });

  test.each([
    ['keys:\n  - name: a\n    hash: Top5ecret\n    entitlement: active'],
    ['keys:\n  - name: a\n    hash: sha256:cus_Top5ecret\n    entitlement: active'],
    ['keys:\n  - cus_Top5ecret'],
    ['keys:\n  - Top5ecret'],
    ['keys:\n  cus_Top5ecret: active'],
    ['keys:\n  desk: Top5ecret'],
    ['cus_Top5ecret'],
    ['Top5ecret'],
    ['cus_Top5ecret: active\nkeys: []'],
    ['keys:\n  - name: cus_Top5ecret\n    entitlement: active'],
    ['keys:\n  - name: key cus_Top5ecret of the desk\n    entitlement: active'],
    ['keys:\n  - *cus_Top5ecret'],
    ['keys: []\n"cus_Top5ecret" 5'],
  ])('with a key where none belongs (%j) does not repeat it either', (text) => {
    expect(faultsOf(text)).not.toContain('Top5ecret');
  });
});

describe('a key file of a running service', () => {
  let folder: string;
  let file: string;
  let remove: () => Promise<void>;
  let lines: Record<string, unknown>[];
  let opened: KeySource[];

  beforeEach(async () => {
    ({ path: folder, remove } = await makeFolder());
    file = join(folder, 'keys.yaml');
    lines = [];
    opened = [];
  });
  afterEach(async () => {
    // It does not wait for the end of its sleep.
    await Promise.all(opened.map((source) => source.close()));
    await remove();
  });

  /** A service whose looks at the file are the test's own. */
  async function open(keys: readonly string[] = []): Promise<KeySource> {
    const log = createLog({ level: 'info', pretty: false, secrets: [], write: (line) => lines.push(JSON.parse(line)) });
    const clock = { now: () => 0, sleep: (_ms: number, signal?: AbortSignal) => systemClock.sleep(3_600_000, signal) };
    const source = await openKeys({ keys, keyFile: file }, clock, log);
    opened.push(source);
    return source;
  }

  async function replace(text: string): Promise<void> {
    await writeFile(`${file}.new`, text);
    await rename(`${file}.new`, file);
  }

  const names = (source: KeySource) => source.ring.list().map(({ name }) => name);
  const errors = () => lines.filter(({ level }) => level === 50);

  test('that is replaced by a rename counts from then on, and the log names what changed', async () => {
    await writeFile(file, `keys:\n${entryText('cus_a', 'a')}${entryText('cus_b', 'b')}`);
    const source = await open();
    expect(lines).toMatchObject([{ event: 'keys', keys: 2 }]);
    await replace(`keys:\n${entryText('cus_b', 'b', 'entitlement: trialing')}${entryText('cus_c', 'c')}`);
    await source.refresh();
    expect(source.ring.identify('cus_a')).toBeUndefined();
    expect(source.ring.identify('cus_b')?.historical).toBe('trialing');
    expect(source.ring.identify('cus_c')?.name).toBe('c');
    expect(lines[1]).toMatchObject({ event: 'keys', keys: 2, added: ['c'], changed: ['b'], removed: ['a'] });
    expect(JSON.stringify(lines)).not.toMatch(/cus_|sha256/);
  });

  test('that is written in place counts too, even with the size and time of before', async () => {
    await writeFile(file, `keys:\n${entryText('cus_a', 'a')}`);
    await utimes(file, 1_000, 1_000);
    const source = await open();
    await vi.waitFor(async () => {
      await writeFile(file, `keys:\n${entryText('cus_b', 'a')}`);
      await utimes(file, 1_000, 1_000);
      await source.refresh();
      expect(source.ring.identify('cus_b')?.name).toBe('a');
    });
    expect(source.ring.identify('cus_a')).toBeUndefined();
  });

  test('that is reached by a link counts when the link moves', async () => {
    for (const name of ['a', 'b']) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, 'keys.yaml'), `keys:\n${entryText(`cus_${name}`, name)}`);
    }
    await symlink('a', join(folder, 'now'));
    await symlink(join('now', 'keys.yaml'), file);
    const source = await open();
    expect(names(source)).toEqual(['a']);
    await symlink('b', join(folder, 'next'));
    await rename(join(folder, 'next'), join(folder, 'now'));
    await source.refresh();
    expect(names(source)).toEqual(['b']);
  });

  test('that is broken keeps the keys of before, and says so once per change', async () => {
    await writeFile(file, `keys:\n${entryText('cus_a', 'a')}`);
    const source = await open();
    const broken = ['keys: [', '', 'keys:\n  - name: a\n    hash: cus_Top5ecret\n    entitlement: active'];
    for (const [index, text] of broken.entries()) {
      await replace(text);
      for (let look = 0; look < 3; look += 1) await source.refresh();
      expect(names(source)).toEqual(['a']);
      expect(errors()).toHaveLength(index + 1);
    }
    expect(errors()[2]).toMatchObject({
      reason: expect.stringContaining('keys.yaml:3: keys.0.hash: is a key in plain'),
    });
    expect(JSON.stringify(lines)).not.toContain('Top5ecret');
    await replace(`keys:\n${entryText('cus_b', 'b')}`);
    await source.refresh();
    expect(names(source)).toEqual(['b']);
    expect(errors()).toHaveLength(3);
  });

  test('that is gone, or no file any more, keeps the keys until it is back', async () => {
    await writeFile(file, `keys:\n${entryText('cus_a', 'a')}`);
    const source = await open();
    await rm(file);
    for (let look = 0; look < 3; look += 1) await source.refresh();
    expect(errors()).toMatchObject([{ reason: expect.stringContaining('ENOENT') }]);
    await mkdir(file);
    await source.refresh();
    expect(errors()).toHaveLength(2);
    expect(names(source)).toEqual(['a']);
    await rm(file, { recursive: true });
    await replace(`keys:\n${entryText('cus_b', 'b')}`);
    await source.refresh();
    expect(names(source)).toEqual(['b']);
  });

  test('that holds no key any more refuses everybody, with a warning', async () => {
    await writeFile(file, `keys:\n${entryText('cus_a', 'a')}`);
    const source = await open();
    await replace('keys: []\n');
    await source.refresh();
    expect(source.ring.identify('cus_a')).toBeUndefined();
    expect(lines[1]).toMatchObject({ level: 50, event: 'keys-none', keys: 0, removed: ['a'] });
  });

  test('stands beside the keys of the command line, which stay whatever it says', async () => {
    await writeFile(file, `keys:\n${entryText('cus_a', 'a')}`);
    const source = await open(['cus_mine']);
    expect(names(source)).toEqual(['--key 1', 'a']);
    await replace(`keys:\n${entryText('cus_mine', 'b')}`);
    await source.refresh();
    expect(errors()).toMatchObject([
      { reason: expect.stringContaining('keys.0.hash: is the hash of a key given with --key') },
    ]);
    await replace('keys: []');
    await source.refresh();
    expect(names(source)).toEqual(['--key 1']);
  });

  test('that is missing or broken at the start is a usage failure', async () => {
    await expect(open()).rejects.toMatchObject({ code: 'KEY_FILE_UNREADABLE', kind: 'usage' });
    await writeFile(file, 'keys: 1');
    await expect(open()).rejects.toMatchObject({ code: 'KEY_FILE_INVALID', kind: 'usage' });
  });

  test('is not needed where keys are given, and one of both is', async () => {
    const source = await openKeys({ keys: ['cus_a'] }, systemClock, createSilentLog());
    await source.refresh();
    await source.close();
    expect(source.ring.identify('cus_a')?.realtime).toBe(true);
    await expect(openKeys({ keys: [] }, systemClock, createSilentLog())).rejects.toMatchObject({ code: 'KEY_INVALID' });
  });
});

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
      const message = 'keys begin with cus_ or apikey_, and hold no spaces';
      const fault = expect.objectContaining({ code: 'KEY_INVALID', kind: 'usage', message });
      expect(() => parsePlainKeys(['cus_fine', key])).toThrow(fault);
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
