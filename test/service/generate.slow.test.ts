/** The generated market: the same seed gives the same trades, and they look like a night of the real feed. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { STORED_TABLES } from '../../src/service/data/tables.ts';
import { generateSession, listClosedSessions, planRows } from '../../src/service/generate/generate.ts';
import { listMarket } from '../../src/service/generate/market.ts';
import { startTestService } from './running-service.ts';

const ROWS = 60_000;
const DATES = ['2026-11-18', '2026-11-19'];
const SEED = 42;
const FIVE_HAVE_HALF = "countIf(symbol IN ('SPY', 'SPX', 'QQQ', 'NVDA', 'TSLA')) / count() BETWEEN 0.48 AND 0.56";

let engine: Engine;
const TABLE = 'trades';

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  const columns = STORED_TABLES.find(({ name }) => name === TABLE)?.columns.map(({ name, type }) => `${name} ${type}`);
  await engine.command(`CREATE TABLE ${TABLE} (${columns?.join(', ')}) ENGINE = MergeTree ORDER BY (date, time, id)`);
  await fill(DATES, SEED);
});
afterAll(() => engine.close());

async function fill(dates: readonly string[], seed: number, rows = ROWS, others = 0): Promise<void> {
  await engine.command(`TRUNCATE TABLE ${TABLE}`);
  const target = { engine, insertSql: (select: string) => `INSERT INTO ${TABLE} ${select}` };
  for (const date of dates) await generateSession({ date, rows, seed, others }, target);
}

async function one(columns: string, where = '1'): Promise<Record<string, number>> {
  const [row] = await engine.rows<Record<string, number>>(`SELECT ${columns} FROM ${TABLE} WHERE ${where}`);
  return row ?? {};
}

/** A hash of every column of every row of a date. */
async function fingerprint(date: string): Promise<unknown> {
  return (await one('toString(sum(cityHash64(*))) AS hash, count() AS trades', `date = '${date}'`))['hash'];
}

describe('determinism', () => {
  test('the same seed and date give the same trades, whatever other dates there are', async () => {
    const first = await fingerprint('2026-11-19');
    await fill(['2026-11-19'], SEED);
    expect(await fingerprint('2026-11-19')).toBe(first);
    await fill(['2026-11-19'], SEED + 1);
    expect(await fingerprint('2026-11-19')).not.toBe(first);
    await fill(DATES, SEED);
    expect(await fingerprint('2026-11-19')).toBe(first);
  });
});

describe('sessions', () => {
  test('have different numbers of trades if none is given, about 100,000', () => {
    const rowsOf = (date: string, seed = SEED) => planRows(date, seed, undefined).rows;
    const counts = Array.from({ length: 28 }, (_, day) => rowsOf(`2026-10-${String(day + 1).padStart(2, '0')}`));
    expect(new Set(counts).size).toBe(counts.length);
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(85_000);
    expect(Math.max(...counts)).toBeLessThanOrEqual(115_000);
    expect(rowsOf('2026-11-20')).toBe(rowsOf('2026-11-20'));
    expect(rowsOf('2026-11-20')).not.toBe(rowsOf('2026-11-20', SEED + 1));
  });

  test('that close early have their share of the hours, unless a number was asked for', async () => {
    const counts = async (generateRows?: number) => {
      const options = { asOf: '2026-11-27T23:00:00Z', generateSessions: 2, generateRows, concurrency: 1 };
      const service = await startTestService(options);
      const { body } = await service.ask('SELECT date, count() AS n FROM RawOptionTrades GROUP BY date ORDER BY date');
      await service.stop();
      return (body.data as { n: number }[]).map(({ n }) => n);
    };
    expect(await counts(700)).toEqual([700, 700]);
    const [whole = 0, half = 0] = await counts();
    // 3:45 of 6:45 hours, each up to 15 % more or fewer.
    expect(half / whole).toBeGreaterThan((0.556 * 0.85) / 1.15);
    expect(half / whole).toBeLessThan((0.556 * 1.15) / 0.85);
    const seeds = Array.from({ length: 2_000 }, (_, seed) => planRows('2026-11-27', seed, undefined).rows);
    expect(seeds.reduce((sum, rows) => sum + rows, 0) / 2_000 / 100_000).toBeCloseTo(0.556, 2);
  });

  test('are the last ones closed at the time, without weekends and holidays', () => {
    const evening = Date.parse('2026-11-30T22:00:00Z');
    expect(listClosedSessions(evening, 4)).toEqual(['2026-11-24', '2026-11-25', '2026-11-27', '2026-11-30']);
    // For a quarter of an hour after the close its last rows are hidden.
    for (const early of ['2026-11-30T21:14:59Z', '2026-11-30T21:29:59Z']) {
      expect(listClosedSessions(Date.parse(early), 1)).toEqual(['2026-11-27']);
    }
    expect(listClosedSessions(Date.parse('2026-11-30T21:30:00Z'), 1)).toEqual(['2026-11-30']);
    expect(listClosedSessions(evening, 0)).toEqual([]);
  });
});

describe('identities', () => {
  test.each([
    ['ids are unique', 'uniqExact(id) = count()'],
    ['the trades are as many as asked for', `count() = ${ROWS * DATES.length}`],
    ['premium is price x size x 100', 'max(abs(premium - price * size * 100)) < 0.005'],
    ['an option symbol follows the OCC', "countIf(NOT match(option_symbol, '^[A-Z]{1,6}[0-9]{6}[CP][0-9]{8}$')) = 0"],
    [
      'an option symbol says expiration, kind and strike',
      "countIf(NOT endsWith(option_symbol, concat(substring(replaceAll(expiration_date, '-', ''), 3), substring(put_call, 1, 1), leftPad(toString(toUInt32(round(strike * 1000))), 8, '0')))) = 0",
    ],
    ['prices are positive whole cents', 'countIf(price <= 0 OR abs(price * 100 - round(price * 100)) > 0.001) = 0'],
    ['bid is below ask', 'countIf(bid >= ask OR bid < 0) = 0'],
    [
      'side says where the price is against the quotes',
      "countIf(NOT multiIf(side = 'AASK', price > ask, side = 'ASK', price = ask, side = 'BID', price = bid, side = 'BBID', price < bid, price > bid AND price < ask)) = 0",
    ],
    [
      'sentiment follows side and kind',
      "countIf(sentiment != multiIf(side = 'MID', 'NEUTRAL', (side IN ('ASK', 'AASK')) = (put_call = 'CALL'), 'BULLISH', 'BEARISH')) = 0",
    ],
    [
      'dei and dex follow delta',
      'max(abs(dei - delta * size * 100)) < 0.01 AND max(abs(dex - dei * underlying_price)) < 50',
    ],
    [
      'delta has its sign and range',
      "countIf(if(put_call = 'CALL', delta < 0 OR delta > 1, delta > 0 OR delta < -1)) = 0",
    ],
    [
      'gamma and vega are not negative',
      'countIf(gamma < 0 OR vega < 0 OR NOT isFinite(gamma + vega + theta + rho)) = 0',
    ],
    ['funds and indices have no capitalisation', "countIf((underlying_type = 'STOCK') = (market_cap = '')) = 0"],
    ['earnings are to come', "countIf(earning_date != '' AND earning_date < date) = 0"],
    ['expirations are to come', 'countIf(expiration_date < date) = 0'],
    [
      'days to expiration count days',
      "countIf(expiry_days != dateDiff('day', toDate(date), toDate(expiration_date))) = 0",
    ],
    [
      'a record is created in the second of its trade',
      "countIf(intDiv(toUInt64(updated_timestamp), 1000) != toUnixTimestamp(time, 'America/New_York')) = 0",
    ],
    [
      'moneyness follows strike and spot',
      "countIf(moneyness = 'ITM' AND (put_call = 'CALL') != (underlying_price > strike)) = 0",
    ],
    [
      'only funds and indices trade after 16:00',
      "countIf(substring(time, 12) >= '16:00:00' AND underlying_type = 'STOCK') = 0",
    ],
    ['some do trade after 16:00', "countIf(substring(time, 12) >= '16:00:00') > 0"],
    [
      'nothing trades outside of the session',
      "min(substring(time, 12)) >= '09:30:00' AND max(substring(time, 12)) < '16:15:00'",
    ],
    ['there are about forty underlyings', 'uniqExact(symbol) = 40'],
    ['each trade is one trade', 'min(trade_count) = 1 AND max(trade_count) = 1'],
    ['strikes are listed ones', 'countIf(strike * 2 != round(strike * 2) OR strike <= 0) = 0'],
    ['five symbols carry about half of the trades', FIVE_HAVE_HALF],
    ['sizes have a heavy tail with some blocks', 'median(size) = 1 AND quantile(0.99)(size) > 15 AND max(size) >= 500'],
    ['calls and puts are both common', "countIf(put_call = 'CALL') / count() BETWEEN 0.45 AND 0.65"],
    ['trades are mostly at the quotes', "countIf(side = 'MID') / count() BETWEEN 0.2 AND 0.4"],
    [
      'dailies expire on the day in the large funds',
      "countIf(expiry_days = 0 AND symbol = 'SPY') / countIf(symbol = 'SPY') > 0.3",
    ],
    ['in no others', "countIf(expiry_days = 0 AND symbol NOT IN ('SPY', 'SPX', 'QQQ')) = 0"],
  ])('%s', async (_title, condition) => {
    expect(await one(`${condition} AS holds`)).toEqual({ holds: 1 });
  });

  test('open interest of a contract is constant over a day', async () => {
    const [row] = await engine.rows<{ n: number }>(
      `SELECT count() AS n FROM (SELECT uniqExact(oi) AS k FROM ${TABLE} GROUP BY date, option_symbol HAVING k > 1)`,
    );
    expect(row?.n).toBe(0);
  });

  test('most open interest is at monthly expirations and round strikes, and changes little from day to day', async () => {
    const ofSeries = `(SELECT any(symbol) AS symbol, any(strike) AS strike, any(expiration_date) AS expiration, any(oi) AS oi FROM ${TABLE} GROUP BY date, option_symbol)`;
    const [row] = await engine.rows<{ monthly: number; round: number; largest: number }>(
      `SELECT sumIf(oi, toDayOfWeek(toDate(expiration)) = 5 AND toDayOfMonth(toDate(expiration)) BETWEEN 15 AND 21) / sum(oi) AS monthly,
         sumIf(oi, strike % 25 = 0) / sum(oi) AS round, max(oi) / sum(oi) AS largest FROM ${ofSeries} WHERE symbol = 'SPY'`,
    );
    expect(row?.monthly).toBeGreaterThan(0.5);
    expect(row?.round).toBeGreaterThan(0.5);
    expect(row?.largest).toBeLessThan(0.2);
    const [change] = await engine.rows<{ most: number }>(
      `SELECT max(greatest(a, b) / greatest(1, least(a, b))) AS most FROM (SELECT anyIf(oi, date = '${DATES[0]}') AS a, anyIf(oi, date = '${DATES[1]}') AS b FROM ${TABLE} GROUP BY option_symbol HAVING uniqExact(date) = 2 AND least(a, b) > 100)`,
    );
    expect(change?.most).toBeLessThan(1.3);
  });

  test('daily volume adds up per contract in the order of time', async () => {
    const [row] = await engine.rows<{ n: number }>(
      `SELECT count() AS n FROM (SELECT daily_volume - sum(size) OVER (PARTITION BY date, option_symbol ORDER BY time, id
       ROWS UNBOUNDED PRECEDING) AS gap FROM ${TABLE}) WHERE gap != 0`,
    );
    expect(row?.n).toBe(0);
  });
});

describe('a session with its other records', () => {
  const date = '2026-11-19';
  const others = 3_000;
  const isOther = `toUInt64(substring(id, 9)) >= ${ROWS}`;
  beforeAll(() => fill([date], SEED, ROWS, others));
  afterAll(() => fill(DATES, SEED));

  test('has the trades of regular trading that it has without them', async () => {
    const regular = `toString(sum(cityHash64(* EXCEPT (daily_volume)))) AS hash, count() AS trades`;
    const found = await one(regular, `NOT ${isOther}`);
    expect(found['trades']).toBe(ROWS);
    await fill([date], SEED);
    expect(await one(regular)).toEqual(found);
    await fill([date], SEED, ROWS, others);
    expect(planRows(date, SEED, ROWS)).toEqual({ rows: ROWS, others: 0 });
    expect(planRows(date, SEED, undefined).others).toBe(Math.round(planRows(date, SEED, undefined).rows / 20));
  });

  test('trades in every segment, each with its symbols', async () => {
    const clock = 'substring(time, 12)';
    const rows = await engine.rows<{ segment: string; symbols: string[]; trades: number; late: string }>(
      `SELECT multiIf(time < '${date}', 'evening', ${clock} < '07:30:00', 'night', ${clock} < '09:25:00', 'morning', ${clock} < '09:30:00', 'pause', ${clock} < '16:00:00', 'regular', ${clock} < '16:15:00', 'late', 'curb') AS segment,
         arraySort(groupUniqArray(symbol)) AS symbols, count() AS trades, max(time) AS late
       FROM ${TABLE} WHERE ${isOther} GROUP BY segment`,
    );
    const of = new Map(rows.map((row) => [row.segment, row]));
    const indices = ['RUT', 'SPX', 'VIX'];
    for (const segment of ['evening', 'night', 'curb']) expect(of.get(segment)?.symbols, segment).toEqual(indices);
    expect(of.get('morning')?.symbols).toEqual(expect.arrayContaining(['NVDA', 'SPX']));
    expect(of.get('late')?.symbols).toEqual(expect.arrayContaining(['NVDA']));
    expect(of.get('pause')).toBeUndefined();
    expect(of.get('curb')?.late).toMatch(/ 16:5\d:/);
    expect(await one(`min(time) >= '2026-11-18 20:15:00' AS holds`, isOther)).toEqual({ holds: 1 });
  });

  test('has cancels of its prints, late reports, and an adjusted series', async () => {
    const { cancels, fitting, reports, adjusted } = await one(
      `countIf(option_activity_type = 'CANC') AS cancels, countIf(option_activity_type = 'LATE') AS reports,
       countIf(option_activity_type = 'CANC' AND (option_symbol, price, size) IN (SELECT option_symbol, price, size FROM ${TABLE} WHERE NOT ${isOther})) AS fitting,
       countIf(match(option_symbol, '^SMCI1[0-9]{6}[CP]')) AS adjusted`,
    );
    for (const count of [cancels, reports, adjusted]) expect(count).toBeGreaterThan(50);
    expect(fitting).toBe(cancels);
  });

  test('has no early segment before the exchanges had one, and no curb on a half day', async () => {
    await fill(['2026-07-10', '2026-11-27'], SEED, 20_000, 1_000);
    const { early, curb } = await one(
      `countIf(date = '2026-07-10' AND underlying_type = 'STOCK' AND substring(time, 12) < '09:30:00') AS early,
       countIf(substring(time, 12) >= '13:15:00' AND time >= '2026-11-27') AS curb`,
    );
    expect([early, curb]).toEqual([0, 0]);
    await fill([date], SEED, ROWS, others);
  });
});

describe('a large session', () => {
  const LARGE = 1_000_000;
  beforeAll(() => fill(['2026-11-19'], SEED, LARGE));
  afterAll(() => fill(DATES, SEED));

  test('is spread over hundreds of names more, each of which trades often enough to have a chain', async () => {
    const [row] = await engine.rows<{ symbols: number; fewest: number; typical: number; named: number }>(
      `SELECT count() AS symbols, min(trades) AS fewest, median(trades) AS typical, countIf(symbol IN ('LLY', 'XOM', 'F')) AS named
       FROM (SELECT symbol, count() AS trades FROM ${TABLE} GROUP BY symbol)`,
    );
    expect(row?.symbols).toBe(360);
    expect(row?.named).toBe(3);
    expect(row?.fewest).toBeGreaterThan(100);
    expect(row?.typical).toBeLessThan(600);
  });

  test('leaves the five largest symbols their half', async () => {
    expect(await one(`${FIVE_HAVE_HALF} AS holds`)).toEqual({ holds: 1 });
  });

  test('has as many trades as asked for, with option symbols of the OCC and listed strikes', async () => {
    expect(
      await one(
        `count() AS trades, uniqExact(id) AS ids, countIf(strike * 2 != round(strike * 2)) AS odd,
         countIf(NOT match(option_symbol, '^[A-Z]{1,6}[0-9]{6}[CP][0-9]{8}$')) AS wrong`,
      ),
    ).toEqual({ trades: LARGE, ids: LARGE, odd: 0, wrong: 0 });
  });
});

describe('the market', () => {
  test('has no name twice, and a slot for each', () => {
    const { underlyings, slots, further } = listMarket(100_000_000);
    expect(further).toBe(3_000);
    expect(underlyings).toHaveLength(3_040);
    expect(new Set(underlyings.map(({ symbol }) => symbol)).size).toBe(3_040);
    expect(slots).toHaveLength(1_000);
    expect(new Set(slots).size).toBe(41);
  });

  test('is the named one alone for a small session, as it always was', () => {
    expect(listMarket(200_000)).toMatchObject({ further: 0 });
    expect(listMarket(200_000).underlyings).toHaveLength(40);
    expect(new Set(listMarket(1).slots).size).toBe(40);
  });
});

describe('shape', () => {
  test('the day is U-shaped, its opening several times the mean', async () => {
    const inHours = (from: string, to: string) =>
      `countIf(substring(time, 12) >= '${from}' AND substring(time, 12) < '${to}')`;
    const { opening, noon, closing, mean } = await one(
      `${inHours('09:30:00', '09:40:00')} / 10 AS opening, ${inHours('12:00:00', '13:00:00')} / 60 AS noon,
       ${inHours('15:50:00', '16:00:00')} / 10 AS closing, count() / 405 AS mean`,
    );
    expect(Number(opening) / Number(mean)).toBeGreaterThan(3);
    expect(Number(closing) / Number(mean)).toBeGreaterThan(1.5);
    expect(Number(noon) / Number(mean)).toBeLessThan(0.8);
  });

  test('a session opens where the one before closed, and the fund follows its index', async () => {
    const rows = await engine.rows<{ symbol: string; jump: number }>(
      `SELECT symbol, abs(argMinIf(underlying_price, (time, id), date = '2026-11-19') / argMaxIf(underlying_price, (time, id), date = '2026-11-18') - 1) AS jump
       FROM ${TABLE} WHERE symbol IN ('SPY', 'SPX', 'QQQ', 'NVDA') GROUP BY symbol`,
    );
    for (const { symbol, jump } of rows) expect(jump, symbol).toBeLessThan(0.01);
    const { ratio } = await one(
      "avgIf(underlying_price, symbol = 'SPX') / avgIf(underlying_price, symbol = 'SPY') AS ratio",
    );
    expect(ratio).toBeCloseTo(6700 / 668, 1);
  });
});
