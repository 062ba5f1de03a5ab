/** Failures as an operator reads them. What each command fails with is tested where the command is. */
import { spawnSync } from 'node:child_process';
import { cp, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createStyle, describeFailure } from '../../../src/cli/terminal/text.ts';
import { Fault } from '../../../src/core/errors.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { MAIN, REPO } from '../../support/flowdrop.ts';

describe('a failure', () => {
  it.each([
    ['ENOSPC', 'write', 'DISK_FULL', /disk .* is full: make room/],
    ['ENOENT', 'mkdir', 'DISK_FAILED', /write permission/],
    ...['ENOTDIR', 'EEXIST', 'ENAMETOOLONG', 'EISDIR', 'EACCES'].map((code) => {
      return [code, 'mkdir', 'DISK_FAILED', /FLOWDROP_STATE_DIR and FLOWDROP_OUTBOX_DIR/] as const;
    }),
    // It is not of the disk.
    ['ENOENT', 'open', 'UNEXPECTED', /a bug in flowdrop/],
  ] as const)('%s of %s is told as %s, with what to do', (code, syscall, said, hint) => {
    const error = Object.assign(new Error(`${code}: ${syscall} '/srv/state'`), { code, syscall });
    const { exitCode, json } = describeFailure(error);
    expect([exitCode, json.error.code]).toEqual([1, said]);
    expect(json.error.hint).toMatch(hint);
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
    expect(describeFailure(error).text).toMatch(/^flowdrop: UNEXPECTED: /);
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
  const { folder } = useCleanups();

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
    const place = await folder();
    await cp(join(REPO, 'dist'), join(place, 'dist'), { recursive: true });
    await writeFile(join(place, 'package.json'), '{"type":"module","version":"0.0.0"}');
    const run = spawnSync(process.execPath, [join(place, 'dist', 'main.js'), '--help'], { encoding: 'utf8' });
    expectBlock(run, /INSTALLATION_BROKEN: Cannot find package/);
  });

  it('so is a .env that cannot be read', async () => {
    const place = await folder();
    await symlink('.env', join(place, '.env'));
    const run = spawnSync(process.execPath, [MAIN, '--json', 'check'], { cwd: place, encoding: 'utf8' });
    expectBlock(run, /SETTING_INVALID: \.env in this folder cannot be read: ELOOP/, 2);
    expect(JSON.parse(run.stdout)).toMatchObject({ error: { code: 'SETTING_INVALID' } });
  });

  it('so is a folder that was removed', async () => {
    const place = await folder();
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
