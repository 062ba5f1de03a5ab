/** `flowdrop key`: the key and the entry it prints, and what becomes of an existing key file. */
import { chmod, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { hashKey, parseKeyFile } from '../../src/service/access/key-file.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles } from '../support/flowdrop.ts';

let cwd: string;
const { folder } = useCleanups();

beforeAll(async () => {
  cwd = await folder();
});

const hashOf = (key: string) => `sha256:${hashKey(key.trim()).toString('hex')}`;

async function callersOf(name: string) {
  return parseKeyFile(name, await readFile(join(cwd, name), 'utf8')).map(({ caller }) => caller);
}

describe('without a file', () => {
  it('prints the key once on stdout, and its entry on stderr', async () => {
    const run = await flowdrop(['key', '--name', 'desk'], { cwd });
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout).toMatch(/^cus_[0-9A-Za-z]{32}\n$/);
    expect(run.stderr).not.toContain(run.stdout.trim());
    const [entry] = parseKeyFile('stderr', run.stderr.slice(run.stderr.indexOf('keys:')));
    expect(entry?.hash).toEqual(hashKey(run.stdout.trim()));
    expect(entry?.caller).toMatchObject({ name: 'desk', historical: 'active', realtime: false });
    expect(await listFiles(cwd)).toEqual([]);
  });

  it('with --json prints one document', async () => {
    const args = ['--json', 'key', '--name', 'live', '--entitlement', 'none', '--realtime', '--prefix', 'apikey'];
    const run = await flowdrop(args, { cwd });
    expect(run).toMatchObject({ code: 0, stderr: '' });
    const { key, id, entry } = JSON.parse(run.stdout) as { key: string; id: string; entry: object };
    expect(key).toMatch(/^apikey_[0-9A-Za-z]{32}$/);
    expect(entry).toEqual({ name: 'live', hash: hashOf(key), entitlement: 'none', realtime: true });
    expect(hashOf(key)).toContain(`sha256:${id}`);
  });
});

describe('with a file', () => {
  it('makes it, and adds to it without losing a word', async () => {
    const first = await flowdrop(['key', '--name', 'one', '--file', 'keys.yaml'], { cwd });
    expect(first.code, first.stderr).toBe(0);
    const text = await readFile(join(cwd, 'keys.yaml'), 'utf8');
    expect(text).toContain(hashOf(first.stdout));
    expect(text).not.toContain(first.stdout.trim());
    await writeFile(join(cwd, 'keys.yaml'), `# ours\n${text}    # the first\n# and no more\n`);
    await chmod(join(cwd, 'keys.yaml'), 0o600);
    const args = ['key', '--name', 'two', '--entitlement', 'trialing', '--file', 'keys.yaml'];
    const second = await flowdrop(args, { cwd });
    expect(second.code, second.stderr).toBe(0);
    const after = await readFile(join(cwd, 'keys.yaml'), 'utf8');
    for (const line of ['# ours', '# the first', '# and no more', hashOf(first.stdout), hashOf(second.stdout)]) {
      expect(after).toContain(line);
    }
    expect(await callersOf('keys.yaml')).toMatchObject([
      { name: 'one', historical: 'active' },
      { name: 'two', historical: 'trialing' },
    ]);
    expect((await stat(join(cwd, 'keys.yaml'))).mode & 0o777).toBe(0o600);
    expect(await listFiles(cwd)).toEqual(['keys.yaml']);
  });

  it('keeps JSON as JSON, an empty list no longer empty, and a link a link', async () => {
    await writeFile(join(cwd, 'real.json'), '{"keys": []}');
    await symlink('real.json', join(cwd, 'linked.json'));
    await writeFile(join(cwd, 'none.yaml'), '# nobody yet\nkeys: []\n');
    for (const file of ['linked.json', 'none.yaml']) {
      const run = await flowdrop(['key', '--name', 'one', '--file', file], { cwd });
      expect(run.code, run.stderr).toBe(0);
      expect(await callersOf(file)).toMatchObject([{ name: 'one' }]);
    }
    expect(JSON.parse(await readFile(join(cwd, 'real.json'), 'utf8'))).toMatchObject({ keys: [{ name: 'one' }] });
    expect(await readFile(join(cwd, 'none.yaml'), 'utf8')).toMatch(/^# nobody yet\nkeys:\n {2}- name: one\n/);
  });

  it.each([
    { text: 'keys: [', args: [], code: 'KEY_FILE_INVALID' },
    { text: 'keys:\n  - name: a\n    key: cus_Top5ecret\n', args: [], code: 'KEY_FILE_INVALID' },
    { text: `keys: [{name: New, hash: "${hashOf('cus_a')}", entitlement: none}]\n`, args: [], code: 'KEY_NAME_TAKEN' },
    { text: 'keys: []\n', args: ['--file', 'none/such.yaml/keys.yaml'], code: 'KEY_FILE_UNWRITABLE' },
  ])('$code leaves the file as it was, and makes no key', async ({ text, args, code }) => {
    await writeFile(join(cwd, 'kept.yaml'), text);
    await writeFile(join(cwd, 'none'), '');
    const run = await flowdrop(['key', '--name', 'new', '--file', 'kept.yaml', ...args], { cwd });
    expect(run).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(code) });
    expect(run.stderr).not.toContain('Top5ecret');
    expect(await readFile(join(cwd, 'kept.yaml'), 'utf8')).toBe(text);
  });
});

describe('usage of key', () => {
  it.each([
    { args: [], says: '--name' },
    { args: ['--name', ''], says: 'KEY_NAME_INVALID' },
    { args: ['--name', 'a\nb'], says: 'KEY_NAME_INVALID' },
    { args: ['--name', 'a', '--entitlement', 'gold'], says: 'active, trialing, none' },
    { args: ['--name', 'a', '--prefix', 'sk'], says: 'cus, apikey' },
  ])('$args ends with exit code 2 and says what is allowed', async ({ args, says }) => {
    const run = await flowdrop(['key', ...args], { cwd });
    expect(run).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(says) });
  });

  it('never repeats a key that was given for a name', async () => {
    const run = await flowdrop(['key', '--name', 'cus_Top5ecret'], { cwd });
    expect(run.code).toBe(2);
    expect(run.stderr + run.stdout).not.toContain('Top5ecret');
  });
});
