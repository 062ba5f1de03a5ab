/**
 * The SQL of a job file on its way to what is asked: where a fault is, which jobs need an engine, and what comes out. Which
 * SQL is refused is in `test/guard/windowed-sql.test.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { readJob } from '../../src/job/job-folder.ts';
import { readSourceSql } from '../../src/run/job-sql.ts';
import { useCleanups } from '../support/cleanups.ts';

const GROUPS = 'SELECT symbol, toStartOfMinute(time) AS minute FROM RawOptionTrades WHERE {window}';

const { folder } = useCleanups();

async function read(source: string, openEngine = () => openEmbeddedEngine()) {
  const cwd = await folder();
  const file = join(cwd, 'x.yaml');
  await writeFile(file, `name: x\nsource:\n${source}drop: { to: out, dataset: x }\n`);
  return (await readSourceSql({ openEngine }, await readJob(file, cwd))).source;
}

test.each([
  [
    'sql without GROUP BY',
    `  api: historical\n  sql: ${GROUPS}\n  grain: minute\n  time: minute\n`,
    'source.sql: has no GROUP BY',
  ],
  [
    'a split key outside of GROUP BY',
    `  api: historical\n  sql: ${GROUPS} GROUP BY symbol, minute\n  grain: minute\n  time: minute\n  split: [symbol, exchange]\n`,
    'source.sql: does not group by "exchange"',
  ],
  [
    'a time column outside of GROUP BY',
    `  api: historical\n  sql: ${GROUPS} GROUP BY symbol, minute\n  grain: minute\n`,
    'source.sql: does not group by "time"',
  ],
  [
    'single trades with LIMIT',
    '  api: portal\n  sql: SELECT id FROM RawOptionTrades WHERE {window} LIMIT 5\n',
    'source.sql: LIMIT is not allowed',
  ],
  ['a condition of two', '  api: historical\n  where: 1) OR (1\n', 'source.where: must be one expression'],
  [
    "a condition of a server's table",
    '  api: clickhouse\n  table: a.b\n  columns: [date]\n  where: date AND\n',
    'source.where: cannot be read',
  ],
])('%s is refused with file, line and key', async (_title, source, says) => {
  const line = source.includes('clickhouse') ? 6 : 4;
  await expect(read(source)).rejects.toMatchObject({
    code: 'JOB_INVALID',
    kind: 'usage',
    message: expect.stringContaining(`x.yaml:${line}: ${says}`),
  });
});

test('what is asked is what the engine read, for groups, rows and conditions alike', async () => {
  const groups = `  api: historical\n  sql: "${GROUPS} group by symbol, minute -- all"\n  grain: minute\n  time: minute\n`;
  expect(await read(groups)).toMatchObject({
    sql: `${GROUPS.replace('{window}', '({window})')} GROUP BY symbol, minute`,
  });
  expect(await read('  api: historical\n  where: premium>1000 # large\n')).toMatchObject({ where: '(premium > 1000)' });
});

test('a job without SQL of its own opens no engine', async () => {
  const openEngine = () => Promise.reject(new Error('an engine was opened'));
  expect(await read('  api: historical\n', openEngine)).toMatchObject({ kind: 'rows', sql: '', where: '' });
  expect(await read('  api: chain\n  symbols: [SPX]\n', openEngine)).toMatchObject({ kind: 'snapshots' });
});
