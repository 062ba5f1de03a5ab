/**
 * The archive over real drops, in a directory and in S3: which files and row groups are read, what is told of gaps, what
 * damage does, and that credentials stay out of sight. That it answers as the service does is in `differential.slow.test.ts`,
 * that leaving dates out changes no answer in `pruning.slow.test.ts`.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import { readS3Access } from '../../src/store/s3-client.ts';
import type { Store, StoreAccess } from '../../src/store/store.ts';
import { startS3, useS3Credentials } from '../support/s3-server.ts';
import { openTestArchive, type TestArchive } from './open-archive.ts';
import { buildDay, publishBuilt, publishDay } from './publish-day.ts';

/** Nine row groups. */
const LARGE = { date: '2026-11-18', rows: 400_000 };
/** The sessions of these days; the 12th is not sealed, the 13th is known to be incomplete. */
const SMALL = ['2026-11-10', '2026-11-11', '2026-11-13', '2026-11-16', '2026-11-17'];
const SMALL_ROWS = 300;
/** One that 400,000 rows hold about a thousand times, all of them in one row group. */
const OPTION = 'SYM7261218C00100000';
/** Of the file, of which a point query may read so much. */
const MAX_POINT_SHARE = 0.02;

const { server } = await startS3();
if (server) useS3Credentials(server);

interface Place {
  readonly store: Store;
  readonly access: StoreAccess;
  remove(): Promise<void>;
}

async function openDirectoryPlace(): Promise<Place> {
  // Characters of patterns, quotes and blanks in the path must mean nothing.
  const path = join(await mkdtemp(join(tmpdir(), 'flowdrop-archive-')), "quant's {drops} *?");
  const store = await openDirectoryStore(path);
  return { store, access: { kind: 'directory', path }, remove: () => rm(join(path, '..'), { recursive: true }) };
}

async function openS3Place(): Promise<Place> {
  if (server === undefined) throw new Error('skipped');
  const { bucket, endpoint, pathStyle, region } = server;
  const options = { bucket, prefix: `archive/${randomUUID()}/quant's drops + 100%`, endpoint, pathStyle, region };
  const store = await openS3Store(options);
  const remove = async () => {
    for await (const { key } of store.list('')) await store.remove(key);
    await store.close();
  };
  return { store, access: await readS3Access(options), remove };
}

const places = [
  { name: 'a directory', open: openDirectoryPlace, isS3: false },
  // Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
  ...(server ? [{ name: 'S3', open: openS3Place, isS3: true }] : []),
];

/** Written once, copied to each place. */
let days: Place;

beforeAll(async () => {
  days = await openDirectoryPlace();
  const engine = await openEmbeddedEngine();
  for (const date of SMALL) {
    await publishDay(engine, days.store, {
      date,
      rows: SMALL_ROWS,
      condition: date === '2026-11-13' ? 'degraded' : 'available',
      // From the 16th on the source sends a field that it did not send before.
      ...(date >= '2026-11-16' ? { change: (k: number) => ({ venue: `V${k % 3}` }) } : {}),
    });
  }
  await publishDay(engine, days.store, LARGE);
  await engine.close();
}, 120_000);
afterAll(() => days?.remove());

describe.each(places)('the archive in $name', ({ open, isS3 }) => {
  let place: Place;
  /** Answers with the API's texts. */
  let archive: TestArchive;
  /** Answers with types of its own. */
  let typed: TestArchive;
  let largeBytes: number;

  beforeAll(async () => {
    place = await open();
    for await (const { key } of days.store.list('')) {
      await place.store.put(key, { path: join(days.store.url, key) });
    }
    largeBytes = (await place.store.head(dropKey('trades', LARGE.date)))?.sizeBytes ?? 0;
    archive = await openTestArchive(place.store, place.access, 'trades', { types: 'api' });
    typed = await openTestArchive(place.store, place.access, 'trades');
  });
  afterAll(async () => {
    await archive?.stop();
    await typed?.stop();
    await place?.remove();
  });

  test.each([
    ["date = '2026-11-16'", 1],
    ["date IN ('2026-11-16', '2026-11-17')", 2],
    ["date >= '2026-11-11' AND date < '2026-11-16'", 2],
    ["date > toDate('2026-11-19') - 3", 2],
    ["date >= today() - 3 AND date < '2026-11-16'", 0],
    ['toDayOfWeek(date) = 1', 1],
    ["toStartOfWeek(date, 1) = '2026-11-16' AND date != '2026-11-18'", 2],
    ["toYYYYMM(date) = 202611 AND formatDateTime(date, '%d') = '17'", 1],
    ["dateDiff('day', date, toDate('2026-11-18')) = 1", 1],
    ['date = (SELECT min(date) FROM RawOptionTradesMaxDateOnlyMV WHERE size > 0)', 2],
    ["toString(date) LIKE '%-1_' AND toString(date) NOT LIKE '%18' AND endsWith(toString(date), '7')", 1],
  ])('chooses files by typed dates: WHERE %s', async (condition, files) => {
    const { rows, cost } = await typed.rows(`SELECT count() AS n, sum(size) AS s FROM trades WHERE ${condition}`);
    expect([Number(rows[0]?.['n']) > 0, cost.files]).toEqual([files > 0, files]);
  });

  test('reads the dates of every day if midnight passes meanwhile', async () => {
    const read = async () => (await typed.rows('SELECT count() FROM trades WHERE date > today() + 3650')).coverage;
    expect((await read()).dates).toEqual([]);
    let days = 0;
    const now = vi.spyOn(systemClock, 'now').mockImplementation(() => Date.UTC(2026, 10, 19 + days++));
    const { dates } = await read().finally(() => now.mockRestore());
    expect(dates).toEqual([...SMALL, LARGE.date]);
  });

  test.each([
    [`time < '${LARGE.date} 09:00:00'`, 0, 0],
    [`time <= '${LARGE.date} 09:30:01'`, 60, 9],
    [`time <= toDateTime('${LARGE.date} 09:30:01')`, 60, 9],
    [
      `toStartOfInterval(time, INTERVAL 1 MINUTE) = '${LARGE.date} 09:30:00' AND time < '${LARGE.date} 09:31:00'`,
      1_800,
      9,
    ],
    [`symbol = 'SYM1' AND time >= '${LARGE.date} 09:30:00'`, 1_000, 1],
    [`option_symbol = '${OPTION}'`, 1_000, 1],
    [`expiration_date < date`, 0, 9],
    [`expiration_date < '2026-12-18'`, 0, 0],
    [`updated_timestamp < '2026-01-01 00:00:00'`, 0, 0],
  ])('chooses row groups by typed conditions: %s', async (condition, rows, groups) => {
    const { rows: found, cost } = await typed.rows(
      `SELECT count() AS n, max(time) AS newest FROM trades WHERE date = '${LARGE.date}' AND ${condition}`,
    );
    if (rows < 1_000) expect(found[0]?.['n']).toBe(rows);
    else expect(Number(found[0]?.['n'])).toBeGreaterThan(rows / 2);
    expect(cost.rowGroups).toBeLessThanOrEqual(groups);
  });

  test('a point query reads one row group of nine, and little of the file', async () => {
    const { rows, cost } = await archive.rows(
      `SELECT count() AS n, sum(size) AS s, countIf(option_symbol = '${OPTION}') AS same FROM RawOptionTrades WHERE option_symbol = '${OPTION}' AND date = '${LARGE.date}'`,
    );
    expect(Number(rows[0]?.['n'])).toBeGreaterThan(500);
    expect(rows[0]?.['same']).toBe(rows[0]?.['n']);
    expect([cost.rowGroups, cost.prunedRowGroups]).toEqual([1, 8]);
    if (!isS3) return;
    process.stdout.write(
      `point query over S3: ${cost.s3Bytes} of ${largeBytes} bytes, ${((100 * cost.s3Bytes) / largeBytes).toFixed(2)} %\n`,
    );
    expect(cost.s3Bytes / largeBytes).toBeLessThan(MAX_POINT_SHARE);
  });

  test('a contract that was never traded costs no more than footers and bloom filters', async () => {
    const where = `FROM RawOptionTrades WHERE date = '${LARGE.date}' AND option_symbol`;
    const { rows, cost } = await archive.rows(`SELECT * ${where} = 'SYM7261218C00999000'`);
    expect(rows).toEqual([]);
    const present = await archive.rows(`SELECT * ${where} = '${OPTION}'`);
    expect(present.rows.length).toBeGreaterThan(500);
    if (!isS3) return;
    process.stdout.write(
      `absent contract over S3: ${cost.s3Bytes} bytes, present, all columns: ${present.cost.s3Bytes}\n`,
    );
    expect(cost.s3Bytes).toBeLessThan(present.cost.s3Bytes / 4);
  });

  test('names sessions that are not sealed, dates that are degraded, and columns that dates lack', async () => {
    const { coverage } = await archive.rows('SELECT uniq(venue) FROM RawOptionTrades');
    expect(coverage.missing).toEqual(['2026-11-12', '2026-11-19']);
    expect(coverage.degraded).toEqual(['2026-11-13']);
    expect([...coverage.lacking]).toEqual([['venue', ['2026-11-10', '2026-11-11', '2026-11-13', '2026-11-18']]]);
    const named = async (columns: string) =>
      (await archive.rows(`SELECT ${columns} FROM RawOptionTrades AS t WHERE date < '2026-11-17'`)).coverage.lacking
        .size;
    // A product and a count of rows read no other column; a list of all columns does.
    for (const columns of ['sum(size*price)', 'count(*)', 'sum((size) * 2)', '(date, size).2 * 3'])
      expect([columns, await named(columns)]).toEqual([columns, 0]);
    for (const columns of ['*', 't.*', 'size, *', 'DISTINCT *', 'cityHash64(*)', 'cityHash64(size, *)'])
      expect([columns, await named(columns)]).toEqual([columns, 1]);
    const some = await archive.rows(
      "SELECT count() FROM RawOptionTrades WHERE date BETWEEN '2026-11-16' AND '2026-11-18'",
    );
    expect([some.coverage.missing, some.coverage.degraded]).toEqual([[], []]);
    const timed = await archive.rows(
      "SELECT count() FROM RawOptionTrades WHERE time >= '2026-11-12 10' AND time < '2026-11-17'",
    );
    expect(timed.coverage.missing).toEqual(['2026-11-12']);
    const none = await archive.rows('SELECT 1 AS one');
    expect([none.rows, none.coverage.dates, none.coverage.missing]).toEqual([[{ one: 1 }], [], []]);
  });

  test('a column that only some dates have is empty text for the others', async () => {
    const { rows } = await archive.rows(
      "SELECT venue, count() AS n FROM RawOptionTrades WHERE date < '2026-11-18' GROUP BY venue ORDER BY venue",
    );
    expect(rows).toEqual([
      { venue: '', n: 900 },
      { venue: 'V0', n: 200 },
      { venue: 'V1', n: 200 },
      { venue: 'V2', n: 200 },
    ]);
    const lacks = await archive.rows(
      "SELECT venue, count() AS n FROM RawOptionTrades WHERE date = '2026-11-10' GROUP BY venue",
    );
    expect([lacks.rows, lacks.cost.files]).toEqual([[{ venue: '', n: SMALL_ROWS }], 1]);
    expect([...lacks.coverage.lacking]).toEqual([['venue', ['2026-11-10']]]);
  });

  test('dates that nobody has are no rows, of all columns', async () => {
    const { rows, cost } = await archive.rows("SELECT * FROM RawOptionTrades WHERE date = '2020-01-02'");
    expect([rows, cost.files]).toEqual([[], 0]);
    const types = await archive.rows(
      "SELECT count() AS n, toTypeName(any(date)) AS d, toTypeName(sum(size)) AS s FROM RawOptionTrades WHERE date = '2020-01-02'",
    );
    expect(types.rows).toEqual([{ n: 0, d: 'String', s: 'Int64' }]);
  });

  test('no view, error or setting shows where the drops are, or the credentials', async () => {
    const secrets =
      place.access.kind === 's3' ? [place.access.secretAccessKey, place.access.bucketUrl] : [place.access.path];
    const attempts = [
      'SHOW CREATE TABLE RawOptionTrades',
      'SELECT create_table_query FROM system.tables',
      'SELECT query FROM system.query_log',
      'SELECT _path FROM RawOptionTrades LIMIT 1',
      'SELECT _file FROM RawOptionTrades LIMIT 1',
      'SELECT path_date_of_drop FROM RawOptionTrades LIMIT 1',
      'SELECT toInt32(id) FROM RawOptionTrades',
      'SELECT throwIf(1) FROM RawOptionTrades',
    ];
    for (const sql of attempts) {
      const error: unknown = await archive.rows(sql).catch((cause: unknown) => cause);
      expect(error, sql).toMatchObject({ kind: 'usage' });
      const { message, hint } = error as { message: string; hint: string };
      for (const secret of [...secrets, 'flowdrop-archive-', 'archive_', 'session=2026'])
        expect(`${message} ${hint}`, sql).not.toContain(secret);
    }
  });

  test('a result is not bounded', async () => {
    const lines = (await archive.bytes('SELECT id FROM RawOptionTrades', 'csv')).toString('utf8').trim().split('\n');
    expect(lines).toHaveLength(1 + LARGE.rows + SMALL.length * SMALL_ROWS);
  });
});

describe('what is wrong with the drops', () => {
  let engine: Engine;
  let place: Place;
  let archive: TestArchive;

  beforeAll(async () => {
    place = await openDirectoryPlace();
    engine = await openEmbeddedEngine();
    for (const date of ['2026-11-17', '2026-11-18', '2026-11-19'])
      await publishDay(engine, place.store, { date, rows: 50 });
    await place.store.remove(dropKey('trades', '2026-11-17'));
    await truncate(join(place.store.url, dropKey('trades', '2026-11-18')), 900);
    archive = await openTestArchive(place.store, place.access, 'trades');
  });
  afterAll(async () => {
    await archive?.stop();
    await engine?.close();
    await place?.remove();
  });

  test.each([
    ['2026-11-17', /2026-11-17: trades\.parquet is missing/],
    ['2026-11-18', /2026-11-18: trades\.parquet has 900 bytes where the manifest says \d+/],
  ])('is named by its date when the query can touch %s', async (date, message) => {
    await expect(archive.rows(`SELECT count() FROM RawOptionTrades WHERE date = '${date}'`)).rejects.toMatchObject({
      code: 'DROP_DAMAGED',
      kind: 'failed',
      message: expect.stringMatching(message),
    });
    await expect(archive.rows('SELECT count() FROM RawOptionTrades')).rejects.toMatchObject({ code: 'DROP_DAMAGED' });
  });

  test('is no matter to a query that cannot touch it', async () => {
    const { rows } = await archive.rows("SELECT count() AS n FROM RawOptionTrades WHERE date > '2026-11-18'");
    expect(rows).toEqual([{ n: 50 }]);
  });

  test('hides no other table, and is told in the list of them, for which each dataset is listed once', async () => {
    const built = await buildDay(engine, { date: '2026-11-19', rows: 5 }, place.store.url);
    await publishBuilt(place.store, { ...built, draft: { ...built.draft, dataset: 'broken-set' } });
    await place.store.remove(dropKey('broken-set', '2026-11-19'));
    const own = await openTestArchive(place.store, place.access, 'trades', { others: ['broken-set'] });
    const list = vi.spyOn(place.store, 'list');
    try {
      const { rows } = await own.rows('SHOW TABLES');
      expect(rows.map(({ name }) => name)).toEqual([
        ...['RawOptionTrades', 'RawOptionTradesMaxDateOnlyMV', 'broken_set', 'trades', 'trades_counted'],
      ]);
      const description = 'cannot be read: 2026-11-19: broken-set.parquet is missing';
      expect(rows).toContainEqual({ name: 'broken_set', description });
      const prefixes = list.mock.calls.map(([prefix]) => prefix);
      expect(prefixes).toEqual([...new Set(prefixes)]);
      await expect(own.rows('SELECT 1 FROM brokenset')).rejects.toMatchObject({
        hint: expect.stringContaining(` over ${rows.map(({ name }) => name).join(', ')}, in `),
      });
    } finally {
      list.mockRestore();
      await own.stop();
    }
  });

  test('an archive of nothing is refused', async () => {
    const own = await openTestArchive(place.store, place.access, 'nothing');
    await expect(own.rows('SELECT 1 FROM nothing')).rejects.toMatchObject({ code: 'ARCHIVE_EMPTY' });
    await own.stop();
  });
});
