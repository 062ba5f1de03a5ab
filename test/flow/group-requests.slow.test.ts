/**
 * The requests of a job of groups, counted at the running service, beside the fewest possible: a grain with more groups
 * than a page is cut where the source says that pages end, by every split key in turn. Each drop is compared with the trades.
 * Other keys, and what a source refuses, are in `test/export/trades/group-counts.test.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';

const DATES = ['2026-11-18', '2026-11-19', '2026-11-20'];
/** Of a session, and most groups of an answer: the market has some thousand contracts. */
const ROWS = 6000;
const LIMIT = 150;
const KEYS = ['symbol', 'option_symbol'];
const DATASET = 'contracts';

let folder: { readonly path: string; remove(): Promise<void> };
let service: TestService;

beforeAll(async () => {
  folder = await makeFolder();
  const options = ['--generate', '3', '--generate-rows', String(ROWS), '--row-limit', String(LIMIT)];
  service = await startService([...options, '--as-of', '2026-11-20T23:00:00Z']);
  await run('all', 'name: all\nsource: {api: historical}\ndrop: {to: out, dataset: all}\n');
});
afterAll(async () => {
  await service.stop();
  await folder.remove();
});

/** @returns the number of requests that the service answered */
async function run(name: string, text: string, dates?: readonly string[]): Promise<number> {
  const path = join(folder.path, `${name}.yaml`);
  await writeFile(path, text);
  const before = service.requests.length;
  const named =
    dates === undefined ? ['run', path] : ['backfill', path, '--from', dates[0] ?? '', '--to', dates[1] ?? ''];
  const done = await flowdrop(named, { cwd: folder.path, env: service.env });
  expect(done.code, done.stderr).toBe(0);
  return service.requests.length - before;
}

const fileOf = (dataset: string, date: string) =>
  join(folder.path, 'out', dataset, `session=${date}`, `${dataset}.parquet`);

const NAMES = KEYS.join(', ');
const JOB = `name: ${DATASET}
source:
  api: historical
  sql: SELECT ${NAMES}, concat(substring(toString(time), 1, 10), ' 00:00:00') AS day, sum(size) AS contracts, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY ${NAMES}, day
  grain: day
  time: day
  split: [${NAMES}]
  types: {contracts: int64, trades: int64}
drop: {to: out, dataset: ${DATASET}, sort: [${NAMES}]}
`;

/** Compares a date with its trades. @returns the pages that its groups need at least */
async function countPages(date: string): Promise<number> {
  const [row] = await queryDuckDb(`
    WITH expected AS (SELECT ${NAMES}, sum(size)::BIGINT AS contracts, count(*) AS trades FROM '${fileOf('all', date)}' GROUP BY ALL),
    found AS (SELECT ${NAMES}, contracts, trades FROM '${fileOf(DATASET, date)}')
    SELECT (SELECT count(*) FROM found)::INTEGER AS n,
      (SELECT count(*) FROM (FROM expected EXCEPT ALL FROM found))::INTEGER AS lacking,
      (SELECT count(*) FROM (FROM found EXCEPT ALL FROM expected))::INTEGER AS odd`);
  expect({ lacking: row?.['lacking'], odd: row?.['odd'] }).toEqual({ lacking: 0, odd: 0 });
  return Math.ceil(Number(row?.['n']) / LIMIT);
}

it('groups take one request for the counts of all dates, and each date one for the ends of its pages, the pages and one recount', async () => {
  const [oldest = '', next = '', last = ''] = DATES;
  const first = await run(DATASET, JOB, [oldest, oldest]);
  expect(first).toBeLessThanOrEqual((await countPages(oldest)) + 3);
  const both = await run(DATASET, JOB, [next, last]);
  expect(both).toBeLessThanOrEqual((await countPages(next)) + (await countPages(last)) + 5);
});
