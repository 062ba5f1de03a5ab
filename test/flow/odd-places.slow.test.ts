/** Folders with names that mean something to the engine, as their users see them: a day is sealed, checked and read there. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { RunResult } from '../../src/state/run-result.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const { folder, keep } = useCleanups(afterAll);

it('below folders named column=value, {a,b}, * and ?, a day is sealed, verified and queried with its own values', async () => {
  const service = await keep(
    startService(['--generate', '1', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']),
  );
  const cwd = join(await folder(), 'symbol=SPY', '{a,b}', 'x*y,? in a.zip :: z');
  await mkdir(cwd, { recursive: true });
  const job = await writeJob(cwd);
  const run = await flowdrop(['--json', 'run', job], { cwd, env: service.env, code: 0 });
  expect((JSON.parse(run.stdout) as RunResult).dates.map(({ status }) => status)).toEqual(['sealed']);
  expect((await listFiles(join(cwd, 'out', 'mail'))).filter((name) => name.endsWith('.eml'))).toHaveLength(2);
  await flowdrop(['verify', job], { cwd, env: service.env, code: 0 });
  const sql = 'SELECT uniqExact(symbol) > 1 AS has_symbols, count() AS n FROM RawOptionTrades';
  const asked = await flowdrop(['--json', 'query', sql, '--job', job], { cwd, env: service.env, code: 0 });
  expect(asked.stdout).toContain('"n":300');
  expect(asked.stdout).toMatch(/"has_symbols":(?:1|true)/);
}, 240_000);
