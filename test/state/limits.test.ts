/** Limits of an API, when they are old: limits of a bad night must not be those of every night after it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ApiLimits } from '../../src/state/limits.ts';

const NOW = Date.parse('2026-11-20T03:00:00Z');
const DAY_MS = 86_400_000;
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-limits-'));
});
afterEach(async () => await rm(folder, { recursive: true, force: true }));

async function loadAfter(days: number, changes: Partial<Pick<ApiLimits, 'rowLimit' | 'dayEdges'>>): Promise<ApiLimits> {
  const path = join(folder, 'limits.json');
  await Object.assign(await new ApiLimits(path, NOW).load(), changes).save();
  return await new ApiLimits(path, NOW + days * DAY_MS).load();
}

it('the row limit of an API that tells none is hoped to be the usual one after a week', async () => {
  expect(await loadAfter(1, { rowLimit: 3 })).toMatchObject({ rowLimit: 3 });
  expect(await loadAfter(8, { rowLimit: 3 })).toMatchObject({ rowLimit: 10_000 });
  expect(await loadAfter(8, { rowLimit: 40_000 })).toMatchObject({ rowLimit: 40_000 });
});

it('windows without ends are tried again after a week: without them rows whose time is of another date are left out', async () => {
  expect(await loadAfter(1, { dayEdges: 'closed' })).toMatchObject({ dayEdges: 'closed' });
  expect(await loadAfter(8, { dayEdges: 'closed' })).toMatchObject({ dayEdges: 'open' });
});
