/**
 * The requests of jobs of groups, counted at the running service, beside the fewest possible: a grain with more groups
 * than a page is cut where the source says that pages end, by every split key in turn. Each drop is compared with the trades.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';

const DATES = ['2026-11-18', '2026-11-19', '2026-11-20'];
/** Of a session, and most groups of an answer: the market has 40 symbols and some thousand contracts. */
const ROWS = 6000;
const SYMBOLS_LIMIT = 5;
const CONTRACTS_LIMIT = 150;

let folder: { readonly path: string; remove(): Promise<void> };
const services = new Map<number, TestService>();

beforeAll(async () => {
  folder = await makeFolder();
  for (const limit of [SYMBOLS_LIMIT, CONTRACTS_LIMIT]) {
    const options = ['--generate', '3', '--generate-rows', String(ROWS), '--row-limit', String(limit)];
    services.set(limit, await startService([...options, '--as-of', '2026-11-20T23:00:00Z']));
  }
  await run(CONTRACTS_LIMIT, 'all', 'name: all\nsource: {api: historical}\ndrop: {to: out, dataset: all}\n');
});
afterAll(async () => {
  for (const service of services.values()) await service.stop();
  await folder.remove();
});

/** @returns the number of requests that the service answered */
async function run(limit: number, name: string, text: string, dates?: readonly string[]): Promise<number> {
  const service = services.get(limit);
  if (!service) throw new Error(`no service with row limit ${limit}`);
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

function groupJob(dataset: string, keys: readonly string[], api = 'historical'): string {
  return `name: ${dataset}
source:
  api: ${api}
  sql: SELECT ${keys.join(', ')}, concat(substring(toString(time), 1, 10), ' 00:00:00') AS day, sum(size) AS contracts, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY ${keys.join(', ')}, day
  grain: day
  time: day
  split: [${keys.join(', ')}]
  types: {contracts: int64, trades: int64}
drop: {to: out, dataset: ${dataset}, sort: [${keys.join(', ')}]}
`;
}

/** Compares a date with its trades. @returns its number of groups */
async function compare(dataset: string, keys: readonly string[], date: string): Promise<number> {
  const names = keys.join(', ');
  const [row] = await queryDuckDb(`
    WITH expected AS (SELECT ${names}, sum(size)::BIGINT AS contracts, count(*) AS trades FROM '${fileOf('all', date)}' GROUP BY ALL),
    found AS (SELECT ${names}, contracts, trades FROM '${fileOf(dataset, date)}')
    SELECT (SELECT count(*) FROM found)::INTEGER AS n,
      (SELECT count(*) FROM (FROM expected EXCEPT ALL FROM found))::INTEGER AS lacking,
      (SELECT count(*) FROM (FROM found EXCEPT ALL FROM expected))::INTEGER AS odd`);
  expect({ lacking: row?.['lacking'], odd: row?.['odd'] }).toEqual({ lacking: 0, odd: 0 });
  return Number(row?.['n']);
}

describe.each([
  { by: 'by symbol', keys: ['symbol'], limit: SYMBOLS_LIMIT },
  { by: 'by symbol, then by contract', keys: ['symbol', 'option_symbol'], limit: CONTRACTS_LIMIT },
  { by: 'by a side and a number', keys: ['put_call', 'strike', 'option_symbol'], limit: CONTRACTS_LIMIT },
])('groups split $by', ({ keys, limit }) => {
  const dataset = keys.join('-').replaceAll('_', '-');

  it('take one request for the counts of all dates, and each date one for the ends of its pages, the pages and one recount', async () => {
    const job = groupJob(dataset, keys);
    const [oldest = '', ...nights] = DATES;
    const first = await run(limit, dataset, job, [oldest, oldest]);
    const pagesOf = async (date: string) => Math.ceil((await compare(dataset, keys, date)) / limit);
    expect(first).toBeLessThanOrEqual((await pagesOf(oldest)) + 3);
    const both = await run(limit, dataset, job, [nights[0] ?? '', nights[1] ?? '']);
    const pages = (await pagesOf(nights[0] ?? '')) + (await pagesOf(nights[1] ?? ''));
    expect(both).toBeLessThanOrEqual(pages + 5);
  });
});
