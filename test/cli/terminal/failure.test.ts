/** Failures as an operator reads them. What each command fails with is tested where the command is. */
import { spawnSync } from 'node:child_process';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createStyle, describeFailure } from '../../../src/cli/terminal/text.ts';
import { Fault } from '../../../src/core/errors.ts';
import { MAIN, makeFolder, REPO } from '../../support/flowdrop.ts';

describe('a failure', () => {
  it('of the local disk says so, with what to do, and is no fault of flowdrop', () => {
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), {
      code: 'ENOSPC',
      syscall: 'write',
    });
    expect(describeFailure(full)).toMatchObject({ exitCode: 1, json: { error: { code: 'DISK_FULL' } } });
    expect(describeFailure(full).text).toMatch(/disk .* is full: make room/);
    const readOnly = Object.assign(new Error('ENOENT: mkdir'), { code: 'ENOENT', syscall: 'mkdir' });
    expect(describeFailure(readOnly).json.error).toMatchObject({
      code: 'DISK_FAILED',
      hint: expect.stringContaining('write permission'),
    });
  });

  it.each(['ENOTDIR', 'EEXIST', 'ENAMETOOLONG', 'EISDIR', 'EACCES'])(
    '%s is one of the folders that the settings name',
    (code) => {
      const error = Object.assign(new Error(`${code}: mkdir '/srv/state'`), { code, syscall: 'mkdir' });
      expect(describeFailure(error)).toMatchObject({
        exitCode: 1,
        json: {
          error: { code: 'DISK_FAILED', hint: expect.stringContaining('FLOWDROP_STATE_DIR and FLOWDROP_OUTBOX_DIR') },
        },
      });
    },
  );

  it('that is no fault and not of the disk is one of flowdrop', () => {
    expect(describeFailure(new TypeError('x is undefined')).json.error.code).toBe('UNEXPECTED');
    const missing = Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT', syscall: 'open' });
    expect(describeFailure(missing).json.error.code).toBe('UNEXPECTED');
  });

  it('that is a fault keeps its own code and hint', () => {
    const fault = new Fault('STORE_FAILED', 'the disk is full', { hint: 'Make room.', cause: new Error('ENOSPC') });
    expect(describeFailure(fault).json.error).toEqual({
      code: 'STORE_FAILED',
      message: 'the disk is full',
      hint: 'Make room.',
      cause: 'ENOSPC',
    });
  });
});

describe('the block of a failure', () => {
  const place = { file: 'a.yaml', line: 6, column: 3, length: 3, text: '  too: out' };
  const fault = new Fault('JOB_INVALID', 'a.yaml:6: drop.too: unknown key', {
    kind: 'usage',
    hint: 'Correct the job file; `flowdrop check` checks it again.',
    places: [place],
  });

  it('says what, where with the line and a mark below it, and what next', () => {
    const { text, json, exitCode } = describeFailure(fault);
    expect(exitCode).toBe(2);
    expect(text).toBe(
      [
        'flowdrop: JOB_INVALID: a.yaml:6: drop.too: unknown key',
        '    6 |   too: out',
        '      |   ^^^',
        '  -> Correct the job file; `flowdrop check` checks it again.',
        '',
      ].join('\n'),
    );
    expect(json.error.where).toEqual([place]);
  });

  it('is wrapped at the width of a terminal, indented, and the same words', () => {
    const { text } = describeFailure(fault, { width: 40 });
    for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(40);
    expect(text.replace(/\n {4}(?=\S)/g, ' ')).toContain('-> Correct the job file; `flowdrop check` checks it again.');
  });

  it('tells causes that add something, once', () => {
    const cause = new Error('the store cannot be read', { cause: new Error('connect ECONNREFUSED', { cause: 'odd' }) });
    const { text } = describeFailure(new Fault('X', 'status: the store cannot be read', { cause }));
    expect(text).toBe(
      'flowdrop: X: status: the store cannot be read\n  because: connect ECONNREFUSED\n  because: odd\n',
    );
  });

  it('has a stack only when it is asked for', () => {
    const error = new TypeError('x is undefined');
    expect(describeFailure(error).text).not.toMatch(/^ +at /m);
    expect(describeFailure(error).text).toContain('--debug');
    expect(describeFailure(error, { debug: true }).text).toMatch(/^ +at /m);
  });

  it('masks a secret before its lines are broken, and lets nothing act on the terminal', () => {
    const secret = 'a key of several words';
    const leak = new Fault('X', `refused ${secret} \u001b[2J`, { cause: new Error(`sent ${secret}`) });
    const { text, json } = describeFailure(leak, { width: 24, redact: (said) => said.replaceAll(secret, '[secret]') });
    expect(text.replace(/\s+/g, ' ')).not.toContain('several');
    expect(JSON.stringify(json)).not.toContain('several');
    expect(text).not.toContain('\u001b');
  });

  it('is coloured only where it is asked for', () => {
    expect(describeFailure(fault, { style: createStyle(true) }).text).toContain('\u001b[31m');
    expect(describeFailure(fault).text).not.toContain('\u001b');
  });
});

describe('a failure outside of commands', () => {
  let folder: Awaited<ReturnType<typeof makeFolder>>;
  beforeAll(async () => {
    folder = await makeFolder();
  });
  afterAll(() => folder.remove());

  const expectBlock = (run: { status: number | null; stderr: string }, says: RegExp, code = 1) => {
    expect(run.status).toBe(code);
    expect(run.stderr).toMatch(says);
    expect(run.stderr).toMatch(/^flowdrop: [A-Z_]+: /);
    expect(run.stderr).toMatch(/^ {2}-> /m);
    expect(run.stderr).not.toMatch(/^ +at |Node\.js v/m);
  };

  it('a stream that fails is told in one block', () => {
    const run = spawnSync('sh', ['-c', 'exec "$0" "$1" --help > /dev/full', process.execPath, MAIN], {
      encoding: 'utf8',
    });
    expectBlock(run, /DISK_FULL: ENOSPC/);
  });

  it('so are packages that are missing', async () => {
    const place = join(folder.path, 'moved');
    await mkdir(place);
    await cp(join(REPO, 'dist'), join(place, 'dist'), { recursive: true });
    await writeFile(join(place, 'package.json'), '{"type":"module","version":"0.0.0"}');
    const run = spawnSync(process.execPath, [join(place, 'dist', 'main.js'), '--help'], { encoding: 'utf8' });
    expectBlock(run, /INSTALLATION_BROKEN: Cannot find package/);
  });

  it('so is a .env that cannot be read', async () => {
    const place = join(folder.path, 'loop');
    await mkdir(place);
    await symlink('.env', join(place, '.env'));
    const run = spawnSync(process.execPath, [MAIN, '--json', 'check'], { cwd: place, encoding: 'utf8' });
    expectBlock(run, /SETTING_INVALID: \.env in this folder cannot be read: ELOOP/, 2);
    expect(JSON.parse(run.stdout)).toMatchObject({ error: { code: 'SETTING_INVALID' } });
  });

  it('so is a folder that was removed', async () => {
    const place = join(folder.path, 'gone');
    await mkdir(place);
    const script = 'cd "$2" && rmdir "$2" && exec "$0" "$1" check';
    const run = spawnSync('sh', ['-c', script, process.execPath, MAIN, place], { encoding: 'utf8' });
    expectBlock(run, /FOLDER_MISSING: ENOENT/);
  });

  it('and a reader that has enough ends it without a word', () => {
    const script = '"$0" "$1" schema | head -c 1';
    const env = { PATH: process.env['PATH'] };
    const run = spawnSync('sh', ['-c', script, process.execPath, MAIN], { encoding: 'utf8', env });
    expect(run).toMatchObject({ stdout: '{', stderr: '' });
  });
});
