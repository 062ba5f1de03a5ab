/**
 * The market-structure endpoint, called without HTTP: every status and shape, the flow and exposure against plain loops
 * over the trades, and the published figures of the real SPX chain. When snapshots are taken is in `chain.test.ts`.
 */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { marketStructureFailureSchema, marketStructureSuccessSchema } from '../../src/api-contract/market-structure.ts';
import { EngineFault, PoolBusyFault } from '../../src/engine/engine-fault.ts';
import { queryTimeout } from '../../src/service/http/api-failure.ts';
import type { Route } from '../../src/service/http/route.ts';
import { createMarketStructure } from '../../src/service/snapshot/market-structure.ts';
import { createTrade, type Trade } from '../report/drop-file.ts';
import { hasSpxPage, SPX_PAGE, SPX_REFERENCE } from '../support/chain-page.ts';
import { ask, type RouteReply } from './call-route.ts';
import { type Bench, generate, KEY, listLatest, loadChain, openBench } from './snapshot-bench.ts';

const DATE = '2026-11-19';
const EVENING = '2026-11-19T23:15:00Z';
/** A Sunday: the chain alone makes it a date with a snapshot. */
const CHAIN_DATE = SPX_REFERENCE.date;

let bench: Bench;
let endpoint: Route;

beforeAll(async () => {
  bench = await openBench();
  await generate(bench, ['2026-11-18', DATE], 8_000);
  await bench.insert([
    createTrade({ id: 'a', symbol: 'DARK', underlying_price: 0, underlying_type: '', market_cap: '0' }),
    createTrade({ id: 'b', symbol: 'LONE', put_call: 'PUT', sentiment: 'BEARISH', earning_date: '2026-12-01' }),
    createTrade({
      id: 'c',
      symbol: 'LONE',
      put_call: 'PUT',
      sentiment: 'ODD',
      time: `${DATE} 10:00:00`,
      earning_date: '',
    }),
  ]);
  if (hasSpxPage) await loadChain(bench, SPX_PAGE);
  bench.setNow(EVENING);
  endpoint = createMarketStructure(bench.gate, bench.createReader());
});
afterEach(() => {
  bench.setNow(EVENING);
  bench.setTrouble(undefined);
});
afterAll(() => bench.close());

function get(symbol: string, query: Readonly<Record<string, unknown>> = {}, from = endpoint): Promise<RouteReply> {
  return ask(from, { params: { symbol }, query, authorization: `Bearer ${KEY}` });
}

/** Within 1e-9 of the expected value, relative. */
function expectClose(value: number, expected: number, what: string): void {
  expect(Math.abs(value - expected), what).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(expected)));
}

describe('a snapshot', () => {
  test.each(['SPY', 'SPX', 'NVDA', 'VIX'])('of %s has the flow that plain loops find', async (symbol) => {
    const { status, body } = await get(symbol);
    expect(status).toBe(200);
    const trades = await bench.readTrades(symbol, DATE);
    const { flow } = body.data;
    const all = () => true;
    const cases: readonly (readonly [string, (trade: Trade) => boolean])[] = [
      ['', all],
      ['call_', (trade) => trade.put_call === 'CALL'],
      ['put_', (trade) => trade.put_call === 'PUT'],
      ['bullish_', (trade) => trade.sentiment === 'BULLISH'],
      ['bearish_', (trade) => trade.sentiment === 'BEARISH'],
      ['neutral_', (trade) => trade.sentiment === 'NEUTRAL'],
    ];
    const sum = (accepts: (trade: Trade) => boolean, value: (trade: Trade) => number) =>
      trades.filter(accepts).reduce((total, trade) => total + value(trade), 0);
    for (const [name, accepts] of cases) {
      expect(flow[`${name}trades`], `${name}trades`).toBe(trades.filter(accepts).length);
      expectClose(
        flow[`${name || 'total_'}premium`],
        sum(accepts, (trade) => trade.premium),
        `${name}premium`,
      );
      const contracts = flow[`${name}contracts`];
      if (contracts !== undefined) expect(contracts).toBe(sum(accepts, (trade) => trade.size));
    }
    const net = flow.bullish_premium - flow.bearish_premium;
    expect(flow.net_premium).toBe(net);
    expect(flow.sentiment).toBe(net > 0 ? 'BULLISH' : 'BEARISH');
    expectClose(flow.neutral_share, flow.neutral_premium / flow.total_premium, 'neutral share');
    expectClose(flow.put_call_premium_ratio, flow.put_premium / flow.call_premium, 'ratio by premium');
    expectClose(flow.put_call_volume_ratio, flow.put_contracts / flow.call_contracts, 'ratio by volume');
  });

  test.each(['SPY', 'SPX', 'NVDA', 'VIX'])('of %s has the exposure that plain loops find', async (symbol) => {
    bench.setNow('2026-11-19T17:00:00Z');
    const { body } = await get(symbol);
    const trades = await bench.readTrades(symbol, DATE, `${DATE} 12:00:00`);
    const { intraday_gex, structure } = body.data;
    const spot = trades.at(-1)?.underlying_price ?? 0;
    const strikes = new Map<number, { call: number; put: number; callOi: number; putOi: number }>();
    let [call, put] = [0, 0];
    const latest = listLatest(trades);
    for (const { put_call, strike, oi, gamma } of latest) {
      const dollars = Number(gamma) * oi * 100 * spot * spot * 0.01;
      const at = strikes.get(strike) ?? { call: 0, put: 0, callOi: 0, putOi: 0 };
      strikes.set(strike, at);
      if (put_call === 'CALL') {
        call += dollars;
        at.call += dollars;
        at.callOi += oi;
      } else {
        put -= dollars;
        at.put -= dollars;
        at.putOi += oi;
      }
    }
    expect(intraday_gex.spot).toBe(spot);
    expectClose(intraday_gex.call_gex, call, 'call');
    expectClose(intraday_gex.put_gex, put, 'put');
    expect(structure).toMatchObject({ source: 'trades', spot, contracts: latest.length });
    expectClose(structure.net_gex, call + put, 'net');
    expect(structure.gex_by_strike.map(({ strike }: { strike: number }) => strike)).toEqual(
      [...strikes.keys()].sort((a, b) => a - b),
    );
    for (const row of structure.gex_by_strike) {
      const at = strikes.get(row.strike);
      expectClose(row.call_gex, at?.call ?? Number.NaN, `calls at ${row.strike}`);
      expectClose(row.put_gex, at?.put ?? Number.NaN, `puts at ${row.strike}`);
      expectClose(row.net_gex, (at?.call ?? 0) + (at?.put ?? 0), `net at ${row.strike}`);
      expect([row.call_oi, row.put_oi]).toEqual([at?.callOi, at?.putOi]);
    }
    const walls = [...strikes].sort((a, b) => b[1].call - a[1].call);
    expect(structure.call_wall).toBe(walls[0]?.[0]);
    expect(structure.put_wall).toBe([...strikes].sort((a, b) => a[1].put - b[1].put)[0]?.[0]);
    expect(body.meta).toEqual({
      effective_date: DATE,
      structure_as_of: '2026-11-19T17:00:00.000Z',
      flow_as_of: '2026-11-19T17:00:00.000Z',
      intraday_gex_as_of: '2026-11-19T17:00:00.000Z',
    });
  });

  test('has the documented shape, for every symbol of the session', async () => {
    const symbols = await bench.engine.rows<{ symbol: string }>(
      `SELECT DISTINCT symbol FROM ${bench.tables.trades} WHERE date = '${DATE}' ORDER BY symbol`,
    );
    expect(symbols.length).toBeGreaterThan(30);
    for (const { symbol } of symbols) {
      const { body } = await get(symbol);
      const { data } = marketStructureSuccessSchema.parse(body);
      expect(data.symbol).toBe(symbol);
      expect(Object.keys(body.data)).toEqual(['symbol', 'symbol_meta', 'flow', 'intraday_gex', 'structure']);
    }
  });

  test('is encoded once, and the same for a symbol in lower case', async () => {
    const first = await get('SPY');
    const before = bench.tasks();
    expect((await get('spy')).text).toBe(first.text);
    expect(bench.tasks()).toBe(before);
  });

  test('has what the latest trades say of the underlying', async () => {
    expect((await get('NVDA')).body.data.symbol_meta).toEqual({
      underlying_type: 'STOCK',
      market_cap: expect.any(Number),
      earning_date: expect.stringMatching(/^\d{4}-\d{2}-\d{2}$/),
    });
    expect((await get('LONE')).body.data.symbol_meta).toMatchObject({
      underlying_type: 'ETF',
      earning_date: '2026-12-01',
    });
  });

  test('without a price of the underlying has no exposure, but its flow', async () => {
    const { status, body } = await get('DARK');
    expect(status).toBe(200);
    marketStructureSuccessSchema.parse(body);
    expect(body.data.intraday_gex).toBeNull();
    expect(body.meta.intraday_gex_as_of).toBeNull();
    expect(body.data.structure).toMatchObject({ net_gex: null, zero_gamma: null, call_wall: null, gex_by_strike: [] });
    expect(body.data.flow.trades).toBe(1);
    expect(body.data.symbol_meta).toEqual({ underlying_type: null, market_cap: null, earning_date: null });
  });

  test('of puts alone has no ratio to calls, and an unknown sentiment is neutral', async () => {
    const { flow, structure, intraday_gex } = (await get('LONE')).body.data;
    expect(flow).toMatchObject({ trades: 2, bearish_trades: 1, neutral_trades: 1, sentiment: 'BEARISH' });
    expect(flow).toMatchObject({ neutral_share: 0.5, put_call_premium_ratio: null, put_call_volume_ratio: null });
    expect(structure).toMatchObject({ call_wall: null, put_wall: 600, zero_gamma: null });
    expect(intraday_gex.call_gex).toBe(0);
    expect(intraday_gex.put_gex).toBeLessThan(0);
  });
});

describe.skipIf(!hasSpxPage)('the real SPX chain', () => {
  test('has its published exposure and zero gamma', async () => {
    const { status, body } = await get('SPX', { date: CHAIN_DATE });
    expect(status).toBe(200);
    const { structure, intraday_gex, flow } = marketStructureSuccessSchema.parse(body).data;
    expect(Math.abs((structure.net_gex ?? 0) - SPX_REFERENCE.netGex)).toBeLessThan(0.01e9);
    expect(Math.abs((structure.zero_gamma ?? 0) - SPX_REFERENCE.zeroGamma)).toBeLessThan(1);
    expect(structure).toMatchObject({ source: 'file', contracts: 21_038, call_wall: 4800, put_wall: 4600 });
    expect(intraday_gex).toEqual({
      spot: SPX_REFERENCE.spot,
      call_gex: structure.call_gex,
      put_gex: structure.put_gex,
    });
    expect(flow).toMatchObject({ trades: 0, total_premium: 0, sentiment: 'NEUTRAL', neutral_share: null });
    expect(body.meta).toEqual({
      effective_date: CHAIN_DATE,
      structure_as_of: '2024-01-07T15:52:00.000Z',
      flow_as_of: '2024-01-07T15:52:00.000Z',
      intraday_gex_as_of: '2024-01-07T15:52:00.000Z',
    });
  });

  test('is the active snapshot while there is nothing later, and hidden before its instant', async () => {
    bench.setNow('2024-01-07T16:00:00Z');
    expect((await get('SPX')).body.meta.effective_date).toBe(CHAIN_DATE);
    expect((await get('SPY')).body.errorCode).toBe('SNAPSHOT_NOT_FOUND');
    bench.setNow('2024-01-07T15:51:59Z');
    expect((await get('SPX')).body.errorCode).toBe('SNAPSHOT_NOT_FOUND');
    bench.setNow(EVENING);
    expect((await get('SPX')).body.meta.effective_date).toBe(DATE);
  });

  test('wins over the trades of its date, whose flow stands beside it', async () => {
    await bench.insert([
      createTrade({ id: 'x', symbol: 'SPX', date: '2024-01-07', time: '2024-01-07 10:00:00', underlying_price: 4000 }),
    ]);
    const fresh = createMarketStructure(bench.gate, bench.createReader());
    const { body } = await get('SPX', { date: CHAIN_DATE }, fresh);
    expect(body.data.structure).toMatchObject({ source: 'file', spot: SPX_REFERENCE.spot });
    expect(body.data.flow.trades).toBe(1);
    expect(body.meta).toMatchObject({
      structure_as_of: '2024-01-07T15:52:00.000Z',
      flow_as_of: '2024-01-07T21:15:00.000Z',
    });
  });
});

describe('a request', () => {
  test.each([
    ['for an empty date', { date: '' }],
    ['for two dates', { date: [DATE, DATE] }],
  ])('%s is 400 INVALID_REQUEST', async (_name, query) => {
    const { status, body } = await get('SPY', query);
    expect([status, body.status, body.errorCode]).toEqual([400, 'ERROR', 'INVALID_REQUEST']);
    marketStructureFailureSchema.parse(body);
  });

  test.each([
    [`Bearer ${KEY}`, KEY],
    [`bearer  ${KEY} `, KEY],
    [KEY, undefined],
    [`Basic ${KEY}`, undefined],
    ['Bearer', undefined],
    [undefined, undefined],
  ])('with Authorization %j enters with the key %j, whatever else it carries', async (authorization, apiKey) => {
    await ask(endpoint, { params: { symbol: 'SPY' }, authorization, session: 'c0ffee', body: { api_key: KEY } });
    expect(bench.entered.at(-1)).toMatchObject({ apiKey, product: 'market-structure' });
  });
});

describe('what cannot be had', () => {
  test.each([
    ['a symbol without trades on a date', 'NOPE', { date: '2026-11-18' }],
    ['a future date', 'SPY', { date: '2026-11-20' }],
  ])('%s is 404 SNAPSHOT_NOT_FOUND', async (_name, symbol, query) => {
    const { status, body } = await get(symbol, query);
    expect([status, body.errorCode]).toEqual([404, 'SNAPSHOT_NOT_FOUND']);
  });

  test.each([
    ['an engine that dies', new EngineFault(0, 'gone')],
    ['a queue that is full', new PoolBusyFault(64)],
    ['a statement that takes too long', new EngineFault(159, 'time')],
    ['a call that takes too long', queryTimeout()],
    ['a signal of a timer', new DOMException('late', 'TimeoutError')],
  ])('%s is 503 SNAPSHOT_UNAVAILABLE, and the next call may succeed', async (_name, trouble) => {
    const fresh = createMarketStructure(bench.gate, bench.createReader());
    bench.setTrouble(trouble);
    const { status, headers, body, text } = await get('SPY', {}, fresh);
    expect([status, body.errorCode, headers['retry-after']]).toEqual([503, 'SNAPSHOT_UNAVAILABLE', '2']);
    expect(text).not.toContain('gone');
    bench.setTrouble(undefined);
    expect((await get('SPY', {}, fresh)).status).toBe(200);
  });

  test('a fault of the service itself is 500', async () => {
    const fresh = createMarketStructure(bench.gate, bench.createReader());
    bench.setTrouble(new TypeError('a mistake'));
    expect(await get('SPY', {}, fresh)).toMatchObject({ status: 500, body: { errorCode: 'INTERNAL_ERROR' } });
  });
});
