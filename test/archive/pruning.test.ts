/**
 * Leaving dates and times out never changes an answer: random statements of many shapes over rows of many dates, answered
 * with and without what the archive would leave out. What is left out of real files is measured in `archive.slow.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readAll, resolveReads } from '../../src/archive/resolve-reads.ts';
import { describeBounds, unite } from '../../src/archive/time-bounds.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import type { PooledEngine } from '../../src/engine/pool.ts';
import { createFilter, type OracleRow, pick } from '../service/random-filter.ts';
import { createRandom } from '../support/random.ts';

/** Change it to look elsewhere; a failure names it. */
const SEED = Number(process.env['FLOWDROP_TEST_SEED'] ?? 20_261_120);
const STATEMENTS = 240;
const ROWS = 600;
const DATES = ['2026-10-30', '2026-11-03', '2026-11-04', '2026-11-17', '2026-11-18', '2026-11-19', '2026-12-01'];
const TABLE = 'RawOptionTrades';

let engine: Engine;
let pooled: PooledEngine;
let rows: readonly OracleRow[];

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  pooled = {
    state: engine,
    rows: (sql) => engine.rows(sql),
    command: (sql) => engine.command(sql),
    stream: () => Promise.reject(new Error('not used')),
  };
  const columns = (time: string) =>
    `id String, symbol String, date String, time ${time}, put_call String, side String, expiration_date String,
     market_cap String, size Int32, oi Int32, price Float64, strike Float64`;
  for (const database of ['empty', 'whole', 'pruned']) await engine.command(`CREATE DATABASE ${database}`);
  for (const table of [TABLE, `${TABLE}MaxDateOnlyMV`])
    await engine.command(`CREATE TABLE empty.${table} (${columns('String')}) ENGINE = Null`);
  await engine.command(`CREATE TABLE whole.files (${columns("DateTime64(3, 'UTC')")}) ENGINE = Memory`);
  rows = createRows(createRandom(SEED));
  const payload = rows.map((row, k) =>
    JSON.stringify({ ...row, time: `${row.time}.${String(k % 1000).padStart(3, '0')}` }),
  );
  await engine.insert({ table: 'whole.files', format: 'JSONEachRow', payload: Buffer.from(payload.join('\n')) });
  await engine.command(`CREATE VIEW whole.${TABLE} AS ${describeRows('1')}`);
});
afterAll(() => engine.close());

describe('what the archive leaves out', () => {
  test('changes no answer, whatever the statement', async () => {
    const random = createRandom(SEED);
    let pruned = 0;
    let bounded = 0;
    let answered = 0;
    for (let k = 0; k < STATEMENTS; k += 1) {
      const sql = createStatement(random);
      const kept = await keep(sql);
      if (kept.dates.length < DATES.length) pruned += 1;
      if (kept.bounds.length > 0) bounded += 1;
      const whole = await answer('whole', sql);
      // Over unmatched rows of a join some statements fail; without those rows they need not.
      if (whole instanceof EngineFault) continue;
      answered += 1;
      expect(await answer('pruned', sql), `seed ${SEED}, statement ${k}: ${sql}`).toEqual(whole);
    }
    expect(answered).toBeGreaterThan(STATEMENTS * 0.8);
    // A test in which nothing is left out would prove nothing.
    expect(pruned).toBeGreaterThan(STATEMENTS / 10);
    expect(bounded).toBeGreaterThan(STATEMENTS / 20);
  });

  test.each([
    ["WHERE date = '2026-11-18'", ['2026-11-18']],
    ["WHERE '2026-11-18' <= date AND date < '2026-12'", ['2026-11-18', '2026-11-19']],
    ["WHERE date BETWEEN '2026-11-03' AND '2026-11-17' AND size > 3", ['2026-11-03', '2026-11-04', '2026-11-17']],
    ["WHERE date IN ('2026-11-03', '2026-12-01')", ['2026-11-03', '2026-12-01']],
    ["WHERE date = '2026-11-03' OR date = '2026-12-01' AND symbol = 'SYM1'", ['2026-11-03', '2026-12-01']],
    ["WHERE date LIKE '2026-11-1%'", ['2026-11-17', '2026-11-18', '2026-11-19']],
    ["WHERE NOT (date < '2026-11-19')", ['2026-11-19', '2026-12-01']],
    ["AS t WHERE t.date = '2026-11-03'", ['2026-11-03']],
    [
      `AS a JOIN ${TABLE} AS b USING (id) WHERE a.date = '2026-11-03' AND b.date = '2026-11-04'`,
      ['2026-11-03', '2026-11-04'],
    ],
    [
      "WHERE id IN (SELECT id FROM RawOptionTrades WHERE date = '2026-11-03') AND date = '2026-11-04'",
      ['2026-11-03', '2026-11-04'],
    ],
    ["WHERE date = '2025-01-01'", []],
    // What is not understood leaves all dates in.
    ["WHERE toDate(date) = toDate('2026-11-18')", DATES],
    ["WHERE date = (SELECT max(date) FROM RawOptionTrades) OR date = '2026-11-03'", DATES],
    ["WHERE date >= toString(today() - 3) AND date < '2026-11-04'", DATES],
    ["WHERE date = '2026-11-18' OR size = 1", DATES],
    // The empty tables hold columns otherwise than the files do.
    ["WHERE if(toTypeName(symbol) = 'String', date = '2026-11-18', 1)", DATES],
    ["WHERE if(toColumnTypeName(symbol) = 'String', date = '2026-11-18', 1)", DATES],
    ["GROUP BY date WITH ROLLUP HAVING date < '2026-11-04'", DATES],
    [`AS a FULL JOIN ${TABLE} AS b USING (id) WHERE a.date = '2026-11-03'`, DATES],
    [`AS a ANY LEFT JOIN ${TABLE} AS b USING (id) WHERE a.date = '2026-11-03'`, DATES],
    ["WHERE arrayExists(date -> date = '2026-11-03', ['x'])", DATES],
  ])('%s: %j are read', async (rest, dates) => {
    expect((await keep(`SELECT count() FROM ${TABLE} ${rest}`)).dates).toEqual(dates);
  });

  test('an alias called date is not taken for the column', async () => {
    expect(
      (await keep(`SELECT upper(symbol) AS date, count() FROM ${TABLE} WHERE date = 'SYM1' GROUP BY date`)).dates,
    ).toEqual(DATES);
    expect(
      (await keep(`WITH (a, b) -> 1 AS equals SELECT count() FROM ${TABLE} WHERE equals(date, 'x')`)).dates,
    ).toEqual(DATES);
  });

  test.each([
    ["time >= '2026-11-18 10:00:00'", 1],
    ["time >= '2026-11-18' AND time < '2026-11-19 12'", 2],
    ["time = '2026-11-18 10:00:00' OR time = '2026-11-19 10:00:00'", 2],
    ["time >= 'x'", 0],
    ["time >= '2026-02-30'", 0],
    ["time >= '2026-11-18 10:00:00' OR size = 1", 0],
    ["toDateTime(time) >= toDateTime('2026-11-18 10:00:00')", 0],
  ])('WHERE %s gives the files %i bounds of time', async (condition, count) => {
    expect((await keep(`SELECT count() FROM ${TABLE} WHERE ${condition}`)).bounds).toHaveLength(count);
  });
});

/** What the archive would keep, as the view `pruned` shows it. */
async function keep(sql: string): Promise<{ readonly dates: readonly string[]; readonly bounds: readonly string[] }> {
  await engine.command('USE empty');
  const reads = ((await resolveReads(pooled, sql, [TABLE])) ?? readAll([TABLE])).filter(({ table }) => table === TABLE);
  const dates = DATES.filter((date) => reads.some((read) => read.mayTouch(date)));
  const bounds = reads.length > 0 ? describeBounds(reads.map(({ time }) => time).reduce(unite)) : [];
  const list = dates.map((date) => `'${date}'`).join(', ');
  await engine.command(
    `CREATE OR REPLACE VIEW pruned.${TABLE} AS ${describeRows([`date IN (${list || "''"})`, ...bounds].join(' AND '))}`,
  );
  return { dates, bounds };
}

async function answer(database: string, sql: string): Promise<unknown> {
  await engine.command(`USE ${database}`);
  return await engine.rows(sql).catch((error: unknown) => error);
}

function describeRows(condition: string): string {
  return `SELECT * REPLACE (substring(toString(time), 1, 19) AS time) FROM (SELECT * FROM whole.files WHERE ${condition})`;
}

function createStatement(random: () => number): string {
  const context = { random, visible: rows, table: TABLE };
  const p = createFilter(context, 2);
  const q = createFilter(context, 2);
  const date = pick(random, DATES);
  const near = pick(random, [
    `= '${date}'`,
    `>= '${date}'`,
    `< '${date}'`,
    `LIKE '${date.slice(0, 8)}%'`,
    `!= '${date}'`,
    `IN ('${date}', '2026-11-18')`,
  ]);
  const at = `'${pick(random, rows).time.slice(0, pick(random, [10, 13, 16, 19]))}'`;
  const clock = pick(random, [`>= ${at}`, `<= ${at}`, `> ${at}`, `< ${at}`, `= ${at}`]);
  const where = pick(random, [
    (t: string) => `${t}date ${near} AND ${p.sql(t)}`,
    (t: string) => `${t}time ${clock} AND ${p.sql(t)}`,
    (t: string) => `(${t}date ${near} OR ${t}time ${clock}) AND ${p.sql(t)}`,
    (t: string) => `NOT (${t}date ${near} AND ${t}time ${clock})`,
    (t: string) => `${t}date ${near} AND (${t}time ${clock} OR ${t}time = ${at})`,
    (t: string) => p.sql(t),
  ]);
  return pick(random, [
    () => `SELECT count() AS n, sum(size) AS s, arraySort(groupArray(id)) AS ids FROM ${TABLE} WHERE ${where('')}`,
    () => `SELECT id FROM (SELECT * FROM ${TABLE} WHERE ${where('')}) WHERE ${q.sql('')} ORDER BY id`,
    () =>
      `WITH x AS (SELECT id FROM ${TABLE} WHERE ${where('')}) SELECT count() AS n FROM ${TABLE} WHERE id IN x AND date ${near}`,
    () =>
      `SELECT count() AS n, sum(b.size) AS s FROM ${TABLE} AS a JOIN ${TABLE} AS b ON a.id = b.id WHERE ${where('a.')} AND b.date ${near}`,
    () =>
      `SELECT count() AS n, sum(b.size) AS s FROM ${TABLE} AS a LEFT JOIN ${TABLE} AS b ON a.id = b.id AND b.time ${clock} WHERE ${where('a.')}`,
    () =>
      `SELECT count() AS n, sum(b.size) AS s FROM ${TABLE} AS a RIGHT JOIN (SELECT * FROM ${TABLE} WHERE ${where('')}) AS b ON a.id = b.id WHERE a.date ${near}`,
    () =>
      `SELECT count() AS n FROM ${TABLE} AS a FULL JOIN ${TABLE} AS b ON a.id = b.id AND b.date ${near} WHERE ${where('b.')}`,
    () =>
      `SELECT date, count() AS n FROM ${TABLE} WHERE ${where('')} GROUP BY date WITH ROLLUP HAVING date ${near} ORDER BY date`,
    () =>
      `SELECT id FROM ${TABLE} WHERE ${where('')} QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY id) = 1 ORDER BY id`,
    () =>
      `SELECT count() AS n FROM ${TABLE} WHERE date = (SELECT max(date) FROM ${TABLE} WHERE ${where('')}) OR date ${near}`,
    () => `SELECT sumIf(size, ${where('')}) AS s, count() AS n FROM ${TABLE}`,
  ])();
}

function createRows(random: () => number): readonly OracleRow[] {
  const two = (value: number) => String(value).padStart(2, '0');
  return Array.from({ length: ROWS }, (_, k) => {
    const date = pick(random, DATES);
    return {
      id: String(1_000 + k),
      symbol: `SYM${k % 9}`,
      date,
      time: `${date} ${two(9 + Math.floor(random() * 8))}:${two(Math.floor(random() * 60))}:${two(Math.floor(random() * 60))}`,
      put_call: pick(random, ['PUT', 'CALL']),
      side: pick(random, ['ASK', 'BID', 'MID']),
      expiration_date: '2026-12-18',
      market_cap: String(1_000_005 + 10 * k),
      size: 1 + Math.floor(random() * 50),
      oi: Math.floor(random() * 100),
      price: Math.floor(random() * 400) / 4,
      strike: Math.floor(random() * 400) / 2,
    };
  });
}
