/**
 * Chains from files: the real page beside the repository, pages and rows made by hand, and files that are refused with
 * the line, what came, and what is allowed.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { isFault } from '../../src/core/errors.ts';
import { CHAIN_COLUMNS } from '../../src/service/data/tables.ts';
import { hasSpxPage, readSpxPage, SPX_PAGE, SPX_REFERENCE } from '../support/chain-page.ts';
import { type Bench, loadChain, openBench } from './snapshot-bench.ts';

const SIDE = 'Last Sale,Net,Bid,Ask,Volume,IV,Delta,Gamma,Open Interest';
const NAMES = `Expiration Date,Calls,${SIDE},Strike,Puts,${SIDE}`;
const HEADING = `ACME CORP,Last: 101.5,Change: 1
"Date: July 8, 2026 at 3:52 PM EDT",Bid: 101.4,Ask: 101.6,Size: 1*1,Volume: 10
${NAMES}`;
const LINE_100 =
  'Fri Jul 17 2026,ACME260717C00100000,2.5,0,2.4,2.6,12,0.31,0.6,0.05,400,100.00,ACME260717P00100000,0,0,1,1.1,0,0.33,-0.4,0.05,300';
const LINE_105 =
  'Fri Jul 17 2026,ACME1260717C00105000,1,0,0.9,1.1,3,,0.3,0.04,100,105.00,ACME1260717P00105000,6,0,5.9,6.1,1,0.3,-0.7,0.04,50';

let bench: Bench;
let folder: string;

beforeAll(async () => {
  bench = await openBench();
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-chain-'));
});
beforeEach(() => bench.engine.command(`TRUNCATE TABLE ${bench.tables.chains}`));
afterAll(async () => {
  await bench.close();
  await rm(folder, { recursive: true, force: true });
});

async function load(name: string, content: string | Uint8Array) {
  const path = join(folder, name);
  await writeFile(path, content);
  return await loadChain(bench, path);
}

async function readRows(): Promise<readonly Record<string, unknown>[]> {
  return await bench.engine.rows(
    `SELECT * EXCEPT source_of_load FROM ${bench.tables.chains} ORDER BY expiration_date, strike, put_call`,
  );
}

describe.skipIf(!hasSpxPage)('the real page', () => {
  test('is loaded whole, contract by contract', async () => {
    const loaded = await loadChain(bench, SPX_PAGE);
    const asOf = '2024-01-07T15:52:00.000Z';
    expect(loaded).toEqual([
      { symbol: 'SPX', date: SPX_REFERENCE.date, as_of: asOf, spot: SPX_REFERENCE.spot, contracts: 21_038 },
    ]);
    const rows = await readRows();
    const total = (value: (row: Record<string, unknown>) => unknown) =>
      rows.reduce((sum, row) => sum + Number(value(row)), 0);
    const page = readSpxPage();
    expect(rows).toHaveLength(page.length);
    expect(total((row) => row['open_interest'])).toBe(page.reduce((sum, row) => sum + row.openInterest, 0));
    expect(total((row) => row['gamma'])).toBeCloseTo(
      page.reduce((sum, row) => sum + (row.gamma ?? 0), 0),
      9,
    );
  });
});

describe('a page', () => {
  test('gives two contracts a line; an empty cell is not known, a last sale of 0 was never', async () => {
    const loaded = await load('acme.csv', `${HEADING}\n${LINE_100}\n${LINE_105}\n`);
    expect(loaded).toEqual([
      { symbol: 'ACME', date: '2026-07-08', as_of: '2026-07-08T19:52:00.000Z', spot: 101.5, contracts: 4 },
    ]);
    const rows = await readRows();
    expect(rows.map((row) => row['option_symbol'])).toEqual([
      'ACME260717C00100000',
      'ACME260717P00100000',
      'ACME1260717C00105000',
      'ACME1260717P00105000',
    ]);
    expect(rows[1]).toEqual({
      symbol: 'ACME',
      date: '2026-07-08',
      as_of: '2026-07-08T19:52:00.000Z',
      spot: 101.5,
      option_symbol: 'ACME260717P00100000',
      expiration_date: '2026-07-17',
      put_call: 'PUT',
      strike: 100,
      bid: 1,
      bid_size: null,
      ask: 1.1,
      ask_size: null,
      last: null,
      last_time: null,
      volume: 0,
      open_interest: 300,
      iv: 0.33,
      delta: -0.4,
      gamma: 0.05,
      theta: null,
      vega: null,
      rho: null,
    });
    expect(rows[2]).toMatchObject({ iv: null, last: 1, volume: 3 });
  });

  test('may be gzipped, begin with an empty line, and end its lines as Windows does', async () => {
    const text = `\n${HEADING}\n${LINE_100}\n`.replaceAll('\n', '\r\n');
    expect(await load('acme.csv.gz', gzipSync(text))).toMatchObject([{ symbol: 'ACME', contracts: 2 }]);
  });

  test('without a time of day is as of the close', async () => {
    const text = `${HEADING}\n${LINE_100}\n`.replace('July 8, 2026 at 3:52 PM EDT', 'Jul 08 2026');
    expect(await load('acme.csv', text)).toMatchObject([{ as_of: '2026-07-08T20:15:00.000Z' }]);
  });

  test.each([
    'July 8 2026, 3:52 PM EDT',
    'July 8, 2026, 3:52 PM EDT',
    'July 8, 2026 3:52 PM',
    'Jul. 8, 2026 at 3:52 p.m. EDT',
  ])('may have its date as the exchange has also written it: %s', async (date) => {
    const text = `${HEADING}\n${LINE_100}\n`.replace('July 8, 2026 at 3:52 PM EDT', date);
    expect(await load('acme.csv', text)).toMatchObject([{ as_of: '2026-07-08T19:52:00.000Z' }]);
  });

  const refused: readonly (readonly [string, string, string, string])[] = [
    ['other columns', 'Strike,Puts', 'Strike,Sets', 'line 3: the columns are'],
    ['no price', 'Last: 101.5', 'Last: n/a', 'the heading has the price "Last: n/a"; allowed is a number above 0'],
    ['no date', '"Date: July 8, 2026 at 3:52 PM EDT"', 'x', 'the heading has "Date: "; allowed is a date like'],
    ['an impossible date', 'July 8,', 'June 31,', 'the heading has "Date: June 31, 2026'],
    ['another time zone', 'EDT', 'CST', 'CST"; allowed is a date like'],
    [
      'an impossible expiration',
      'Fri Jul 17 2026,ACME1',
      'Fri Jul 32 2026,ACME1',
      'line 5: Expiration Date is "Fri Jul 32 2026"',
    ],
    ['30 February', 'Fri Jul 17 2026,ACME1', 'Fri Feb 30 2026,ACME1', 'line 5: Expiration Date is "Fri Feb 30 2026"'],
    ['a cell too few', ',50', '', 'line 5: the number of cells is "21"; allowed is 22'],
    ['a strange contract', 'ACME1260717C', 'acme260717C', 'line 5: Symbol of the calls is "acme260717C00105000"'],
    ['a put that is a call', 'ACME1260717P', 'ACME1260717C', 'line 5: Symbol of the puts is "ACME1260717C00105000"'],
    ['a strike of 0', '105.00', '0', 'line 5: Strike is "0"; allowed is a number above 0'],
    ['a gamma of words', '0.04,50', 'none,50', 'line 5: Gamma of the puts is "none"; allowed is a number, or nothing'],
    ['half an open interest', ',100,105', ',99.5,105', 'line 5: Open Interest of the calls is "99.5"'],
    ['foreign roots', 'ACME1260717', 'ZZZ260717', 'the contracts have the roots ACME, ZZZ'],
  ];
  test.each(refused)('with %s is refused', async (_name, from, to, message) => {
    const text = `${HEADING}\n${LINE_100}\n${LINE_105}`;
    const changed = text.endsWith(from) ? text.slice(0, -from.length) + to : text.replaceAll(from, to);
    expect(changed).not.toBe(text);
    const error = await load('acme.csv', `${changed}\n`).catch((caught: unknown) => caught);
    expect(isFault(error) && [error.code, error.kind]).toEqual(['DATA_INVALID', 'usage']);
    expect(String(error)).toContain(message);
    expect(await readRows()).toEqual([]);
  });

  test('with a contract twice, or none, is refused', async () => {
    const twice = load('acme.csv', `${HEADING}\n${LINE_100}\n${LINE_100}\n`);
    await expect(twice).rejects.toThrow('has 4 rows for 2 contracts; allowed is one each');
    await expect(load('acme.csv', `${HEADING}\n`)).rejects.toThrow('there are no contracts');
  });
});

describe('one contract a row', () => {
  const row = {
    symbol: 'acme',
    date: '2026-07-08',
    as_of: '2026-07-08T19:52:00Z',
    spot: 101.5,
    option_symbol: 'ACME260717C00100000',
    expiration_date: '2026-07-17',
    put_call: 'CALL',
    strike: 100,
    volume: 3,
    open_interest: 400,
    gamma: 0.05,
    vega: 0.1,
  };
  const write = (...rows: object[]) => rows.map((one) => `${JSON.stringify(one)}\n`).join('');

  test('is loaded from NDJSON and CSV alike; columns that may lack are null', async () => {
    expect(await load('rows.ndjson', write(row))).toEqual([
      { symbol: 'ACME', date: '2026-07-08', as_of: '2026-07-08T19:52:00.000Z', spot: 101.5, contracts: 1 },
    ]);
    const [first] = await readRows();
    expect(Object.keys(first ?? {})).toEqual(CHAIN_COLUMNS.map(({ name }) => name));
    expect(first).toMatchObject({ symbol: 'ACME', gamma: 0.05, vega: 0.1, iv: null, last_time: null });
    await bench.engine.command(`TRUNCATE TABLE ${bench.tables.chains}`);
    await load('rows.csv', `${Object.keys(row).join(',')}\n${Object.values(row).join(',')}\n`);
    expect(await readRows()).toEqual([first]);
  });

  test('may be of several chains', async () => {
    const loaded = await load(
      'rows.ndjson',
      write(row, { ...row, symbol: 'B', spot: 5 }, { ...row, date: '2026-07-09' }),
    );
    expect(loaded.map(({ symbol, date }) => [symbol, date])).toEqual([
      ['ACME', '2026-07-08'],
      ['ACME', '2026-07-09'],
      ['B', '2026-07-08'],
    ]);
  });

  test.each([
    ['an impossible date', { date: '2026-02-30' }, 'line 2: date is "2026-02-30"; allowed is a date, YYYY-MM-DD'],
    ['another side', { put_call: 'C' }, 'line 2: put_call is "C"; allowed is CALL or PUT'],
    ['an instant of words', { as_of: 'noon' }, 'line 2: as_of is "noon"; allowed is an ISO instant'],
    ['a volume below 0', { volume: -1 }, 'line 2: volume is "-1"; allowed is a number, 0 or more'],
    ['two prices of the underlying', { spot: 7, strike: 5 }, 'has 2 values of spot; allowed is one'],
  ])('with %s is refused', async (_name, change, message) => {
    await expect(load('rows.ndjson', write(row, { ...row, ...change }))).rejects.toThrow(message);
    expect(await readRows()).toEqual([]);
  });

  test('without a column that must be there is refused by its name', async () => {
    const { spot: _spot, ...rest } = row;
    await expect(load('rows.ndjson', write(rest))).rejects.toThrow('rows lack spot; they have symbol, date');
  });
});

describe('a file', () => {
  test('whose name means others to the engine is read alone', async () => {
    await writeFile(join(folder, 'ab.csv'), `${HEADING}\n${LINE_105}\n`);
    await load('a*.csv', `${HEADING}\n${LINE_100}\n`);
    expect(await readRows()).toHaveLength(2);
  });

  test('that is no table is refused as unreadable', async () => {
    await expect(load('text.ndjson', 'neither json\nnor csv\n')).rejects.toThrow('the chain cannot be read');
  });
});
