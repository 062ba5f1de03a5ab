/** The bench of the archive at a tiny size: its questions, and that flowdrop and another engine answer them alike. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { compareAnswers } from '../../bench/archive.ts';
import { makeYear } from '../../bench/support/year.ts';

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-bench-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('flowdrop and DuckDB give equal answers to the twelve questions of a desk', async () => {
  const year = await makeYear({ sessions: 2, rows: 5_000 }, folder);
  const found = await compareAnswers(year, [{ engine: 'duckdb' }]);
  // So few rows may have no sweep above $1M.
  expect(new Set([...found, 'sweeps above $1M by month']).size).toBe(12);
});
