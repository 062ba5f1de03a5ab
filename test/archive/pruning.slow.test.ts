/**
 * Leaving dates and times out never changes an answer: random statements of many shapes over rows of many dates, answered
 * with and without what the archive would leave out. What is left out of real files is measured in `archive.slow.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ArchiveColumn } from '../../src/archive/archive-column.ts';
import { describeBounds, describeNumbers, readAll, resolveReads, unite } from '../../src/archive/reads.ts';
import { describeProbe } from '../../src/archive/top-rows.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import { quoteIdentifier } from '../../src/engine/literal.ts';
import type { PooledEngine } from '../../src/engine/pool.ts';
import { createFilter, type OracleRow, pick } from '../service/random-filter.ts';
import { insertRows } from '../support/engine-source.ts';
import { chooseSeed, chooseSize } from '../support/nightly.ts';
import { createRandom } from '../support/random.ts';

/** Change it to look elsewhere; a failure names it. */
const SEED = chooseSeed(20_261_120);
const STATEMENTS = chooseSize(120, 2_000);
const ROWS = 600;
const DATES = ['2026-10-30', '2026-11-03', '2026-11-04', '2026-11-17', '2026-11-18', '2026-11-19', '2026-12-01'];
const TABLE = 'RawOptionTrades';
const COLUMNS = `id String, symbol String, put_call String, side String, expiration_date String, market_cap String,
  size Int32, oi Int32, price Float64, strike Float64`;

/** How the archive has its dates and times: `api` as texts, `typed` as such. */
type Mode = 'api' | 'typed';
const TYPES: Readonly<Record<Mode, string>> = {
  api: 'date String, time String',
  typed: 'date Date32, time DateTime64(6)',
};

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
  await engine.command("SET session_timezone = 'UTC'");
  await engine.command('CREATE DATABASE files');
  await engine.command(`CREATE TABLE files.files (${COLUMNS}, date String, time DateTime64(3, 'UTC')) ENGINE = Memory`);
  rows = createRows(createRandom(SEED));
  const timed = rows.map((row, k) => ({ ...row, time: `${row.time}.${String(k % 1000).padStart(3, '0')}` }));
  await insertRows(engine, 'files.files', timed);
  for (const mode of ['api', 'typed'] as const) {
    for (const database of ['empty', 'whole', 'pruned']) await engine.command(`CREATE DATABASE ${database}_${mode}`);
    for (const table of [TABLE, `${TABLE}MaxDateOnlyMV`])
      await engine.command(`CREATE TABLE empty_${mode}.${table} (${COLUMNS}, ${TYPES[mode]}) ENGINE = Null`);
    await engine.command(`CREATE VIEW whole_${mode}.${TABLE} AS ${describeRows(mode, '1')}`);
  }
});
afterAll(() => engine.close());

describe('what the archive leaves out', () => {
  test.each([
    ['api', createStatement],
    ['typed', createTypedStatement],
  ] as const)('changes no answer, whatever the statement, with %s dates', async (mode, create) => {
    const random = createRandom(SEED);
    let pruned = 0;
    let bounded = 0;
    let answered = 0;
    for (let k = 0; k < STATEMENTS; k += 1) {
      const sql = create(random);
      const kept = await keep(sql, mode);
      if (kept.dates.length < DATES.length) pruned += 1;
      if (kept.bounds.length > 0) bounded += 1;
      const whole = await answer(`whole_${mode}`, sql);
      // Over unmatched rows of a join some statements fail; without those rows they need not.
      if (whole instanceof EngineFault) continue;
      answered += 1;
      expect(await answer(`pruned_${mode}`, sql), `seed ${SEED}, statement ${k}: ${sql}`).toEqual(whole);
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
    ["WHERE date >= toString(today() - 3) AND date < '2026-11-04'", ['2026-10-30', '2026-11-03']],
    // What is not understood leaves all dates in.
    ["WHERE toDate(date) = toDate('2026-11-18')", DATES],
    ["WHERE date = (SELECT max(date) FROM RawOptionTrades) OR date = '2026-11-03'", DATES],
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

  test.each([
    ["WHERE date = '2026-11-18'", ['2026-11-18']],
    ["WHERE date BETWEEN '2026-11-03' AND '2026-11-17' AND size > 3", ['2026-11-03', '2026-11-04', '2026-11-17']],
    ["WHERE date IN ('2026-11-03', '2026-12-01')", ['2026-11-03', '2026-12-01']],
    [
      "WHERE date NOT IN ('2026-11-03', '2026-12-01') AND date != '2026-11-04' AND date < '2026-11-18'",
      [DATES[0], DATES[3]],
    ],
    ["WHERE date >= toDate('2026-11-21') - 3", ['2026-11-18', '2026-11-19', '2026-12-01']],
    ["WHERE date = DATE '2026-11-18' OR '2026-11-19'::Date = date", ['2026-11-18', '2026-11-19']],
    ['WHERE toYYYYMM(date) = 202612 OR toYear(date) = 2025', ['2026-12-01']],
    ['WHERE date < today() + 36500 AND yesterday() - INTERVAL 100 YEAR < date', DATES],
    ['WHERE date > today() + 36500 OR date = yesterday() - 36500', []],
    ["WHERE date > addMonths(toDate32('2026-10-30'), 1)", ['2026-12-01']],
    ["AS a LEFT JOIN RawOptionTrades AS b USING (id) WHERE a.date = '2026-11-03' AND b.date > '2026-11-03'", DATES],
    // What is not understood leaves all dates in: a typed date reads a text in many ways.
    ["WHERE date = '20261118'", DATES],
    ["WHERE date = '2026-11-3'", DATES],
    ["WHERE date IN ('2026-11-18', '20261119')", DATES],
    ['WHERE date >= toDate(now()) - 3', DATES],
    ["WHERE date = (SELECT toDate('2026-11-18'))", DATES],
    ["WHERE toDayOfWeek(date) = 1 OR date = '2026-11-18'", DATES],
  ])('of typed dates, %s: %j are read', async (rest, dates) => {
    expect((await keep(`SELECT count() FROM ${TABLE} ${rest}`, 'typed')).dates).toEqual(dates);
  });

  test.each([
    ["time >= '2026-11-18 10:00:00'", 1],
    ["time >= '2026-11-18' AND time < toDateTime('2026-11-19 12:00:00')", 2],
    ["time >= toDateTime64('2026-11-18 10:00:00', 3) AND time < toDate('2026-11-20')", 2],
    ["time >= '2026-11-18 10:00:00.5'", 0],
    ["time >= '2026-11-18 9:00:00'", 0],
    ["time >= toDateTime('2026-11-18 10:00:00', 'America/New_York')", 0],
    ['time >= now() - 3600', 0],
  ])('typed times: WHERE %s gives the files %i bounds', async (condition, count) => {
    expect((await keep(`SELECT count() FROM ${TABLE} WHERE ${condition}`, 'typed')).bounds).toHaveLength(count);
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

describe('the first rows by a column', () => {
  test.each([
    'SELECT id, symbol, side, price FROM t ORDER BY price DESC, id ASC LIMIT 7',
    'SELECT id, symbol, side, size FROM t ORDER BY size ASC, id ASC LIMIT 40',
    "SELECT * FROM t WHERE (size > 3) AND (symbol != 'SYM1') ORDER BY strike DESC, id ASC LIMIT 11",
    'SELECT id, symbol, side, price AS p FROM t ORDER BY price DESC, id ASC LIMIT 7',
    'SELECT id, symbol, side, time FROM t ORDER BY time DESC, id ASC LIMIT 9',
  ])('are read by its value in the last of them: %s', async (text) => {
    const sql = text.replace('FROM t', `FROM ${TABLE}`);
    const { bound } = await keep(sql, 'typed');
    expect(bound).toBeDefined();
    const shown = await engine.rows<{ rows: number }>(`SELECT count() AS rows FROM pruned_typed.${TABLE}`);
    expect(shown[0]?.rows).toBeLessThan(ROWS / 2);
    expect(await answer('pruned_typed', sql)).toEqual(await answer('whole_typed', sql));
  });

  test.each([
    'SELECT id, symbol, side, price FROM t ORDER BY price DESC, id ASC LIMIT 7, 3',
    'SELECT id, symbol, side, price FROM t ORDER BY price DESC LIMIT 7 WITH TIES',
    'SELECT id, symbol, side, price FROM t ORDER BY price DESC NULLS FIRST, id ASC LIMIT 7',
    'SELECT id, symbol, side, price FROM t ORDER BY price DESC LIMIT 1 BY symbol LIMIT 7',
    'SELECT DISTINCT side, symbol, size, price FROM t ORDER BY price DESC, side ASC, symbol ASC, size ASC LIMIT 7',
    'SELECT id, symbol, size AS price, price AS p, side FROM t ORDER BY price DESC, id ASC LIMIT 7',
    'SELECT id, symbol, side, row_number() OVER (ORDER BY price ASC) AS r, price FROM t ORDER BY price DESC, id ASC LIMIT 7',
    'SELECT id, symbol, side, rowNumberInAllBlocks() AS r, price FROM t ORDER BY price DESC, id ASC LIMIT 7',
    'SELECT symbol, max(price) AS price, any(side), any(id) FROM t GROUP BY symbol ORDER BY price DESC, symbol ASC LIMIT 7',
    'SELECT id, symbol, side, price FROM t WHERE price < (SELECT max(price) FROM t) ORDER BY price DESC, id ASC LIMIT 7',
    'SELECT id, symbol, side, -price AS n FROM t ORDER BY n DESC, id ASC LIMIT 7',
    'SELECT id, symbol, side, price FROM t ORDER BY price DESC, id ASC LIMIT 100000',
    'SELECT id, symbol, side, price FROM t WHERE size > 1000000 ORDER BY price DESC, id ASC LIMIT 7',
  ])('are read as all rows where they depend on more: %s', async (text) => {
    const sql = text.replaceAll('FROM t', `FROM ${TABLE}`);
    expect((await keep(sql, 'typed')).bound).toBeUndefined();
  });

  test.each([
    ['size > 5 AND price <= 2.5', 2],
    ['5 < size', 1],
    ['size BETWEEN 2 AND 6', 2],
    ['size > 5 OR price > 2', 0],
    ["size > toInt32('5')", 0],
    ['size + 1 > 5', 0],
    ['NOT (size > 5)', 0],
  ])('WHERE %s gives the files %i conditions on numbers', async (condition, count) => {
    const sql = `SELECT count() FROM ${TABLE} WHERE ${condition}`;
    expect((await keep(sql, 'typed')).numbers).toHaveLength(count);
    expect(await answer('pruned_typed', sql)).toEqual(await answer('whole_typed', sql));
  });
});

/** What the archive would keep, as the view `pruned` shows it. */
async function keep(
  sql: string,
  mode: Mode = 'api',
): Promise<{
  readonly dates: readonly string[];
  readonly bounds: readonly string[];
  readonly numbers: readonly string[];
  /** Condition of the first rows. */
  readonly bound: string | undefined;
}> {
  await engine.command(`USE empty_${mode}`);
  const columns = `${COLUMNS}, ${TYPES[mode]}`.split(',').map((column): ArchiveColumn => {
    const [name = '', type = ''] = column.trim().split(' ');
    return { name, readAs: type, type, value: quoteIdentifier(name) };
  });
  const tables = [{ name: TABLE, columns: columns.map(({ name }) => name), isDated: true }];
  const reads = ((await resolveReads(pooled, sql, tables)) ?? readAll(tables)).filter(({ table }) => table === TABLE);
  const dates = DATES.filter((date) => reads.some((read) => read.mayTouch(date)));
  const bounds = reads.length > 0 ? describeBounds(reads.map(({ time }) => time).reduce(unite)) : [];
  const [read, ...others] = reads;
  const numbers = read !== undefined && others.length === 0 ? describeNumbers(read, columns) : [];
  const list = dates.map((date) => `'${date}'`).join(', ');
  const show = async (bound: readonly string[]) => {
    const conditions = [`date IN (${list || "''"})`, ...bounds, ...numbers, ...bound];
    const rowsSql = describeRows(mode, conditions.join(' AND '));
    await engine.command(`CREATE OR REPLACE VIEW pruned_${mode}.${TABLE} AS ${rowsSql}`);
  };
  await show([]);
  const column = columns.find(({ name }) => name === read?.top?.column);
  const probe = read?.top && column && describeProbe(sql, read.top, column);
  if (probe === undefined) return { dates, bounds, numbers, bound: undefined };
  await engine.command(`USE pruned_${mode}`);
  const [found] = await engine.rows<{ rows: number; bound: string }>(probe.sql);
  const isFull = read?.top?.count === found?.rows;
  const bound = isFull ? probe.describeBound(found?.bound ?? '') : undefined;
  if (bound !== undefined) await show([bound]);
  return { dates, bounds, numbers, bound };
}

async function answer(database: string, sql: string): Promise<unknown> {
  await engine.command(`USE ${database}`);
  return await engine.rows(sql).catch((error: unknown) => error);
}

function describeRows(mode: Mode, condition: string): string {
  const values =
    mode === 'api'
      ? 'substring(toString(time), 1, 19) AS time'
      : "toDate32(date) AS date, CAST(time, 'DateTime64(6)') AS time";
  return `SELECT * REPLACE (${values}) FROM (SELECT * FROM files.files WHERE ${condition})`;
}

/** Statements as quants write them over typed dates. */
function createTypedStatement(random: () => number): string {
  const date = pick(random, DATES);
  const at = pick(random, rows).time;
  const filter = () =>
    pick(random, ['size > 10', "symbol = 'SYM3'", "put_call = 'PUT'", 'toHour(time) < 12', 'price * size > 100']);
  const day = () =>
    pick(random, [
      `date = '${date}'`,
      `date >= '${date}'`,
      `'${date}' > date`,
      `date != '${date}'`,
      `date IN ('${date}', '2026-11-18')`,
      `date NOT IN ('${date}', '2026-11-18')`,
      `date BETWEEN '2026-11-03' AND '${date}'`,
      `date >= toDate('${date}') - 2`,
      `date < toDate32('${date}') + INTERVAL 1 DAY`,
      `toYYYYMM(date) = ${date.slice(0, 7).replace('-', '')}`,
      `toDayOfWeek(date) = 3`,
      `date = '${date.replaceAll('-', '')}'`,
      `toStartOfMonth(date) = '${date.slice(0, 8)}01'`,
      `dateDiff('day', date, toDate32('${date}')) < 5`,
    ]);
  const clock = () =>
    pick(random, [
      `time >= '${at}'`,
      `time < '${at}'`,
      `time <= '${at}.500'`,
      `time = '${at}'`,
      `time > '${date}'`,
      `time < toDateTime('${at}')`,
      `time >= toDate('${date}')`,
      `time >= '${date}T12:00:00'`,
      `toStartOfInterval(time, INTERVAL 1 HOUR) = '${at.slice(0, 13)}:00:00'`,
      `toDate(time) = '${date}'`,
      `time BETWEEN '${date} 10:00:00' AND '${at}'`,
    ]);
  const where = () =>
    pick(random, [
      () => `${day()} AND ${filter()}`,
      () => `${clock()} AND ${filter()}`,
      () => `(${day()} OR ${clock()}) AND ${filter()}`,
      () => `NOT (${day()} AND ${clock()})`,
      () => `${day()} AND (${clock()} OR ${clock()})`,
      () => `${day()} OR ${filter()}`,
    ])();
  return pick(random, [
    () => `SELECT count() AS n, sum(size) AS s, arraySort(groupArray(id)) AS ids FROM ${TABLE} WHERE ${where()}`,
    () => `SELECT id FROM (SELECT * FROM ${TABLE} WHERE ${where()}) WHERE ${day()} ORDER BY id`,
    () =>
      `WITH x AS (SELECT id FROM ${TABLE} WHERE ${where()}) SELECT count() AS n FROM ${TABLE} WHERE id IN x AND ${day()}`,
    () =>
      `SELECT count() AS n, sum(b.size) AS s FROM ${TABLE} AS a LEFT JOIN ${TABLE} AS b ON a.id = b.id WHERE a.date = '${date}' AND a.size > 3`,
    () =>
      `SELECT count() AS n FROM ${TABLE} AS a FULL JOIN ${TABLE} AS b ON a.id = b.id AND b.date < '${date}' WHERE b.date >= '2026-11-04'`,
    () =>
      `SELECT date, count() AS n FROM ${TABLE} WHERE ${where()} GROUP BY date WITH ROLLUP HAVING ${day()} ORDER BY date, n`,
    () =>
      `SELECT count() AS n FROM ${TABLE} WHERE date = (SELECT max(date) FROM ${TABLE} WHERE ${where()}) OR ${day()}`,
    () => `SELECT toStartOfHour(time) AS h, sum(size) AS s FROM ${TABLE} WHERE ${where()} GROUP BY h ORDER BY h`,
  ])();
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
