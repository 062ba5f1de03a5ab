/** What was learnt of an API, when it is old: limits of a bad night must not be those of every night after it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Learnt, loadLearnt, saveLearnt } from '../../src/run/learnt.ts';

const URL = 'https://api.example.com';
const NOW = Date.parse('2026-11-20T03:00:00Z');
const DAY_MS = 86_400_000;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-learnt-'));
});
afterEach(async () => await rm(folder, { recursive: true, force: true }));

async function loadAfter(days: number, changes: Partial<Learnt>): Promise<Learnt> {
  const path = join(folder, 'learnt.json');
  await saveLearnt(path, { ...(await loadLearnt(path, URL, NOW)), ...changes });
  return await loadLearnt(path, URL, NOW + days * DAY_MS);
}

it('the row limit of an API that tells none is hoped to be the usual one after a week', async () => {
  expect(await loadAfter(1, { row_limit: 3 })).toMatchObject({ row_limit: 3 });
  expect(await loadAfter(8, { row_limit: 3 })).toMatchObject({ row_limit: 10_000 });
  expect(await loadAfter(8, { row_limit: 40_000 })).toMatchObject({ row_limit: 40_000 });
});

it('windows without ends are tried again after a week: without them rows whose time is of another date are left out', async () => {
  expect(await loadAfter(1, { day_edges: 'closed' })).toMatchObject({ day_edges: 'closed' });
  expect(await loadAfter(8, { day_edges: 'closed' })).toMatchObject({ day_edges: 'open' });
});
