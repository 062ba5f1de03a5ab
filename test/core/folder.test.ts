/** Folders and those above them: made, there already, and where the system makes none. */
import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeFolder } from '../../src/core/atomic-file.ts';

let root: string;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'flowdrop-folder-'));
  await writeFile(join(root, 'file'), '');
  await symlink(join(root, 'nowhere'), join(root, 'broken'));
  await mkdir(join(root, 'there'));
  await symlink(join(root, 'there'), join(root, 'link'));
});
afterAll(() => rm(root, { recursive: true }));

describe('makeFolder', () => {
  it('makes a folder and those above it, and again without a word', async () => {
    const folder = join(root, 'name', 'a', 'b');
    await makeFolder(folder);
    await makeFolder(folder);
    expect((await stat(folder)).isDirectory()).toBe(true);
  });

  it('makes a folder behind a link', async () => {
    await makeFolder(join(root, 'link', 'name'));
    expect((await stat(join(root, 'there', 'name'))).isDirectory()).toBe(true);
  });

  it.each([
    ['file', 'EEXIST'],
    ['file/below', 'ENOTDIR'],
    ['broken', 'EEXIST'],
    ['broken/below', 'EEXIST'],
  ])('fails at %s with %s', async (path, code) => {
    await expect(makeFolder(join(root, path))).rejects.toMatchObject({ code });
  });

  it.runIf(process.platform === 'linux')(
    'comes to an end where a parent is there and ENOENT is the answer',
    async () => {
      await expect(makeFolder('/proc/flowdrop/a/b')).rejects.toMatchObject({ code: 'ENOENT', path: '/proc/flowdrop' });
    },
  );
});

it('the outermost folder that was made is told', async () => {
  const folder = join(root, 'outer', 'inner');
  expect(await makeFolder(folder)).toBe(join(root, 'outer'));
  expect(await makeFolder(folder)).toBeUndefined();
  expect(await makeFolder(join(folder, 'leaf'))).toBe(join(folder, 'leaf'));
});
