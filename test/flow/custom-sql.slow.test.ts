/**
 * Jobs whose SQL is the user's own, against the running service: single trades, some seconds of which are more than a page, and groups whose
 * grain is split by a key. What is refused of such SQL is in `test/job`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';

const DATE = '2026-11-20';
let service: TestService;
let folder: { readonly path: string; remove(): Promise<void> };

beforeAll(async () => {
  const day = ['--generate', '1', '--generate-rows', '3000', '--row-limit', '40', '--as-of', '2026-11-20T23:00:00Z'];
  service = await startService(day);
  folder = await makeFolder();
  // The whole session as the API has it, to compare with.
  const all = 'name: all\nsource: {api: historical}\ndrop: {to: out, dataset: all}\n';
  await run('all', all);
});
afterAll(async () => {
  await service.stop();
  await folder.remove();
});

async function run(name: string, text: string): Promise<void> {
  const path = join(folder.path, `${name}.yaml`);
  await writeFile(path, text);
  const done = await flowdrop(['run', path], { cwd: folder.path, env: service.env });
  expect(done.code, done.stderr).toBe(0);
}

const fileOf = (dataset: string) => join(folder.path, 'out', dataset, `session=${DATE}`, `${dataset}.parquet`);

it('single trades of a SELECT with a condition and a computed column come home whole', async () => {
  await run(
    'big',
    `name: big
source:
  api: historical
  sql: SELECT id, date, time, symbol, premium, premium / 1000 AS thousands FROM RawOptionTrades WHERE {window} AND size >= 5
  types: {symbol: string, premium: double, thousands: double}
drop: {to: out, dataset: big}
`,
  );
  const [difference] = await queryDuckDb(`
    SELECT count(*)::INTEGER AS n FROM (
      (SELECT id, date, time, symbol, premium, premium / 1000 FROM '${fileOf('all')}' WHERE size >= 5
        EXCEPT ALL SELECT id, date, time, symbol, premium, thousands FROM '${fileOf('big')}')
      UNION ALL
      (SELECT id, date, time, symbol, premium, thousands FROM '${fileOf('big')}'
        EXCEPT ALL SELECT id, date, time, symbol, premium, premium / 1000 FROM '${fileOf('all')}' WHERE size >= 5))`);
  const [rows] = await queryDuckDb(`SELECT count(*)::INTEGER AS n FROM '${fileOf('big')}'`);
  expect(difference).toEqual({ n: 0 });
  expect(Number(rows?.['n'])).toBeGreaterThan(200);
});

it('groups of which one hour holds more than a page are split by their key, and add up', async () => {
  await run(
    'hourly',
    `name: hourly
source:
  api: historical
  sql: SELECT option_symbol, concat(substring(toString(time), 1, 13), ':00') AS hour, sum(size) AS contracts, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY option_symbol, hour
  grain: hour
  time: hour
  split: [option_symbol]
  types: {contracts: int64, trades: int64}
drop: {to: out, dataset: hourly, sort: [option_symbol, hour]}
`,
  );
  const [difference] = await queryDuckDb(`
    WITH expected AS (SELECT option_symbol, date_trunc('hour', time) AS hour, sum(size)::BIGINT AS contracts, count(*) AS trades FROM '${fileOf('all')}' GROUP BY ALL)
    SELECT count(*)::INTEGER AS n FROM (
      (FROM expected EXCEPT ALL SELECT option_symbol, hour, contracts, trades FROM '${fileOf('hourly')}')
      UNION ALL (SELECT option_symbol, hour, contracts, trades FROM '${fileOf('hourly')}' EXCEPT ALL FROM expected))`);
  expect(difference).toEqual({ n: 0 });
  const largest = await queryDuckDb(
    `SELECT count(*)::INTEGER AS n FROM '${fileOf('hourly')}' GROUP BY hour ORDER BY n DESC LIMIT 1`,
  );
  expect(Number(largest[0]?.['n'])).toBeGreaterThan(40);
});
