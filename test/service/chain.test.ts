/**
 * The option chain endpoint, called without HTTP: every parameter, status and shape; which snapshot is answered when;
 * and each row against plain loops over the trades. Loading chains from files is in `chain-file.test.ts`.
 */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { chainSuccessSchema } from '../../src/api-contract/chain.ts';
import { EngineFault, PoolBusyFault } from '../../src/engine/engine-fault.ts';
import { queryTimeout } from '../../src/service/http/api-failure.ts';
import type { Route } from '../../src/service/http/route.ts';
import { SERVICE_DEFAULTS } from '../../src/service/options.ts';
import { createChain } from '../../src/service/snapshot/chain.ts';
import { createTrade } from '../report/drop-file.ts';
import { ask, type RouteReply } from './call-route.ts';
import { type Bench, generate, KEY, listLatest, openBench } from './snapshot-bench.ts';

const DATE = '2026-11-19';
const EVENING = '2026-11-19T23:15:00Z';
const HALF_DAY = '2026-11-27';
/** A date with a few trades made by hand: a print after the close, and one before the opening. */
const ODD_DATE = '2026-11-20';

/** Columns of the trades that a contract has as they are. */
const AS_TRADED = [
  'symbol',
  'option_symbol',
  'expiration_date',
  'put_call',
  'strike',
  'bid',
  'bid_size',
  'ask',
  'ask_size',
];
const COMPUTED = ['iv', 'delta', 'gamma', 'theta', 'vega', 'rho'];

let bench: Bench;
let endpoint: Route;

beforeAll(async () => {
  bench = await openBench();
  await generate(bench, ['2026-11-18', DATE, HALF_DAY], 8_000);
  const odd = [
    { id: '1', time: '08:00:00' },
    { id: '3', time: '11:00:00', price: 3 },
    { id: '2', time: '11:00:00', price: 2, underlying_price: 50 },
    { id: '4', time: '16:40:05', price: 4 },
  ];
  const common = { date: ODD_DATE, symbol: 'ODD', underlying_price: 0 };
  await bench.insert(odd.map((one) => createTrade({ ...common, ...one, time: `${ODD_DATE} ${one.time}` })));
  bench.setNow(EVENING);
  endpoint = openChain();
});
afterEach(() => {
  bench.setNow(EVENING);
  bench.setTrouble(undefined);
});
afterAll(() => bench.close());

function openChain(earliest?: string): Route {
  return createChain(bench.gate, bench.createReader(earliest), SERVICE_DEFAULTS.chainLimit);
}

function post(body: object): Promise<RouteReply> {
  return ask(endpoint, { body: { api_key: KEY, symbol: 'SPY', ...body } });
}

describe('a chain', () => {
  test("is each contract's latest state of the session, as plain loops find it", async () => {
    const { status, body } = await post({});
    expect(status).toBe(200);
    // JSON has no negative zero, and the engine's rows do.
    const number = (value: string | number | null | undefined) => (value === 0 ? 0 : value);
    const trades = await bench.readTrades('SPY', DATE);
    const latest = listLatest(trades);
    expect(latest.length).toBeGreaterThan(100);
    expect(body.data).toHaveLength(latest.length);
    for (const trade of latest) {
      const row = body.data.find(
        (candidate: { option_symbol: string }) => candidate.option_symbol === trade.option_symbol,
      );
      expect(row).toEqual({
        ...Object.fromEntries(AS_TRADED.map((name) => [name, trade[name]])),
        ...Object.fromEntries(COMPUTED.map((name) => [name, number(trade[name])])),
        last: trade.price,
        last_time: trade.time,
        volume: trade.volume,
        open_interest: trade.oi,
      });
    }
    expect(body.meta).toEqual({
      symbol: 'SPY',
      date: DATE,
      as_of: '2026-11-19T21:15:00.000Z',
      session: 'CLOSED',
      next_refresh: null,
      spot: trades.at(-1)?.underlying_price,
      contracts: latest.length,
      total_contracts: latest.length,
      source: 'trades',
    });
  });

  test('has the documented shape, rows by expiration, strike, call before put', async () => {
    const { body } = await post({});
    const { data } = chainSuccessSchema.parse(body);
    const keys = data.map((row) => [row.expiration_date, String(row.strike).padStart(9, '0'), row.put_call].join(' '));
    expect(keys).toEqual(keys.toSorted());
    expect(Object.keys(body)).toEqual(['data', 'meta']);
  });

  test('takes the price and the spot of the record with the highest id of the latest second, above 0', async () => {
    bench.setNow('2026-11-20T20:00:00Z');
    const { body } = await post({ symbol: 'odd' });
    expect(body.data).toHaveLength(1);
    expect(body.data[0]).toMatchObject({ symbol: 'ODD', last: 3, last_time: `${ODD_DATE} 11:00:00` });
    expect(body.meta.spot).toBe(50);
  });
});

describe('a snapshot', () => {
  test('is of the last multiple of 90 seconds since the opening', async () => {
    bench.setNow('2026-11-19T16:00:59Z');
    const { body } = await post({});
    // 11:00:59 in New York is 5,459 seconds after the opening: 60 times 90, and 59.
    expect(body.meta).toMatchObject({
      as_of: '2026-11-19T16:00:00.000Z',
      session: 'OPEN',
      next_refresh: '2026-11-19T16:01:30.000Z',
    });
    const latest = listLatest(await bench.readTrades('SPY', DATE, `${DATE} 11:00:00`));
    expect(body.data).toHaveLength(latest.length);
    const volume = latest.reduce((sum, trade) => sum + trade.volume, 0);
    expect(body.data.reduce((sum: number, row: { volume: number }) => sum + row.volume, 0)).toBe(volume);
    bench.setNow('2026-11-19T16:01:30Z');
    expect((await post({})).body.meta.as_of).toBe('2026-11-19T16:01:30.000Z');
  });

  test('is computed once until the next, and once for calls that come together', async () => {
    bench.setNow('2026-11-19T17:00:10Z');
    await post({ symbol: 'QQQ' });
    const before = bench.tasks();
    bench.setNow('2026-11-19T17:01:20Z');
    await post({ symbol: 'QQQ', put_call: 'CALL' });
    expect(bench.tasks()).toBe(before);
    bench.setNow('2026-11-19T17:01:40Z');
    await Promise.all([post({ symbol: 'QQQ' }), post({ symbol: 'QQQ' }), post({ symbol: 'QQQ', put_call: 'PUT' })]);
    // One reads which sessions there are, the other the snapshot.
    expect(bench.tasks()).toBe(before + 2);
  });

  test('of the session before is active until the first of the day', async () => {
    bench.setNow('2026-11-19T14:31:29Z');
    const before = await post({});
    expect(before.body.meta).toMatchObject({
      date: '2026-11-18',
      as_of: '2026-11-18T21:15:00.000Z',
      session: 'CLOSED',
    });
    expect((await post({ date: DATE })).body.errorCode).toBe('SNAPSHOT_NOT_FOUND');
    bench.setNow('2026-11-19T14:31:30Z');
    expect((await post({})).body.meta).toMatchObject({
      date: DATE,
      as_of: '2026-11-19T14:31:30.000Z',
      session: 'OPEN',
    });
  });

  test('is final at the close, at 13:15 on a half day', async () => {
    bench.setNow('2026-11-27T18:14:59Z');
    expect((await post({})).body.meta).toMatchObject({ date: HALF_DAY, session: 'OPEN' });
    bench.setNow('2026-11-27T18:15:00Z');
    expect((await post({})).body.meta).toMatchObject({
      date: HALF_DAY,
      as_of: '2026-11-27T18:15:00.000Z',
      session: 'CLOSED',
      next_refresh: null,
    });
  });

  test('waits for prints after the close, and counts those before the opening', async () => {
    bench.setNow('2026-11-20T21:39:00Z');
    const { body } = await post({ symbol: 'ODD' });
    expect(body.meta).toMatchObject({ session: 'OPEN', next_refresh: '2026-11-20T21:40:05.000Z' });
    bench.setNow('2026-11-21T15:00:00Z');
    const final = await post({ symbol: 'ODD' });
    expect(final.body.meta).toMatchObject({ date: ODD_DATE, as_of: '2026-11-20T21:40:05.000Z', session: 'CLOSED' });
    expect(final.body.data[0]).toMatchObject({ last: 4 });
    bench.setNow('2026-11-20T14:40:00Z');
    expect((await post({ symbol: 'ODD' })).body.data[0]).toMatchObject({ last_time: `${ODD_DATE} 08:00:00` });
  });

  test('of a past date is the same whatever the time', async () => {
    const evening = await post({ date: '2026-11-18' });
    bench.setNow('2026-12-01T15:00:00Z');
    expect((await post({ date: '2026-11-18' })).text).toBe(evening.text);
  });
});

describe('filters', () => {
  interface Row {
    readonly expiration_date: string;
    readonly put_call: string;
    readonly strike: number;
  }
  const choose = async (filter: object) => (await post(filter)).body.data as Row[];

  test('choose by expiration, side and strike, alone and together', async () => {
    const all = await choose({});
    const [middle] = all.slice(Math.floor(all.length / 2));
    if (!middle) throw new RangeError('an empty chain');
    const { expiration_date, strike } = middle;
    const cases: readonly (readonly [object, (row: Row) => boolean])[] = [
      [{ expiration_date }, (row) => row.expiration_date === expiration_date],
      [{ put_call: 'PUT' }, (row) => row.put_call === 'PUT'],
      [{ put_call: 'call' }, (row) => row.put_call === 'CALL'],
      [{ strike }, (row) => row.strike === strike],
      [{ strike_min: strike }, (row) => row.strike >= strike],
      [{ strike_max: strike }, (row) => row.strike <= strike],
      [{ strike_min: strike, strike_max: strike }, (row) => row.strike === strike],
      [
        { expiration_date, put_call: 'CALL', strike_min: strike - 20, strike_max: strike + 20 },
        (row) =>
          row.expiration_date === expiration_date && row.put_call === 'CALL' && Math.abs(row.strike - strike) <= 20,
      ],
    ];
    for (const [filter, accepts] of cases) {
      const expected = all.filter(accepts);
      expect(expected.length, JSON.stringify(filter)).toBeGreaterThan(0);
      expect(await choose(filter), JSON.stringify(filter)).toEqual(expected);
    }
  });

  test('come as text from forms; members left empty are left out', async () => {
    const { spot } = (await post({})).body.meta;
    const [strike_min, strike_max] = [Math.floor(spot) - 10.5, Math.ceil(spot) + 10];
    const typed = await choose({ strike_min, strike_max, put_call: 'PUT' });
    expect(typed.length).toBeGreaterThan(0);
    expect(
      await choose({
        strike_min: `${strike_min}`,
        strike_max: ` ${strike_max} `,
        put_call: 'PUT',
        date: '',
        strike: '',
      }),
    ).toEqual(typed);
  });
});

describe('a request', () => {
  test.each([
    ['with an empty symbol', { symbol: '' }],
    ['with a symbol of other characters', { symbol: "SPY'" }],
    ['with a symbol too long', { symbol: 'ABCDEFGHIJKLM' }],
    ['with a strike below 0', { strike: -1 }],
    ['with a bound that is not finite', { strike_max: '1e999' }],
    ['with bounds that cross', { strike_min: 700, strike_max: 600 }],
    ['with bounds that cross as text', { strike_min: '700', strike_max: '600' }],
  ])('%s is 400 INVALID_REQUEST', async (_name, change) => {
    const { status, body } = await post(change);
    expect([status, body.status, body.errorCode]).toEqual([400, 'ERROR', 'INVALID_REQUEST']);
    expect(Object.keys(body)).toEqual(['status', 'errorCode', 'errorMsg']);
  });

  test.each([[undefined], ['text'], [[]], [null]])('whose body is %j is 400', async (body) => {
    expect((await ask(endpoint, { body })).status).toBe(400);
  });
});

describe('what is not there', () => {
  test.each(['2026-11-17', '2026-11-15', '2026-11-21', '2030-01-01', HALF_DAY])(
    '%s has no snapshot: 404',
    async (date) => {
      const { status, body } = await post({ date });
      expect([status, body.errorCode]).toEqual([404, 'SNAPSHOT_NOT_FOUND']);
    },
  );

  test('a date before the earliest has no snapshot', async () => {
    const late = openChain(DATE);
    const body = { api_key: KEY, symbol: 'SPY' };
    expect((await ask(late, { body })).status).toBe(200);
    expect((await ask(late, { body: { ...body, date: '2026-11-18' } })).body.errorCode).toBe('SNAPSHOT_NOT_FOUND');
  });

  test('nothing has a snapshot before the first session', async () => {
    bench.setNow('2026-11-18T14:00:00Z');
    expect((await post({})).body.errorCode).toBe('SNAPSHOT_NOT_FOUND');
  });
});

describe('what cannot be answered', () => {
  test.each([
    ['an engine that dies', new EngineFault(0, 'gone'), 500, 'INTERNAL_ERROR'],
    ['a queue that is full', new PoolBusyFault(64), 429, 'RATE_LIMITED'],
    ['a statement that is refused', new EngineFault(47, 'unknown identifier'), 500, 'INTERNAL_ERROR'],
    ['a statement that takes too long', new EngineFault(159, 'time'), 504, 'QUERY_TIMEOUT'],
    ['a call that takes too long', queryTimeout(), 504, 'QUERY_TIMEOUT'],
    ['a signal of a timer', new DOMException('late', 'TimeoutError'), 504, 'QUERY_TIMEOUT'],
  ])('%s is told', async (_name, trouble, status, code) => {
    const fresh = openChain();
    bench.setTrouble(trouble as Error);
    const reply = await ask(fresh, { body: { api_key: KEY, symbol: 'SPY' } });
    expect([reply.status, reply.body.errorCode]).toEqual([status, code]);
    expect(reply.text).not.toContain('gone');
    bench.setTrouble(undefined);
    expect((await ask(fresh, { body: { api_key: KEY, symbol: 'SPY' } })).status).toBe(200);
  });

  test('a caller who leaves does not take the snapshot from another; when all leave it is given up', async () => {
    const fresh = openChain();
    const body = { api_key: KEY, symbol: 'SPY' };
    const callers = [new AbortController(), new AbortController()];
    bench.setTrouble('hang');
    const before = bench.aborted();
    const replies = callers.map(({ signal }) => ask(fresh, { body, signal }));
    callers[0]?.abort(queryTimeout());
    expect((await replies[0])?.status).toBe(504);
    expect(bench.aborted()).toBe(before);
    callers[1]?.abort(queryTimeout());
    expect((await replies[1])?.status).toBe(504);
    expect(bench.aborted()).toBe(before + 1);
  });
});
