/** A document of the state folder: whole or none. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { StateFile } from '../../src/state/job-state.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-state-'));
});
afterAll(async () => await rm(folder, { recursive: true, force: true }));

const fileOf = (name: string) => new StateFile(join(folder, name), z.record(z.string(), z.number()));

it('is read as it was written, and is gone when it was removed', async () => {
  const file = fileOf('a.json');
  expect(await file.read()).toBeUndefined();
  await file.write({ x: 1 });
  expect(await fileOf('a.json').read()).toEqual({ x: 1 });
  await file.remove();
  await file.remove();
  expect(await file.read()).toBeUndefined();
});

it.each(['{"x":', '{"x":"1"}', '[]', ''])('counts as none when it holds %s', async (text) => {
  await writeFile(join(folder, 'broken.json'), text);
  expect(await fileOf('broken.json').read()).toBeUndefined();
});
