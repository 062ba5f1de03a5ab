/** Limits of an API, when they are old: limits of a bad night must not be those of every night after it. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ApiLimits } from '../../src/state/limits.ts';
import { useCleanups } from '../support/cleanups.ts';

const NOW = Date.parse('2026-11-20T03:00:00Z');
const DAY_MS = 86_400_000;
const { folder } = useCleanups();

async function loadAfter(days: number, changes: Partial<Pick<ApiLimits, 'rowLimit' | 'dayEdges'>>): Promise<ApiLimits> {
  const path = join(await folder(), 'limits.json');
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

it.each(['{"sinceMs":', '{"rowLimit":3}', '[]', ''])('a file of limits that holds %s counts as none', async (text) => {
  const path = join(await folder(), 'limits.json');
  await writeFile(path, text);
  expect(await new ApiLimits(path, NOW).load()).toMatchObject({ rowLimit: 10_000, dayEdges: 'open' });
});
