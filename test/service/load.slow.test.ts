/**
 * Trades from files: the real session beside the repository, the same rows as CSV and Parquet, and files that are
 * refused. Totals are those published with the real file.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { startTestService, type TestService } from './running-service.ts';

const REAL = fileURLToPath(new URL('../../../shared/data/vix-trades-2016-06-01.ndjson.gz', import.meta.url));
const hasReal = existsSync(REAL);
if (!hasReal) console.warn(`SKIPPED: the real session is not at ${REAL}; its tests need it`);
const EVENING_OF_REAL = '2016-06-01T22:00:00Z';

let engine: Engine;
let folder: string;
let service: TestService | undefined;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-load-'));
});
afterEach(async () => {
  await service?.close();
  service = undefined;
});
afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

async function serve(file: string, asOf = EVENING_OF_REAL): Promise<TestService> {
  service = await startTestService({ data: [file], asOf });
  return service;
}

const TOTALS = `SELECT count() AS trades, uniqExact(id) AS ids, uniqExact(option_symbol) AS contracts, min(time) AS first,
  max(time) AS last, sum(premium) AS total, sumIf(premium, put_call = 'CALL') AS calls,
  sumIf(premium, sentiment = 'BULLISH') AS bullish, sum(size) AS contracts_traded FROM RawOptionTrades`;
const PUBLISHED = {
  trades: 2_295,
  ids: 2_295,
  contracts: 230,
  first: '2016-06-01 09:30:02',
  last: '2016-06-01 16:14:52',
  total: 22_724_231,
  calls: 13_397_856,
  bullish: 4_678_012,
  contracts_traded: 306_679,
};

describe.skipIf(!hasReal)('the real session', () => {
  test('has its published totals, and moves the earliest date by itself', async () => {
    const { ask, rows } = await serve(REAL);
    expect(rows).toBe(2_295);
    expect((await ask(TOTALS)).body.data).toEqual([PUBLISHED]);
  });

  test('answers its first row as it stands in the file', async () => {
    const { ask } = await serve(REAL);
    const { body } = await ask("SELECT * FROM RawOptionTrades WHERE id = '223327'");
    expect(body.data).toHaveLength(1);
    expect(body.data[0]).toMatchObject({
      time: '2016-06-01 09:30:02',
      strike: 16,
      oi: 130_497,
      market_cap: '0',
      earning_date: '',
      updated_timestamp: '1464787802025',
      delta: -0.6049,
      underlying_price: 0,
    });
  });

  test.each([
    ['trades.csv', 'CSVWithNames', ''],
    ['trades.csv.gz', 'CSVWithNames', ''],
    ['trades.parquet', 'Parquet', ''],
    [
      'typed.parquet',
      'Parquet',
      `REPLACE (toDate32(date) AS date, toDateTime64(time, 6) AS time, toDate32(expiration_date) AS expiration_date,
       nullIf(earning_date, '') AS earning_date, toInt64(market_cap) AS market_cap,
       fromUnixTimestamp64Milli(toInt64(updated_timestamp)) AS updated_timestamp)`,
    ],
  ])('is the same from %s', async (name, format, replaced) => {
    const path = join(folder, name);
    await engine.command(
      `INSERT INTO FUNCTION file(${quoteString(path)}, ${format}) SELECT * ${replaced} FROM file(${quoteString(REAL)}, JSONEachRow, ${quoteString(structure())})`,
    );
    const { ask } = await serve(path);
    expect((await ask(TOTALS)).body.data).toEqual([PUBLISHED]);
    const { body } = await ask("SELECT * FROM RawOptionTrades WHERE id = '223327'");
    expect(body.data[0]).toMatchObject({
      date: '2016-06-01',
      updated_timestamp: '1464787802025',
      market_cap: '0',
      earning_date: '',
    });
  });
});

describe('files that are refused', () => {
  const row = Object.fromEntries(TRADE_COLUMNS.map(({ name, wire }) => [name, wire === 'string' ? '2026-11-19' : 1]));

  test.each([
    [
      'a column is missing',
      'short.ndjson',
      JSON.stringify({ ...row, side: undefined }),
      /short\.ndjson: rows lack side; they have id/,
    ],
    ['the name tells no format', 'trades.txt', '', /must end in \.ndjson/],
    [
      'a value has the wrong type',
      'odd.ndjson',
      JSON.stringify({ ...row, size: 'many' }),
      /odd\.ndjson: the rows cannot be read/,
    ],
    ['the text is not JSON', 'broken.jsonl', '{"id":', /broken\.jsonl: the rows cannot be read/],
  ])('because %s', async (_title, name, content, message) => {
    const path = join(folder, name);
    await writeFile(path, content);
    await expect(serve(path)).rejects.toMatchObject({ kind: 'usage', message: expect.stringMatching(message) });
  });

  test('because they do not exist', async () => {
    await expect(serve(join(folder, 'nowhere.ndjson'))).rejects.toMatchObject({ code: 'DATA_UNREADABLE' });
  });

  test('after a refusal the same engine starts a service', async () => {
    const path = join(folder, 'good.jsonl.gz');
    const good = { ...row, id: '1', time: '2026-11-19 12:00:00', further: 'is ignored' };
    await writeFile(path, gzipSync(`${JSON.stringify(good)}\n`));
    const { ask } = await serve(path, '2026-11-19T23:00:00Z');
    expect((await ask('SELECT id, time FROM RawOptionTrades')).body.data).toEqual([
      { id: '1', time: '2026-11-19 12:00:00' },
    ]);
  });
});

describe('options that are refused', () => {
  test.each([
    { rowLimit: 0 },
    { scanLimit: 1.5 },
    { requestsPerSecond: 0 },
    { asOf: 'yesterday' },
    { earliest: '2026-02-30' },
  ])('%j', async (options) => {
    await expect(startTestService(options)).rejects.toMatchObject({ code: 'SERVICE_OPTION_INVALID', kind: 'usage' });
  });
});

function structure(): string {
  const types = { string: 'String', integer: 'Int32', float: 'Float64' } as const;
  return TRADE_COLUMNS.map(({ name, wire }) => `${name} ${types[wire]}`).join(', ');
}
