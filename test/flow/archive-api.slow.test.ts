/**
 * The worker as a client of an archive: it exports from `serve --store` what it exported from the service, and what it
 * gets is the same, row for row.
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { readWithDuckDb } from '../support/drop.ts';
import { flowdrop, listFiles, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

/** 18:15 in New York, after a closed session. */
const EVENING = '2026-11-19T23:15:00Z';
const DATES = ['2026-11-18', '2026-11-19'];
const ROWS = 3_000;

const cwd = await useCleanups().folder();

async function run(to: string, env: Readonly<Record<string, string>>) {
  await writeJob(cwd, { name: to, to: join(cwd, to), reports: '' });
  return await flowdrop(['--jobs', cwd, 'run', to], {
    cwd,
    env: { ...env, FLOWDROP_STATE_DIR: join(cwd, `state-${to}`) },
    code: 0,
  });
}

test('a worker exports from an archive the rows that it exported from the service', { timeout: 300_000 }, async () => {
  const source = await startService(['--generate', '2', '--generate-rows', String(ROWS), '--as-of', EVENING]);
  await run('first', source.env).finally(() => source.stop());
  const store = ['--store', join(cwd, 'first'), '--dataset', 'trades'];
  const archive = await startService([...store, '--as-of', EVENING]);
  await run('second', archive.env).finally(() => archive.stop());
  expect(archive.requests.filter(({ status }) => status !== 200)).toEqual([]);
  for (const date of DATES) {
    const rows = await readWithDuckDb(join(cwd, 'second', `trades/session=${date}/trades.parquet`));
    expect(rows).toHaveLength(ROWS);
    expect(rows).toEqual(await readWithDuckDb(join(cwd, 'first', `trades/session=${date}/trades.parquet`)));
  }
  const drops = (await listFiles(join(cwd, 'second'))).filter((file) => file.endsWith('trades.parquet'));
  expect(drops).toHaveLength(DATES.length);
});

test('usage errors of serve --store name the flag and what is allowed', async () => {
  const cases = [
    ['--store first', '--store and --dataset go together'],
    ['--store first --dataset trades --generate 2', "cannot be used with option '--generate <sessions>'"],
    ['--store nowhere --dataset trades', 'there is no directory'],
    ['--store first --dataset trades --scan-limit 9', "cannot be used with option '--scan-limit <rows>'"],
    ['--store first --dataset trade', 'has no dataset "trade"; it has trades'],
  ] as const;
  for (const [args, message] of cases) {
    const { code, stderr } = await flowdrop(['serve', ...args.split(' ')], { cwd });
    expect(stderr).toContain(message);
    expect(code, stderr).toBe(message.startsWith('there') ? 1 : 2);
  }
});
