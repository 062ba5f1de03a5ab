/**
 * Every dataset of a store can be queried by its name: jobs of all kinds, run against the service, then asked alone and
 * joined; typed answers and the API's agree; datasets whose columns change from date to date. Which store and dataset a
 * command takes is in `test/flow/query.slow.test.ts`.
 */
import { randomUUID } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetMetadataAsync } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { hashSchema } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, makeFolder, REPO, startService, type TestService } from '../support/flowdrop.ts';
import { createDraft } from '../support/manifest.ts';
import { openTestArchive, type Row, type TestArchive } from './open-archive.ts';

const DATES = ['2026-11-18', '2026-11-19'];
const ROWS = '3000';
const SYMBOLS = ['SPY', 'NVDA', 'QQQ'];
const DATASETS = ['trades', 'option-chain', 'market-structure', 'symbol-minute-flow', 'big'];
/** The service admits ten snapshots of a key at once. */
const KEYS = Array.from({ length: 12 }, (_, at) => `cus_test_key_of_its_own_${at}`);

let service: TestService;
let folder: { readonly path: string; remove(): Promise<void> };
let typed: TestArchive;
let api: TestArchive;

beforeAll(async () => {
  const keys = KEYS.flatMap((key) => ['--key', key]);
  service = await startService([
    '--generate',
    '2',
    '--generate-rows',
    ROWS,
    '--as-of',
    '2026-11-19T23:00:00Z',
    ...keys,
  ]);
  folder = await makeFolder();
  const jobs = DATASETS.map((dataset) => (dataset === 'trades' ? 'nightly-trades' : dataset));
  for (const [index, name] of jobs.entries()) {
    const text =
      name === 'big'
        ? 'name: big\nsource:\n  api: historical\n  sql: SELECT id, date, time, symbol, premium / 1000 AS thousands FROM RawOptionTrades WHERE {window} AND size >= 5\n  types: {symbol: string, thousands: double}\ndrop: {to: out/drops, dataset: big}\n'
        : (await readFile(join(REPO, 'jobs', `${name}.yaml`), 'utf8')).replace(
            /symbols: \[SPX.*\]/,
            `symbols: [${SYMBOLS.join(', ')}]`,
          );
    const job = join(folder.path, `${name}.yaml`);
    await writeFile(job, text);
    const args = ['backfill', job, '--from', DATES[0] ?? '', '--to', DATES[1] ?? ''];
    const env = { ...service.env, FLOWDROP_API_KEY: KEYS[index] ?? '', FLOWDROP_REQUESTS_PER_SECOND: '200' };
    const run = await flowdrop(args, { cwd: folder.path, env });
    expect([0, 3], `${name}: ${run.stderr}`).toContain(run.code);
  }
  const path = join(folder.path, 'out', 'drops');
  const store = await openDirectoryStore(path);
  const others = DATASETS.slice(1);
  typed = await openTestArchive(store, { kind: 'directory', path }, 'trades', { others });
  api = await openTestArchive(store, { kind: 'directory', path }, 'trades', { others, types: 'api' });
}, 300_000);
afterAll(async () => {
  await typed?.stop();
  await api?.stop();
  await service?.stop();
  await folder?.remove();
});

const drops = (dataset: string) => `'${join(folder.path, 'out', 'drops', dataset)}/*/*.parquet'`;

describe('a dataset of another kind than trades', () => {
  test.each(['option_chain', 'market_structure', 'symbol_minute_flow', 'big'])(
    '%s has its rows under its name, and the types of its drops',
    async (table) => {
      const dataset = DATASETS.find((name) => name.replaceAll('-', '_') === table) ?? '';
      const [inFiles] = await queryDuckDb(`SELECT count(*)::INT AS n FROM ${drops(dataset)}`);
      const { rows, coverages } = await typed.rows(
        `SELECT count() AS n, min(date) AS first, max(date) AS last FROM ${table}`,
      );
      expect(rows).toEqual([{ n: inFiles?.['n'], first: DATES[0], last: DATES[1] }]);
      expect(Number(inFiles?.['n'])).toBeGreaterThan(5);
      expect(coverages.map((one) => [one.dataset, one.dates])).toEqual([[dataset, DATES]]);
      const quoted = await typed.rows(`SELECT count() AS n FROM \`${dataset}\` WHERE date = '2026-11-19'`);
      expect(quoted.cost.files).toBe(1);
    },
  );

  test('symbol_minute_flow has its minutes as times', async () => {
    const sql = `SELECT toStartOfHour(minute) AS hour, sum(contracts) AS contracts, toTypeName(any(minute)) AS type
      FROM symbol_minute_flow WHERE date = '2026-11-19' GROUP BY hour ORDER BY hour`;
    const { rows } = await typed.rows(sql);
    const hours = await typed.rows(
      "SELECT toStartOfHour(time) AS hour, sum(size) AS contracts, 'DateTime64(6)' AS type FROM trades WHERE date = '2026-11-19' GROUP BY hour ORDER BY hour",
    );
    expect(rows).toEqual(hours.rows);
    expect(rows.length).toBeGreaterThan(5);
  });

  test('is joined with trades, each with its own dates and gaps', async () => {
    const { rows, coverages, cost } = await typed.rows(
      `SELECT c.expiration_date AS expiration, count() AS n, max(c.open_interest) AS oi
       FROM trades AS t JOIN option_chain AS c ON t.option_symbol = c.option_symbol AND t.date = c.date
       WHERE t.date = '2026-11-19' AND c.date = '2026-11-19' AND t.symbol = 'SPY' GROUP BY expiration ORDER BY expiration`,
    );
    const expected = await queryDuckDb(
      `SELECT c.expiration_date::TEXT AS expiration, count(*)::INT AS n, max(c.open_interest)::INT AS oi
       FROM ${drops('trades')} AS t JOIN ${drops('option-chain')} AS c ON t.option_symbol = c.option_symbol AND t.date = c.date
       WHERE t.date = '2026-11-19' AND t.symbol = 'SPY' GROUP BY ALL ORDER BY ALL`,
    );
    expect(rows).toEqual(expected);
    expect(rows.length).toBeGreaterThan(2);
    expect(cost.files).toBe(2);
    expect(coverages.map((one) => [one.dataset, one.dates])).toEqual(
      [
        ['option-chain', ['2026-11-19']],
        ['trades', ['2026-11-19']],
      ].sort((a, b) => DATASETS.indexOf(String(a[0])) - DATASETS.indexOf(String(b[0]))),
    );
  });

  test("is none of the API's tables, and a table of none is refused with what there is", async () => {
    const path = join(folder.path, 'out', 'drops');
    const own = await openTestArchive(await openDirectoryStore(path), { kind: 'directory', path }, 'option-chain', {
      others: ['trades'],
    });
    try {
      await expect(own.rows('SELECT count() FROM RawOptionTrades')).rejects.toMatchObject({
        code: 'NO_TRADES',
        message: "the drops of option-chain are not single trades, so they are not the API's tables",
        hint: 'Read them by their name: FROM option_chain.',
      });
      await expect(own.rows('SELECT count() FROM option_chain_summary')).rejects.toMatchObject({ code: 'NO_SUMMARY' });
      await expect(own.rows('SELECT count() FROM option_chain_counted')).rejects.toMatchObject({
        code: 'REPORT_COLUMNS_MISSING',
        message: expect.stringContaining('has no column id, which decides what counts'),
      });
      // Each once, by the name that needs no quotes, and only what can be read.
      const names = ['option_chain', 'trades', 'trades_counted', 'trades_summary'];
      expect((await own.rows('SHOW TABLES')).rows.map(({ name }) => name)).toEqual(names);
      await expect(own.rows('SELECT count() FROM market_structure')).rejects.toMatchObject({
        code: 'INVALID_SQL',
        hint: expect.stringContaining(` over ${names.join(', ')}, in `),
      });
      await expect(own.rows('SELECT count() FROM system.tables')).rejects.toMatchObject({ code: 'INVALID_SQL' });
    } finally {
      await own.stop();
    }
  });
});

/** Both answers must be the very same; what differs by type is told in the next list. */
const SAME: readonly string[] = [
  "SELECT count() AS n FROM trades WHERE date = '2026-11-19'",
  "SELECT count() AS n FROM trades WHERE '2026-11-18' = date",
  "SELECT count() AS n FROM trades WHERE date != '2026-11-19'",
  "SELECT count() AS n FROM trades WHERE date > '2026-11-18'",
  "SELECT count() AS n FROM trades WHERE date >= '2026-11-18' AND date < '2026-11-19'",
  "SELECT count() AS n FROM trades WHERE date BETWEEN '2026-11-01' AND '2026-11-18'",
  "SELECT count() AS n FROM trades WHERE date IN ('2026-11-19', '2026-11-20')",
  "SELECT count() AS n FROM trades WHERE date NOT IN ('2026-11-19')",
  "SELECT count() AS n FROM trades WHERE NOT (date = '2026-11-19' OR size > 10)",
  "SELECT count() AS n FROM trades WHERE time >= '2026-11-19 09:30:00' AND time < '2026-11-19 10:00:00'",
  "SELECT count() AS n FROM trades WHERE time > '2026-11-18 15:59:00'",
  "SELECT count() AS n FROM trades WHERE time BETWEEN '2026-11-18 12:00:00' AND '2026-11-19 12:00:00'",
  "SELECT count() AS n FROM trades WHERE time >= '2026-11-19'",
  "SELECT count() AS n FROM trades WHERE time <= '2026-11-18'",
  "SELECT count() AS n FROM trades WHERE expiration_date = '2026-11-20'",
  "SELECT count() AS n FROM trades WHERE expiration_date <= '2026-12-18' AND put_call = 'PUT'",
  'SELECT count() AS n FROM trades WHERE expiration_date = date',
  'SELECT count() AS n FROM trades WHERE date = (SELECT max(date) FROM trades)',
  'SELECT count() AS n FROM trades WHERE date IN (SELECT DISTINCT date FROM big)',
  'SELECT count() AS n FROM trades WHERE toDayOfWeek(toDate(date)) = 4',
  "SELECT count() AS n FROM trades WHERE toDate(date) >= toDate('2026-11-19')",
  "SELECT count() AS n FROM trades WHERE toDateTime(time) >= toDateTime('2026-11-19 12:00:00')",
  'SELECT count() AS n FROM trades WHERE toYear(toDate(expiration_date)) = 2026',
  'SELECT date, count() AS n FROM trades GROUP BY date ORDER BY date',
  'SELECT min(date) AS a, max(date) AS b, min(time) AS c, max(time) AS d, min(expiration_date) AS e FROM trades',
  'SELECT date, symbol, sum(size) AS s FROM trades GROUP BY date, symbol ORDER BY date, symbol',
  'SELECT toStartOfMinute(toDateTime(time)) AS m, count() AS n FROM trades GROUP BY m ORDER BY m LIMIT 50',
  'SELECT toHour(toDateTime(time)) AS h, count() AS n FROM trades GROUP BY h ORDER BY h',
  'SELECT toStartOfMonth(toDate(date)) AS m, sum(size) AS s FROM trades GROUP BY m ORDER BY m',
  "SELECT dateDiff('day', toDate(date), toDate(expiration_date)) AS dte, sum(size) AS s FROM trades GROUP BY dte ORDER BY dte",
  'SELECT id, date, time, symbol, size, price, strike FROM trades ORDER BY id LIMIT 100',
  'SELECT id, time, expiration_date, option_symbol FROM trades ORDER BY time, id LIMIT 100',
  'SELECT symbol, argMax(price, time) AS last, argMax(time, time) AS at FROM trades WHERE size > 20 GROUP BY symbol ORDER BY symbol',
  'SELECT toString(date) AS d, toString(time) AS t FROM trades ORDER BY id LIMIT 20',
  "SELECT concat(toString(date), ' ', symbol) AS k, count() AS n FROM trades GROUP BY k ORDER BY k",
  'SELECT uniqExact(date) AS d, uniqExact(time) AS t, uniqExact(expiration_date) AS e, uniqExact(symbol) AS s FROM trades',
  "SELECT countIf(date = '2026-11-19') AS a, sumIf(size, time > '2026-11-19 12:00:00') AS b FROM trades",
  "SELECT if(date = '2026-11-19', 'new', 'old') AS age, count() AS n FROM trades GROUP BY age ORDER BY age",
  "SELECT CASE WHEN time < '2026-11-19 00:00:00' THEN 1 ELSE 2 END AS c, count() AS n FROM trades GROUP BY c ORDER BY c",
  'SELECT date, row_number() OVER (PARTITION BY date ORDER BY id) AS k FROM trades ORDER BY id LIMIT 30',
  'SELECT a.date, count() AS n FROM trades AS a JOIN big AS b ON a.id = b.id AND a.date = b.date GROUP BY a.date ORDER BY a.date',
  'SELECT date, groupArray(3)(id) AS ids FROM (SELECT * FROM trades ORDER BY id) GROUP BY date ORDER BY date',
  "WITH '2026-11-19' AS d SELECT count() AS n FROM trades WHERE date = d",
  'SELECT max(iv) AS highest, min(delta) AS lowest, count() AS n FROM trades WHERE iv > 0',
  'SELECT symbol, round(sum(premium), 2) AS p FROM trades GROUP BY symbol HAVING p > 0 ORDER BY symbol',
  "SELECT date, expiration_date, count() AS n FROM option_chain WHERE expiration_date > '2026-11-20' GROUP BY date, expiration_date ORDER BY date, expiration_date",
  'SELECT symbol, date, sum(trades) AS n FROM symbol_minute_flow GROUP BY symbol, date ORDER BY symbol, date',
  "SELECT count() AS n FROM symbol_minute_flow WHERE minute >= '2026-11-19 10:00:00'",
  'SELECT symbol, date FROM market_structure ORDER BY symbol, date',
  'SELECT date, symbol, contracts FROM trades_summary ORDER BY date, symbol',
  'SELECT count() AS n, sum(size) AS s FROM RawOptionTradesMaxDateOnlyMV WHERE date = (SELECT max(date) FROM RawOptionTrades)',
  'SELECT date FROM trades GROUP BY date WITH ROLLUP HAVING count() < 3 ORDER BY date',
];

/** A typed statement, and one with the API's texts that has the same answer. */
const PAIRS: readonly (readonly [string, string])[] = [
  ['earning_date IS NULL', "earning_date = ''"],
  ['earning_date IS NOT NULL', "earning_date != ''"],
  ["earning_date > '2026-11-30'", "earning_date > '2026-11-30' AND earning_date != ''"],
  ['market_cap > 1000000000', 'toInt64OrZero(market_cap) > 1000000000'],
  ['market_cap IS NULL', "market_cap = ''"],
  ["toString(date) LIKE '2026-11-1%'", "date LIKE '2026-11-1%'"],
  ['toYYYYMM(date) = 202611 AND toDayOfMonth(date) = 19', "startsWith(date, '2026-11') AND endsWith(date, '19')"],
  ['toHour(time) = 10', "substring(time, 12, 2) = '10'"],
  [
    "toStartOfInterval(time, INTERVAL 30 MINUTE) = '2026-11-19 10:30:00'",
    "time >= '2026-11-19 10:30' AND time < '2026-11-19 11'",
  ],
  [
    "updated_timestamp >= '2026-11-19 15:00:00'",
    "toInt64(updated_timestamp) >= toUnixTimestamp('2026-11-19 15:00:00', 'UTC') * 1000",
  ],
  ['iv IS NULL', 'isNaN(iv)'],
  ["dateDiff('day', date, expiration_date) <= 7", "dateDiff('day', toDate(date), toDate(expiration_date)) <= 7"],
  ["date >= toDate('2026-11-20') - 1", "date >= '2026-11-19'"],
];

describe('typed answers', () => {
  test('and those with the texts of the API agree on fifty statements', async () => {
    expect(SAME.length).toBeGreaterThanOrEqual(50);
    const failures: unknown[] = [];
    let rows = 0;
    for (const sql of SAME) {
      const [a, b] = [await typed.rows(sql).catch(String), await api.rows(sql).catch(String)];
      if (typeof a === 'string' || typeof b === 'string') failures.push({ sql, a, b });
      else {
        rows += a.rows.length;
        // Sums of the same floats in another order differ in their last digits.
        const round = (list: readonly Row[]) =>
          JSON.stringify(list, (_key, value: unknown) =>
            typeof value === 'number' ? Number(value.toPrecision(12)) : value,
          );
        // The first rows by a typed column take a look at the column before.
        const looks = /ORDER BY time.* LIMIT/.test(sql) ? 2 : 1;
        if (round(a.rows) !== round(b.rows) || a.cost.files > looks * b.cost.files)
          failures.push({ sql, a: a.rows.slice(0, 3), b: b.rows.slice(0, 3), files: [a.cost.files, b.cost.files] });
      }
    }
    expect(failures).toEqual([]);
    expect(rows).toBeGreaterThan(500);
  }, 120_000);

  test.each(PAIRS)('WHERE %s is what the texts write as %s', async (condition, text) => {
    const select = 'SELECT count() AS n, ifNull(sum(size), 0) AS s, max(id) AS last FROM trades WHERE';
    expect((await typed.rows(`${select} ${condition}`)).rows).toEqual((await api.rows(`${select} ${text}`)).rows);
  });

  test.each([
    ["date LIKE '2026-%'", 'toString(date)'],
    ["startsWith(date, '2026')", 'toString(date)'],
    ["substring(time, 12, 5) > '10:00'", 'toString(date)'],
    ["time > '2026-11-19 10:30'", "'2026-11-19 09:30:00'"],
    ["date > '2026-11'", "'2026-11-19'"],
    ["earning_date = ''", 'IS NULL'],
    ["market_cap = ''", 'IS NULL'],
    ['toInt64OrZero(market_cap) > 5', '--api-types'],
    ['expiration_date - date < 5', "dateDiff('day', date, expiration_date)"],
  ])('WHERE %s is refused with what to write', async (condition, hint) => {
    await expect(typed.rows(`SELECT count() FROM trades WHERE ${condition}`)).rejects.toMatchObject({
      kind: 'usage',
      code: 'INVALID_QUERY',
      hint: expect.stringContaining(hint),
    });
  });
});

describe('a dataset whose columns change', () => {
  const VALUES = [
    { date: '2026-11-16', select: "'a' AS key, toInt32(1) AS n, 'x' AS kind, toDate32('2026-01-02') AS day" },
    {
      date: '2026-11-17',
      select: "'b' AS key, toInt64(5000000000) AS n, toInt32(7) AS kind, toDate32('2026-01-03') AS day, 2.5 AS added",
    },
    {
      date: '2026-11-18',
      select:
        "'c' AS key, 1.5 AS n, 'y' AS kind, toDate32('2026-01-04') AS day, 3.5 AS added, toDateTime64('2026-11-18 10:00:00.250', 6) AS at",
    },
  ];
  let place: string;
  let store: Store;
  let own: TestArchive;
  let engine: Engine;

  beforeAll(async () => {
    place = join(folder.path, 'changing');
    store = await openDirectoryStore(place);
    engine = await openEmbeddedEngine();
    for (const { date, select } of VALUES) await publishRow(date, select);
    own = await openTestArchive(store, { kind: 'directory', path: place }, 'odd-set', { lastSession: '2026-11-18' });
  });
  afterAll(async () => {
    await own?.stop();
    await engine?.close();
  });

  /** A date of one row, as a table of a server may be exported. */
  async function publishRow(date: string, select: string, table?: 'iceberg'): Promise<void> {
    const path = await writeRow(select);
    const metadata = await parquetMetadataAsync(await asyncBufferFromFile(path));
    const schema = metadata.schema.slice(1).map(({ name, type = '', logical_type: logical }, at) => {
      const suffix = logical?.type === 'TIMESTAMP' ? 'TIMESTAMP(MICROS,utc=false)' : logical?.type;
      return { name, type: suffix === undefined ? type : `${type}/${suffix}`, nullable: true, field_id: at + 1 };
    });
    const draft = createDraft({ dataset: 'odd-set', date, schema, schema_hash: hashSchema(schema), rows: 1, table });
    const supersedes = await new Ledger(store, 'odd-set').manifest(date);
    await publishDrop(new Ledger(store, draft.dataset), { drop: path, summary: undefined }, draft, { supersedes });
  }

  async function writeRow(select: string): Promise<string> {
    const path = join(folder.path, `${randomUUID()}.parquet`);
    await engine.command(`SELECT ${select} INTO OUTFILE '${path}' FORMAT Parquet`);
    return path;
  }

  test('of summaries lists the dates that have none', async () => {
    const select = "'SPY' AS symbol, 5.0 AS total_premium";
    const publish = async (date: string, summary?: string) =>
      await publishDrop(
        new Ledger(store, 'sums'),
        { drop: await writeRow(select), summary: summary && (await writeRow(summary)) },
        createDraft({ dataset: 'sums', date, summary: summary === undefined ? null : 'summary.parquet' }),
      );
    await publish('2026-11-17');
    await publish('2026-11-19', `${select}, '' AS segment`);
    const sums = await openTestArchive(store, { kind: 'directory', path: place }, 'sums');
    try {
      const { rows, coverage } = await sums.rows('SELECT count() AS n, sum(total_premium) AS p FROM sums_summary');
      expect([rows, coverage.unsummarized]).toEqual([[{ n: 1, p: 5 }], ['2026-11-17']]);
    } finally {
      await sums.stop();
    }
  });

  test('has a type that holds all values, and nulls where a date lacks a column', async () => {
    const { rows, coverage } = await own.rows('SELECT * FROM odd_set ORDER BY date');
    expect(rows).toEqual([
      { date: '2026-11-16', key: 'a', n: 1, kind: 'x', day: '2026-01-02', added: null, at: null },
      { date: '2026-11-17', key: 'b', n: 5_000_000_000, kind: '7', day: '2026-01-03', added: 2.5, at: null },
      { date: '2026-11-18', key: 'c', n: 1.5, kind: 'y', day: '2026-01-04', added: 3.5, at: '2026-11-18 10:00:00.250' },
    ]);
    expect([...coverage.lacking]).toEqual([
      ['added', ['2026-11-16']],
      ['at', ['2026-11-16', '2026-11-17']],
    ]);
    const types = await own.rows(
      'SELECT toTypeName(n) AS n, toTypeName(day) AS d, toTypeName(at) AS t FROM odd_set LIMIT 1',
    );
    expect(types.rows).toEqual([{ n: 'Nullable(Float64)', d: 'Nullable(Date32)', t: 'Nullable(DateTime64(6))' }]);
  });

  test('can be asked for a column that only older dates have', async () => {
    await publishRow('2026-11-19', "'d' AS key, 4.5 AS added");
    const { rows } = await own.rows("SELECT key, kind FROM odd_set WHERE kind != '7' ORDER BY key");
    expect(rows).toEqual([
      { key: 'a', kind: 'x' },
      { key: 'c', kind: 'y' },
    ]);
  });

  test('shows a restated date at once, by the file that its manifest names', async () => {
    expect((await own.rows("SELECT sum(added) AS s FROM odd_set WHERE date >= '2026-11-18'")).rows).toEqual([{ s: 8 }]);
    await publishRow('2026-11-19', "'d' AS key, 6.5 AS added", 'iceberg');
    const names = await readdir(join(place, 'odd-set', 'session=2026-11-19'));
    expect(names.sort()).toEqual(['odd-set.parquet', 'odd-set.r2.parquet']);
    expect((await own.rows("SELECT sum(added) AS s FROM odd_set WHERE date >= '2026-11-18'")).rows).toEqual([
      { s: 10 },
    ]);
  });

  test('with a column that no view can have is not the fault of who asks', async () => {
    await publishRow('2026-11-20', "'e' AS key, 2.5 AS path_date_of_drop");
    await expect(
      own.rows("SELECT date, path_date_of_drop FROM odd_set WHERE date = '2026-11-20'"),
    ).rejects.toMatchObject({ code: 'ENGINE_FAILED', kind: 'failed' });
  });
});

describe('the summaries', () => {
  test('have the sums of the trades by date and symbol, and no day is read for them', async () => {
    const sums = await typed.rows(
      'SELECT date, symbol, recorded_trades, recorded_premium, total_premium, call_premium, put_premium, contracts FROM trades_summary ORDER BY date, symbol',
    );
    const counted = await typed.rows(
      `SELECT date, symbol, count() AS recorded_trades, sum(premium) AS recorded_premium FROM trades GROUP BY date, symbol ORDER BY date, symbol`,
    );
    expect(sums.rows.map(({ date, symbol, recorded_trades: n }) => ({ date, symbol, n }))).toEqual(
      counted.rows.map(({ date, symbol, recorded_trades: n }) => ({ date, symbol, n })),
    );
    for (const [index, row] of sums.rows.entries()) {
      expect(row['recorded_premium']).toBeCloseTo(Number(counted.rows[index]?.['recorded_premium']), 3);
      expect(Number(row['call_premium']) + Number(row['put_premium'])).toBeCloseTo(Number(row['total_premium']), 3);
    }
    expect(sums.rows.length).toBeGreaterThan(10);
    const one = await typed.rows("SELECT sum(total_premium) AS p FROM trades_summary WHERE date = '2026-11-19'");
    expect([one.cost.files, one.cost.rowGroups, one.coverage.dates]).toEqual([1, 1, ['2026-11-19']]);
    const types = await api.rows(
      'SELECT toTypeName(date) AS d, toTypeName(contracts) AS c FROM trades_summary LIMIT 1',
    );
    expect(types.rows).toEqual([{ d: 'LowCardinality(String)', c: 'Nullable(Int64)' }]);
  });
});
