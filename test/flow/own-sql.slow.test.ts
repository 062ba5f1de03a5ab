/**
 * Jobs whose SQL is the user's own, against the running service, each drop compared with the trades: single trades, and
 * groups, whose requests are counted beside the fewest possible. A grain with more groups than a page is cut where the source
 * says that pages end, by every split key in turn. Other keys, and what a source refuses, are in
 * `test/export/trades/custom-sql.test.ts`; what is refused of such SQL is in `test/job`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, startService, type TestService } from '../support/flowdrop.ts';

const DATES = ['2026-11-18', '2026-11-19', '2026-11-20'] as const;
/** Of a session, and most rows of an answer: the market has some thousand contracts. */
const ROWS = 6000;
const LIMIT = 75;

const { folder, keep } = useCleanups();
let cwd: string;
let service: TestService;

beforeAll(async () => {
  cwd = await folder();
  const options = ['--generate', '3', '--generate-rows', String(ROWS), '--row-limit', String(LIMIT)];
  service = await keep(startService([...options, '--as-of', '2026-11-20T23:00:00Z']));
  await run('all', 'name: all\nsource: {api: historical}\ndrop: {to: out, dataset: all}\n');
});

/** @returns the number of requests that the service answered */
async function run(name: string, text: string, from: string = DATES[0], to: string = DATES[2]): Promise<number> {
  const path = join(cwd, `${name}.yaml`);
  await writeFile(path, text);
  const before = service.requests.length;
  await flowdrop(['backfill', path, '--from', from, '--to', to], { cwd, env: service.env, code: 0 });
  return service.requests.length - before;
}

const fileOf = (dataset: string, date: string) => join(cwd, 'out', dataset, `session=${date}`, `${dataset}.parquet`);

/** Compares a drop with what SQL over its trades says. @returns its rows */
async function expectEqual(dataset: string, date: string, columns: string, expected: string): Promise<number> {
  const [row] = await queryDuckDb(`
    WITH expected AS (${expected}), found AS (SELECT ${columns} FROM '${fileOf(dataset, date)}')
    SELECT (SELECT count(*) FROM found)::INTEGER AS n,
      (SELECT count(*) FROM (FROM expected EXCEPT ALL FROM found))::INTEGER AS lacking,
      (SELECT count(*) FROM (FROM found EXCEPT ALL FROM expected))::INTEGER AS odd`);
  expect(row).toMatchObject({ lacking: 0, odd: 0 });
  return Number(row?.['n']);
}

it('single trades of a SELECT with a condition and a computed column come home whole', async () => {
  const date = DATES[2];
  await run(
    'big',
    `name: big
source:
  api: historical
  sql: SELECT id, date, time, symbol, premium, premium / 1000 AS thousands FROM RawOptionTrades WHERE {window} AND size >= 5
  types: {symbol: string, premium: double, thousands: double}
drop: {to: out, dataset: big}
`,
    date,
  );
  const columns = 'id, date, time, symbol, premium';
  const expected = `SELECT ${columns}, premium / 1000 FROM '${fileOf('all', date)}' WHERE size >= 5`;
  expect(await expectEqual('big', date, `${columns}, thousands`, expected)).toBeGreaterThan(200);
});

it('groups take one request for the counts of all dates, and each date one for the ends of its pages, the pages and one recount', async () => {
  const names = 'symbol, option_symbol';
  const job = `name: contracts
source:
  api: historical
  sql: SELECT ${names}, concat(substring(toString(time), 1, 10), ' 00:00:00') AS day, sum(size) AS contracts, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY ${names}, day
  grain: day
  time: day
  split: [${names}]
  types: {contracts: int64, trades: int64}
drop: {to: out, dataset: contracts, sort: [${names}]}
`;
  /** The pages that the groups of a date need at least. */
  const countPages = async (date: string) => {
    const sums = `SELECT ${names}, sum(size)::BIGINT AS contracts, count(*) AS trades FROM '${fileOf('all', date)}' GROUP BY ALL`;
    return Math.ceil((await expectEqual('contracts', date, `${names}, contracts, trades`, sums)) / LIMIT);
  };
  const [oldest, next, last] = DATES;
  const first = await run('contracts', job, oldest, oldest);
  expect(first).toBeLessThanOrEqual((await countPages(oldest)) + 3);
  const both = await run('contracts', job, next, last);
  expect(both).toBeLessThanOrEqual((await countPages(next)) + (await countPages(last)) + 5);
});
