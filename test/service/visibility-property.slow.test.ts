/**
 * Whatever a query asks, no row younger than the delay, older than the lookback or before the earliest date is in its
 * answer, and no answer depends on one. Random conditions over random rows around the boundaries, against an oracle that
 * knows which rows may be seen. The exact boundaries are tested in `visibility.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chooseSeed, chooseSize } from '../support/nightly.ts';
import { createRandom } from '../support/random.ts';
import { createFilter, type Filter, type OracleRow, pick } from './random-filter.ts';
import { startTestService, type TestService } from './running-service.ts';
import { type TradeFile, writeTradeFile } from './trade-file.ts';

/** Change it to look elsewhere; a failure names it. */
const SEED = chooseSeed(20_261_119);
const ROWS = 1_200;
/** Per service and shape of query. */
const QUERIES = chooseSize(16, 160);
/** 13:00 in New York: what is from 12:45 on, or up to 13:00 fifteen days earlier, is hidden. */
const MIDDAY = '2026-11-19T18:00:00Z';
const HIDDEN = 'HIDDEN';
/** The clock runs on during the test; no row lies in the hour that it may pass over. */
const NEWEST_SEEN = '2026-11-19 12:45:00';
const OLDEST_HIDDEN_YOUNG = '2026-11-19 13:45:00';
const NEWEST_HIDDEN_OLD = '2026-11-04 13:00:00';
const OLDEST_SEEN = '2026-11-04 14:00:00';
const LATEST_DATE = '2026-11-19';

const [ALL, LATEST] = ['RawOptionTrades', 'RawOptionTradesMaxDateOnlyMV'] as const;

interface Scene {
  readonly table: string;
  /** The rows of `table` that may be seen. */
  readonly visible: readonly OracleRow[];
  readonly random: () => number;
}

/** A query and what its rows must be. */
interface Case {
  readonly sql: string;
  readonly rows: readonly unknown[];
}

const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);

/** Ways to ask with conditions `p` and `q`; each knows its answer. */
const SHAPES: Readonly<Record<string, (scene: Scene, p: Filter, q: Filter) => Case>> = {
  'a list of rows': ({ table, visible }, p) => ({
    sql: `SELECT id FROM ${table} WHERE ${p.sql('')} ORDER BY id`,
    rows: listIds(visible.filter(p.holds)),
  }),
  aggregates: ({ table, visible }, p) => ({
    sql: `SELECT count() AS n, sum(size) AS s, max(time) AS newest, min(time) AS oldest, max(date) AS d, arraySort(groupArray(id)) AS ids FROM ${table} WHERE ${p.sql('')}`,
    rows: [aggregate(visible.filter(p.holds))],
  }),
  'conditional aggregates': ({ table, visible }, p) => ({
    sql: `SELECT countIf(${p.sql('')}) AS n, maxIf(time, ${p.sql('')}) AS newest, arraySort(groupArrayIf(id, ${p.sql('')})) AS ids FROM ${table}`,
    rows: [pickKeys(aggregate(visible.filter(p.holds)), ['n', 'newest', 'ids'])],
  }),
  'a subquery': ({ table, visible }, p, q) => ({
    sql: `SELECT id FROM (SELECT * FROM ${table} WHERE ${p.sql('')}) WHERE ${q.sql('')} ORDER BY id`,
    rows: listIds(visible.filter((row) => p.holds(row) && q.holds(row))),
  }),
  'a common table expression': ({ table, visible }, p, q) => ({
    sql: `WITH chosen AS (SELECT id FROM ${table} WHERE ${p.sql('')}) SELECT id FROM ${table} WHERE id IN chosen AND ${q.sql('')} ORDER BY id`,
    rows: listIds(visible.filter((row) => p.holds(row) && q.holds(row))),
  }),
  'an inner join': ({ table, visible }, p, q) => ({
    sql: `SELECT a.id AS id FROM ${table} AS a JOIN ${table} AS b ON a.id = b.id AND ${q.sql('b.')} WHERE ${p.sql('a.')} ORDER BY id`,
    rows: listIds(visible.filter((row) => p.holds(row) && q.holds(row))),
  }),
  'a left join': ({ table, visible }, p, q) => ({
    sql: `SELECT a.id AS id, b.id AS other FROM ${table} AS a LEFT JOIN (SELECT id FROM ${table} WHERE ${q.sql('')}) AS b ON a.id = b.id WHERE ${p.sql('a.')} ORDER BY id`,
    rows: visible
      .filter(p.holds)
      .map((row) => ({ id: row.id, other: q.holds(row) ? row.id : '' }))
      .sort(byId),
  }),
  'a join on an expression': ({ table, visible }, p) => ({
    sql: `SELECT count() AS n FROM ${table} AS a JOIN ${table} AS b ON toUInt64(a.id) = toUInt64(b.id) AND intDiv(10, a.size) = intDiv(10, b.size) WHERE ${p.sql('b.')}`,
    rows: [{ n: visible.filter(p.holds).length }],
  }),
  'an anti join': ({ table, visible }, p) => ({
    sql: `SELECT a.id AS id FROM ${table} AS a LEFT ANTI JOIN (SELECT id FROM ${table} WHERE ${p.sql('')}) AS b USING (id) ORDER BY id`,
    rows: listIds(visible.filter((row) => !p.holds(row))),
  }),
  'ARRAY JOIN': ({ table, visible }, p) => ({
    sql: `SELECT id, word FROM ${table} ARRAY JOIN [symbol, time] AS word WHERE ${p.sql('')} ORDER BY id, word`,
    rows: visible
      .filter(p.holds)
      .sort(byId)
      .flatMap(({ id, symbol, time }) => [symbol, time].sort().map((word) => ({ id, word }))),
  }),
  'GROUP BY and HAVING': ({ table, visible }, p) => ({
    sql: `SELECT date, count() AS n, max(id) AS last FROM ${table} WHERE ${p.sql('')} GROUP BY date HAVING count() > 1 ORDER BY date`,
    rows: groupByDate(visible.filter(p.holds)),
  }),
  'GROUP BY of an expression': ({ table, visible }, p) => ({
    sql: `SELECT sum(n) AS n FROM (SELECT intDiv(1000, size) AS k, toUInt64(id) % 5 AS m, count() AS n FROM ${table} WHERE ${p.sql('')} GROUP BY k, m)`,
    rows: [{ n: visible.filter(p.holds).length }],
  }),
  'a window': ({ table, visible }, p, q) => ({
    sql: `SELECT id, max(time) OVER () AS newest FROM ${table} WHERE ${p.sql('')} QUALIFY ${q.sql('')} ORDER BY id`,
    rows: visible
      .filter((row) => p.holds(row) && q.holds(row))
      .map(({ id }) => ({ id, newest: aggregate(visible.filter(p.holds)).newest }))
      .sort(byId),
  }),
  'ORDER BY of an expression': ({ table, visible }, p) => ({
    sql: `SELECT id FROM ${table} WHERE ${p.sql('')} ORDER BY toUInt64(id) DESC, intDiv(1, size) LIMIT 5`,
    rows: [...listIds(visible.filter(p.holds))].reverse().slice(0, 5),
  }),
  'expressions of the answer': ({ table, visible }, p) => ({
    sql: `SELECT id, toUInt64(id) AS k, intDiv(1000, size) AS z, toInt32(substring(symbol, 4)) AS y FROM ${table} WHERE ${p.sql('')} ORDER BY id LIMIT 20`,
    rows: [...visible.filter(p.holds)]
      .sort(byId)
      .slice(0, 20)
      .map(({ id, size, symbol }) => ({ id, k: Number(id), z: Math.floor(1000 / size), y: Number(symbol.slice(3)) })),
  }),
  'the newest first': ({ table, visible }, p) => ({
    sql: `SELECT time FROM ${table} WHERE ${p.sql('')} ORDER BY time DESC LIMIT 3`,
    rows: visible
      .filter(p.holds)
      .map(({ time }) => ({ time }))
      .sort((a, b) => (a.time < b.time ? 1 : -1))
      .slice(0, 3),
  }),
};

describe.each([
  { name: 'the lookback', earliest: undefined, order: 'time', firstSeen: OLDEST_SEEN },
  { name: 'the earliest date', earliest: '2026-11-09', order: 'symbol', firstSeen: '2026-11-09 00:00:00' },
] as const)('behind the delay and $name', ({ earliest, order, firstSeen }) => {
  const random = createRandom(SEED);
  let file: TradeFile;
  let service: TestService;
  let scenes: readonly Scene[];
  let asked = 0;

  beforeAll(async () => {
    const rows = Array.from({ length: ROWS }, (_, index) => createRow(random, index, firstSeen));
    const seen = rows.filter((row) => isSeen(row.time, firstSeen));
    scenes = [
      { table: ALL, visible: seen, random },
      { table: LATEST, visible: seen.filter((row) => row.date === LATEST_DATE), random },
    ];
    file = await writeTradeFile(rows);
    service = await startTestService({ data: [file.path], asOf: MIDDAY, order, ...(earliest ? { earliest } : {}) });
  });
  afterAll(async () => {
    process.stdout.write(`visibility: ${asked} random queries with seed ${SEED}\n`);
    await service.stop();
    await file.remove();
  });

  test('there are rows on both sides of every boundary', async () => {
    expect(service.rows).toBe(ROWS);
    for (const { visible } of scenes) expect(visible.length).toBeGreaterThan(30);
    expect(ROWS - (scenes[0]?.visible.length ?? 0)).toBeGreaterThan(300);
  });

  test.each(Object.entries(SHAPES))('%s never shows a hidden row', async (_title, shape) => {
    for (let index = 0; index < QUERIES; index += 1) {
      const scene = index % 4 === 3 ? (scenes[1] as Scene) : (scenes[0] as Scene); // There are two.
      const { sql, rows } = shape(scene, createFilter(scene), createFilter(scene));
      const reply = await service.ask(sql);
      asked += 1;
      const where = `seed ${SEED}: ${sql}`;
      expect(reply.status, `${where}\n${reply.text.slice(0, 300)}`).toBe(200);
      expect(reply.text.includes(HIDDEN), where).toBe(false);
      expect(reply.body.data, where).toEqual(rows);
    }
  });
});

function isSeen(time: string, firstSeen: string): boolean {
  return time >= firstSeen && time < NEWEST_SEEN;
}

/** Visible rows can be computed with; two thirds of the hidden ones are traps, the others differ in nothing but the time. */
function createRow(random: () => number, index: number, firstSeen: string): OracleRow {
  const time = createTime(random);
  const number = (below: number) => Math.floor(random() * below);
  const row = {
    id: String(100_000 + index),
    symbol: `SYM${number(40)}`,
    date: time.slice(0, 10),
    time,
    put_call: random() < 0.5 ? 'PUT' : 'CALL',
    side: pick(random, ['AASK', 'ASK', 'MID', 'BID', 'BBID']),
    expiration_date: pick(random, ['2026-11-20', '2026-12-18', '2027-01-15']),
    market_cap: String(1_000_000 + number(1_000)),
    size: 1 + number(60),
    oi: number(100),
    price: number(400) / 4,
    strike: number(400) / 2,
  };
  if (isSeen(time, firstSeen)) return row;
  const trap = { symbol: HIDDEN, expiration_date: HIDDEN, market_cap: HIDDEN, size: pick(random, [0, 2_000_000_000]) };
  return { ...row, id: `${HIDDEN}-${index}`, ...(random() < 0.66 ? trap : {}) };
}

/** Any second of the days around the boundaries, and often one near them; none that the running clock passes over. */
function createTime(random: () => number): string {
  const around = pick(random, ['2026-11-19T12:45:00Z', '2026-11-04T13:00:00Z', '2026-11-09T00:00:00Z']);
  const anywhere = Date.parse('2026-10-20T00:00:00Z') + random() * 32 * 86_400_000;
  const near = Date.parse(around) + (random() - 0.5) * 3 * 3_600_000;
  const time = new Date(random() < 0.4 ? anywhere : near).toISOString().slice(0, 19).replace('T', ' ');
  const isPassed =
    (time >= NEWEST_SEEN && time < OLDEST_HIDDEN_YOUNG) || (time >= NEWEST_HIDDEN_OLD && time < OLDEST_SEEN);
  return isPassed ? createTime(random) : time;
}

function listIds(rows: readonly OracleRow[]): readonly { id: string }[] {
  return rows.map(({ id }) => ({ id })).sort(byId);
}

function aggregate(rows: readonly OracleRow[]) {
  const times = rows.map((row) => row.time).sort();
  const newest = times.at(-1) ?? '';
  return {
    n: rows.length,
    s: rows.reduce((sum, row) => sum + row.size, 0),
    newest,
    oldest: times[0] ?? '',
    d: newest.slice(0, 10),
    ids: rows.map((row) => row.id).sort(),
  };
}

function pickKeys(from: Readonly<Record<string, unknown>>, keys: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(keys.map((key) => [key, from[key]]));
}

function groupByDate(rows: readonly OracleRow[]): readonly unknown[] {
  const dates = [...new Set(rows.map((row) => row.date))].sort();
  return dates
    .map((date) => rows.filter((row) => row.date === date))
    .filter((group) => group.length > 1)
    .map((group) => ({
      date: group[0]?.date,
      n: group.length,
      last: group
        .map((row) => row.id)
        .sort()
        .at(-1),
    }));
}
