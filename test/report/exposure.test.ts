/**
 * Gamma and delta exposure as the engine computes them from a sealed file: the published figures of the real SPX chain,
 * `src/exposure` and plain loops on random days, and what strange values, watchlists and empty days do. The comparison
 * with the market-structure drop is in `exposure-structure.test.ts`; the same arithmetic over HTTP in `service/market-structure.test.ts`.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { addDays } from '../../src/calendar/wall-clock.ts';
import { listZeroGammas, type OptionContract, sumGammaExposure } from '../../src/exposure/gamma-exposure.ts';
import type { Amount } from '../../src/report/amount.ts';
import type { Exposure, SymbolExposure } from '../../src/report/exposure-model.ts';
import type { ExposureOptions } from '../../src/report/query/exposure.ts';
import { hasSpxPage, readSpxPage, SPX_REFERENCE } from '../support/chain-page.ts';
import { createRandom } from '../support/random.ts';
import { createTrade, measureExposure, type Trade, useDrops } from './drop-file.ts';
import { known } from './known.ts';
import { groupBy, seriesOf, spotOf, stateOf } from './plain-loops.ts';

const DATE = '2026-11-19';

const drops = useDrops();

/** @param view what is counted of the file, as a FROM clause takes it */
async function expose(
  trades: readonly Row[],
  options: Partial<Omit<ExposureOptions, 'families'>> = {},
  view = (file: string) => file,
): Promise<Exposure> {
  // The file takes nulls, where the type of a plain record says numbers.
  const drop = await drops.write(trades as readonly object[] as readonly Trade[]);
  const whole = { date: DATE, focus: [], marketStructure: null, chain: null, ...options };
  return await measureExposure(drops.engine, drop.path, whole, view);
}

/** What exposure is made of in a record, and that its computed numbers may be unknown. */
type Row = Pick<
  Trade,
  | 'id'
  | 'symbol'
  | 'date'
  | 'time'
  | 'put_call'
  | 'strike'
  | 'expiration_date'
  | 'option_symbol'
  | 'oi'
  | 'underlying_price'
  | 'price'
  | 'premium'
> & { readonly gamma: number | null; readonly iv: number | null; readonly delta: number | null };

function row(changes: Partial<Row> = {}): Row {
  return { delta: 0.5, ...createTrade(), ...changes };
}

// The chain is the exchange's data and may not be in the repository: without it there is nothing to compare with.
describe.skipIf(!hasSpxPage)('the real SPX chain as trades', () => {
  let spx: SymbolExposure | null;
  let contracts: readonly OptionContract[];

  beforeAll(async () => {
    contracts = readSpxPage();
    const trades = contracts.map((contract, at) =>
      row({
        id: String(at),
        symbol: 'SPX',
        date: SPX_REFERENCE.date,
        time: `${SPX_REFERENCE.date} 10:52:00`,
        put_call: contract.putCall,
        strike: contract.strike,
        expiration_date: contract.expirationDate,
        // The page lists SPX and SPXW of one expiration: told apart by their contract symbols.
        option_symbol: `SPX-${at}`,
        underlying_price: SPX_REFERENCE.spot,
        oi: contract.openInterest,
        gamma: contract.gamma,
        iv: contract.iv,
      }),
    );
    spx = (await expose(trades, { date: SPX_REFERENCE.date, focus: ['SPX'] })).lead;
  }, 60_000);

  it('have the published exposure and zero gamma', () => {
    expect(Math.abs((spx?.callGex ?? 0) - SPX_REFERENCE.callGex)).toBeLessThan(0.00005e9);
    expect(Math.abs((spx?.putGex ?? 0) - SPX_REFERENCE.putGex)).toBeLessThan(0.00005e9);
    expect(Math.abs((spx?.netGex ?? 0) - SPX_REFERENCE.netGex)).toBeLessThan(0.0001e9);
    expect(Math.abs((spx?.zeroGamma ?? 0) - SPX_REFERENCE.zeroGamma)).toBeLessThan(0.005);
    expect(spx?.contracts).toBe(contracts.length);
  });

  it('have the walls, strikes and expirations of the exposure folder', () => {
    expectDetails(spx, SPX_REFERENCE.spot, SPX_REFERENCE.date, contracts);
    expect(spx?.callWall).toBe(4800);
    expect(spx?.putWall).toBe(4600);
    expect(spx?.strikes).toHaveLength(60);
    expect(spx?.expirations).toHaveLength(12);
  });
});

describe.each([1, 2, 3, 4])('exposure of the random day %i', (seed) => {
  const trades = drawDay(seed, 6000);
  const days = collectNaively(trades);
  const focus = ['S3', 'NONE', 'S0', 'S12', 'S3'];
  let exposure: Exposure;
  beforeAll(async () => {
    exposure = await expose(trades, { focus });
  });

  it('adds up over all symbols, shown or not', () => {
    const sums = [...days.values()].map(sumNaively);
    const scale = sums.reduce((sum, own) => sum + scaleOf(own), 0);
    expect(exposure.total.netGexAfter).not.toBe(exposure.total.netGex);
    for (const name of Object.keys(sums[0] ?? {}) as (keyof ReturnType<typeof sumNaively>)[]) {
      expectClose(
        exposure.total[name],
        sums.reduce((sum, own) => sum + own[name], 0),
        scale,
      );
    }
    expect(exposure.total.contracts).toBe([...days.values()].reduce((sum, own) => sum + own.series.length, 0));
    expect(exposure.unpricedSymbols).toBe([...days.values()].filter((own) => own.spot === 0).length);
  });

  it('in detail is that of the exposure folder on the same chain', () => {
    const premiums = [...groupBy(trades as readonly object[] as readonly Trade[], ({ symbol }) => symbol)].map(
      ([symbol, own]) => [symbol, own.reduce((sum, { premium }) => sum + premium, 0)] as const,
    );
    const [largest] = premiums.toSorted((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0] ?? [];
    const symbols = [...new Set([largest, 'S3', 'S0', 'S12'])];
    expect(exposure.focus.map(({ symbol }) => symbol)).toEqual(symbols);
    for (const symbol of exposure.focus) {
      const own = days.get(symbol.symbol);
      expectDetails(symbol, own?.spot ?? 0, DATE, own?.series ?? []);
    }
    expect(exposure.lead).toEqual(exposure.focus[0]);
  });
});

describe('the exposure of a random day', () => {
  it('has a zero gamma in some symbols and none in others', async () => {
    const focus = Array.from({ length: 20 }, (_, at) => `S${at}`);
    const zeros = (await expose(drawDay(5, 6000), { focus })).focus.map(({ zeroGamma }) => zeroGamma !== null);
    expect(new Set(zeros)).toEqual(new Set([true, false]));
  });

  it('does not depend on the order of its records', async () => {
    const trades = drawDay(6, 3000);
    const random = createRandom(66);
    const shuffled = trades.map((trade) => ({ trade, at: random() })).sort((a, b) => a.at - b.at);
    const [a, b] = [
      await expose(trades, { focus: ['S1'] }),
      await expose(
        shuffled.map(({ trade }) => trade),
        { focus: ['S1'] },
      ),
    ];
    expect(b.top.map(({ symbol }) => symbol)).toEqual(a.top.map(({ symbol }) => symbol));
    expectClose(b.total.callGex, a.total.callGex, a.total.callGex);
    expectClose(b.lead?.zeroGamma ?? 0, a.lead?.zeroGamma ?? 1, 100);
    expect(b.lead?.spot).toBe(a.lead?.spot);
  });
});

describe('the exposure of a symbol', () => {
  const SPOT = 601.5;
  const call = row({ gamma: 0.02, oi: 1000, delta: 0.5, underlying_price: SPOT });
  const put = row({
    id: '2',
    put_call: 'PUT',
    option_symbol: 'SPY261120P00600000',
    gamma: 0.01,
    delta: -0.4,
    oi: 1000,
  });
  const CALL_GEX = 0.02 * 1000 * 100 * SPOT ** 2 * 0.01;
  const PUT_GEX = -0.01 * 1000 * 100 * SPOT ** 2 * 0.01;

  it('is gamma x OI x 100 x S^2 x 0.01 and delta x OI x 100 x S, puts negative', async () => {
    const { total } = await expose([call, put]);
    expectClose(total.callGex, CALL_GEX, CALL_GEX);
    expectClose(total.putGex, PUT_GEX, CALL_GEX);
    expectClose(total.netGex, CALL_GEX + PUT_GEX, CALL_GEX);
    expectClose(total.callDex, 0.5 * 1000 * 100 * SPOT, 1e8);
    expectClose(total.putDex, -0.4 * 1000 * 100 * SPOT, 1e8);
    expectClose(total.netDex, 0.1 * 1000 * 100 * SPOT, 1e8);
    expect(total.contracts).toBe(2);
  });

  it.each<[string, Partial<Row>]>([
    ['a negative gamma', { gamma: -5, delta: 0 }],
    ['an unknown gamma', { gamma: null, delta: null }],
    ['a gamma of 0', { gamma: 0, delta: 0 }],
    ['a negative open interest', { oi: -1_000_000 }],
    ['no open interest', { oi: 0 }],
  ])('counts a series with %s as 0', async (_name, strange) => {
    const { total, lead } = await expose([call, put, row({ ...strange, id: '3', strike: 650, option_symbol: 'X' })]);
    expectClose(total.callGex, CALL_GEX, CALL_GEX);
    expectClose(total.callDex, 0.5 * 1000 * 100 * SPOT, 1e8);
    expect(total.contracts).toBe(3);
    expect(lead?.strikes.map(({ strike }) => strike)).toEqual([600]);
  });

  it.each<[string, string, Partial<Row>]>([
    ['an adjusted root', 'SPY1261120C00600000', {}],
    ['an adjusted root that is padded', 'SPY1  261120P00600000', { put_call: 'PUT' }],
    ['the premium of one share', 'SPYX261120C00610000', { premium: 12.5 }],
  ])('leaves out a contract with %s, and counts it', async (_name, symbol, strange) => {
    const odd = row({ ...call, ...strange, id: '3', option_symbol: symbol });
    const { total, lead } = await expose([call, put, odd]);
    expectClose(total.callGex, CALL_GEX, CALL_GEX);
    expectClose(total.putGex, PUT_GEX, CALL_GEX);
    expectClose(total.netDex, 0.1 * 1000 * 100 * SPOT, 1e8);
    expect([total.contracts, total.adjustedContracts, total.unknownContracts]).toEqual([3, 1, 0]);
    expect(lead?.adjustedContracts).toBe(1);
  });

  it.each([10, 25, 50, 150, 1000])('counts a contract for %d shares under a normal root as that', async (shares) => {
    const other = row({ ...call, id: '3', strike: 610, option_symbol: 'SPY261120C00610000', premium: 12.5 * shares });
    // One record with an odd premium is no sign of it.
    const odd = row({ ...call, id: '4', time: `${DATE} 15:00:00`, premium: 125_000 });
    const { total } = await expose([call, { ...call, id: '2' }, other, odd]);
    expectClose(total.callGex, CALL_GEX * (1 + shares / 100), CALL_GEX);
    expect(total.adjustedContracts).toBe(0);
  });

  it.each([
    ['a digit in the middle of its root', { option_symbol: 'SP1Y261120C00610000' }],
    ['no option symbol', { option_symbol: '' }],
    ['a premium that is rounded', { premium: 1251.4 }],
    ['a premium of nothing', { premium: 0 }],
  ])('counts a contract with %s', async (_name, changes) => {
    const { total } = await expose([call, put, row({ ...call, strike: 610, id: '3', option_symbol: 'X', ...changes })]);
    expectClose(total.callGex, 2 * CALL_GEX, CALL_GEX);
    expect(total.adjustedContracts).toBe(0);
  });

  it.each<[string, Partial<Row>]>([
    ['a put above 0', { put_call: 'PUT', delta: 0.4 }],
    ['a call below 0', { put_call: 'CALL', delta: -0.4 }],
    ['a call in per cent', { put_call: 'CALL', delta: 52 }],
    ['a put below -1', { put_call: 'PUT', delta: -1.5 }],
  ])('counts a delta of %s as 0, and its gamma still counts', async (_name, strange) => {
    const { total } = await expose([call, put, row({ ...strange, id: '3', gamma: 0.02, option_symbol: 'X' })]);
    expectClose(total.callDex, 0.5 * 1000 * 100 * SPOT, 1e8);
    expectClose(total.putDex, -0.4 * 1000 * 100 * SPOT, 1e8);
    expectClose(known(total.callGex) - known(total.putGex), 2 * CALL_GEX - PUT_GEX, CALL_GEX);
  });

  it('is not poisoned by NaN and infinity in any column', async () => {
    const strange = ['nan', 'inf', '-inf'].flatMap((value) =>
      ['gamma', 'delta', 'iv', 'strike', 'underlying_price'].map((column) => ({ value, column })),
    );
    const rows = strange.map((_, at) =>
      row({ id: `9${at}`, option_symbol: `X${at}`, time: `${DATE} 15:59:59`, underlying_price: SPOT, gamma: 0.001 }),
    );
    const replace = ['gamma', 'delta', 'iv', 'strike', 'underlying_price'].map((column) => {
      const cases = strange.flatMap(({ value, column: own }, at) =>
        own === column ? [`id = '9${at}', ${value}`] : [],
      );
      return `multiIf(${cases.join(', ')}, ${column}) AS ${column}`;
    });
    const chain = [row({ ...call, strike: 640 }), row({ ...put, strike: 560, oi: 5000 }), ...rows];
    // JSON carries none of these.
    const { total, lead } = await expose(
      chain,
      {},
      (file) => `(SELECT * REPLACE (${replace.join(', ')}) FROM ${file})`,
    );
    // Three series lose their gamma, and the others keep it.
    expectClose(total.callGex, CALL_GEX * (1 + (12 * 0.001) / 0.02), CALL_GEX);
    expect(total.contracts).toBe(2 + rows.length);
    expect(lead?.spot).toBe(SPOT);
    expect(lead?.zeroGamma).toBeGreaterThan(0);
    for (const { strike, netGex } of lead?.strikes ?? []) expect([strike, netGex].every(Number.isFinite)).toBe(true);
    expect(JSON.stringify([total, lead]).match(/null/g)).toEqual(['null']); // marketStructure
  });

  it('of a series is of its latest record whose gamma is known', async () => {
    const later = row({ ...call, id: '0', time: `${DATE} 15:00:00`, gamma: 0.04, delta: null, oi: 2000 });
    const failed = row({ ...call, id: '0', time: `${DATE} 15:30:00`, gamma: null, delta: 0.9, iv: null, oi: 7000 });
    const { total } = await expose([call, later, failed]);
    // Each open interest stands there once, so the last one counts; the delta is the last known one.
    expectClose(total.callGex, 14 * CALL_GEX, CALL_GEX);
    expectClose(total.callDex, 0.9 * 7000 * 100 * SPOT, 1e8);
    expect(total.contracts).toBe(1);
  });

  it.each<[string, Partial<Row>, Partial<Row>]>([
    ['gamma of 0', { gamma: 0 }, {}],
    ['gamma a hundred times its neighbors', { gamma: 2 }, {}],
    ['gamma of ten times its neighbors', { gamma: 0.2 }, { gamma: 0.2 }],
    ['delta of 0', { delta: 0 }, {}],
    ['open interest that stands there once', { oi: 1_000_000 }, {}],
    ['open interest of 0', { oi: 0 }, {}],
    ['price of ten times its neighbors', { underlying_price: 10 * SPOT }, {}],
    ['price of an adjusted series', { option_symbol: 'SPY1261120C00600000', underlying_price: SPOT / 1.5 }, {}],
  ])('is not decided by a last record with a %s', async (_name, odd, right) => {
    const minutes = (at: number) => ({ id: String(at), time: `${DATE} 15:5${at}:00` });
    const usual = [1, 2, 3].map((at) => row({ ...call, ...minutes(at) }));
    const { top } = await expose([...usual, row({ ...call, ...minutes(4), ...odd })]);
    const expected = (await expose([...usual, row({ ...call, ...minutes(4), ...right })])).top[0];
    const numbers = ['spot', 'callGex', 'callDex'] as const;
    for (const name of numbers) expectClose(top[0]?.[name] ?? Number.NaN, expected?.[name] ?? Number.NaN, 1e8);
  });

  it('is of early records only where there is none after the opening', async () => {
    const early = ['1', '2'].map((id) =>
      row({ ...call, id, time: `${DATE} 09:29:0${id}`, oi: 7000, underlying_price: SPOT / 1.5 }),
    );
    const later = row({ ...call, id: '3', time: `${DATE} 09:30:01` });
    const [{ top: of }, { top: ofEarly }] = [await expose([...early, later]), await expose(early)];
    expect([of[0]?.spot, ofEarly[0]?.spot]).toEqual([SPOT, SPOT / 1.5]);
    expectClose(of[0]?.callGex ?? null, CALL_GEX, CALL_GEX);
    expectClose(ofEarly[0]?.callGex ?? null, (7 / 1.5 ** 2) * CALL_GEX, CALL_GEX);
  });

  it('counts and names the records with an odd price of the underlying', async () => {
    const at = (id: number, price: number) =>
      row({ ...call, id: String(id), time: `${DATE} 1${id}:00:00`, underlying_price: price });
    const { oddPrices } = await expose([at(0, SPOT), at(1, SPOT), at(2, 1), at(3, SPOT), at(4, SPOT)]);
    expect(oddPrices).toEqual({ records: 1, symbols: ['SPY'] });
    expect((await expose([call])).oddPrices).toBeUndefined();
  });

  it('takes the greater id of one millisecond, as text', async () => {
    const both = (['9', '10'] as const).map((id) => row({ ...call, id, gamma: id === '9' ? 0.02 : 0.5 }));
    const { total } = await expose(both);
    expectClose(total.callGex, CALL_GEX, CALL_GEX);
  });

  it('counts what is neither a call nor a put as a series, and adds nothing of it', async () => {
    const { total, lead } = await expose([call, row({ id: '3', put_call: 'BOTH', option_symbol: 'X', gamma: 9 })]);
    expectClose(total.netGex, CALL_GEX, CALL_GEX);
    expect(total.contracts).toBe(2);
    expect(lead?.strikes).toHaveLength(1);
  });

  it('tells roots of one strike and expiration apart', async () => {
    const { total } = await expose([call, row({ ...call, id: '3', option_symbol: 'SPYW261120C00600000' })]);
    expectClose(total.callGex, 2 * CALL_GEX, CALL_GEX);
  });

  it('leaves expired series and those without a volatility out of zero gamma', async () => {
    const far = { ...put, strike: 560, iv: 0.2, oi: 5000 };
    const chain = [{ ...call, strike: 640, iv: 0.2 }, far];
    const extra = [
      { ...far, id: '4', option_symbol: 'A', expiration_date: '2026-11-18', gamma: 0, oi: 1_000_000 },
      { ...far, id: '5', option_symbol: 'B', iv: null, gamma: 0, oi: 1_000_000 },
      { ...far, id: '6', option_symbol: 'C', iv: 1e-320, gamma: 0, oi: 1_000_000 },
    ].map((changes) => row(changes));
    const [without, having] = [(await expose(chain.map(row))).lead, (await expose([...chain.map(row), ...extra])).lead];
    expect(without?.zeroGamma).toBeGreaterThan(560);
    expectClose(having?.zeroGamma ?? 0, without?.zeroGamma ?? 0, 600);
  });

  it.each([
    ['an index on its monthly expiration', '2026-11-20', 'SPX', 'SPX   261120C00600000', 'SPXW261120C00600000'],
    ['an index on the Thursday before a holiday', '2026-06-18', 'RUT', 'RUT260618C00600000', 'RUTW260618C00600000'],
    ['VIX on a Wednesday', '2026-11-18', 'VIX', 'VIXW261118C00600000', ''],
    ['VIX without an option symbol', '2026-11-18', 'VIX', '', ''],
    ['no index on another Friday', '2026-11-27', 'SPX', '', 'SPX261127C00600000'],
    ['no index before its expiration', '2026-11-19', 'SPX', '', 'SPX261120C00600000'],
  ])('counts a series that settled at the opening as 0: %s', async (_name, date, symbol, dead, alive) => {
    const at = (option_symbol: string) => `20${option_symbol.slice(-15, -9).replace(/(..)(..)(..)/, '$1-$2-$3')}`;
    const of = (option_symbol: string, changes: Partial<Row>) => ({
      ...row({ ...call, symbol, date, time: `${date} 10:00:00`, option_symbol, ...changes }),
      expiration_date: option_symbol === '' ? date : at(option_symbol),
    });
    const living = alive === '' ? [] : [of(alive, { id: '2' })];
    const other = of('', { id: '3', strike: 650, symbol: 'SPY' });
    const settled = dead === '' && alive !== '' ? [] : [of(dead, { oi: 1_000_000 })];
    const { top } = await expose([other, ...living, ...settled], { date });
    const found = top.find((exposure) => exposure.symbol === symbol);
    expectClose(found?.netGex ?? Number.NaN, living.length * CALL_GEX, CALL_GEX);
    expect(found?.contracts).toBe(living.length + settled.length);
  });

  it('has the walls of the lowest of equal strikes, and none without exposure', async () => {
    const strikes = [620, 610, 630].map((strike) =>
      row({ ...call, id: String(strike), strike, option_symbol: `X${strike}` }),
    );
    const { lead } = await expose(strikes);
    expect(lead?.callWall).toBe(610);
    expect(lead?.absoluteGammaStrike).toBe(610);
    expect(lead?.putWall).toBeNull();
    const flat = (await expose([row({ ...call, gamma: 0 })])).lead;
    expect([flat?.callWall, flat?.putWall, flat?.absoluteGammaStrike, flat?.zeroGamma]).toEqual([
      null,
      null,
      null,
      null,
    ]);
    expect([flat?.netGex, flat?.putGex, flat?.strikes, flat?.expirations]).toEqual([0, 0, [], []]);
  });
});

describe('the symbols of the exposure', () => {
  const named = (symbol: string, changes: Partial<Row> = {}) =>
    row({ id: symbol, symbol, option_symbol: `${symbol}261120C00600000`, ...changes });

  it('are the one with most premium, which leads, then the watchlist', async () => {
    const trades = [
      named('A', { oi: 10 }),
      named('B', { oi: 20, price: 12.5, premium: 12_500 }),
      named('C', { put_call: 'PUT', oi: 30 }),
    ];
    const exposure = await expose(trades);
    expect(exposure.top.map(({ symbol }) => symbol)).toEqual(['C', 'B', 'A']);
    expect(exposure.focus.map(({ symbol }) => symbol)).toEqual(['B']);
    const watched = await expose(trades, { focus: ['A', 'B', 'NONE'] });
    expect(watched.focus.map(({ symbol }) => symbol)).toEqual(['B', 'A']);
    for (const { lead, focus } of [exposure, watched]) expect(lead).toEqual(focus[0]);
  });

  it('of equal exposure are ordered by name, and there are ten at most', async () => {
    const symbols = Array.from({ length: 12 }, (_, at) => `E${String(at).padStart(2, '0')}`);
    const { top } = await expose([...symbols].reverse().map((symbol) => named(symbol)));
    expect(top.map(({ symbol }) => symbol)).toEqual(symbols.slice(0, 10));
  });

  it('lead with the first of them that has exposure, else with the first of the ranking', async () => {
    const trades = [
      named('BIG', { oi: 9000 }),
      named('FLAT', { gamma: 0, price: 12.5, premium: 12_500 }),
      named('DARK', { underlying_price: 0 }),
      named('OWN'),
    ];
    const own = await expose(trades, { focus: ['NONE', 'DARK', 'FLAT', 'OWN'] });
    expect(own.focus.map(({ symbol }) => symbol)).toEqual(['FLAT', 'DARK', 'OWN']);
    expect(own.lead?.symbol).toBe('OWN');
    const other = await expose(trades, { focus: ['NONE', 'DARK'] });
    expect(other.focus.map(({ symbol }) => symbol)).toEqual(['BIG', 'FLAT', 'DARK']);
    expect(other.lead?.symbol).toBe('BIG');
    expect(other.lead?.strikes).toHaveLength(1);
  });

  it('without a price have no spot and no exposure, and are counted', async () => {
    const exposure = await expose([named('DARK', { underlying_price: 0 }), named('ODD', { underlying_price: -3 })], {
      focus: ['DARK'],
    });
    expect(exposure.unpricedSymbols).toBe(2);
    expect(exposure.top).toEqual([]);
    expect(exposure.lead).toBeNull();
    expect(exposure.total).toEqual({
      callGex: 0,
      putGex: 0,
      netGex: 0,
      callDex: 0,
      putDex: 0,
      netDex: 0,
      netGexAfter: 0,
      netDexAfter: 0,
      endedContracts: 0,
      contracts: 2,
      adjustedContracts: 0,
      unknownContracts: 0,
    });
    expect(exposure.focus[0]).toEqual({
      symbol: 'DARK',
      spot: null,
      callGex: 0,
      putGex: 0,
      netGex: 0,
      callDex: 0,
      putDex: 0,
      netDex: 0,
      netGexAfter: 0,
      netDexAfter: 0,
      endedContracts: 0,
      contracts: 1,
      adjustedContracts: 0,
      unknownContracts: 0,
      isWholeChain: false,
      zeroGamma: null,
      callWall: null,
      putWall: null,
      absoluteGammaStrike: null,
      zeroGammaAfter: null,
      callWallAfter: null,
      putWallAfter: null,
      zeroGammas: [],
      pains: [],
      strikes: [],
      expirations: [],
      marketStructure: null,
    });
  });

  it('do not exist on a day without counted records', async () => {
    const exposure = await expose([named('A')], { focus: ['A'] }, (file) => `(SELECT * FROM ${file} WHERE false)`);
    expect(exposure).toEqual({ total: exposure.total, unpricedSymbols: 0, top: [], focus: [], lead: null });
    expect(exposure.total.contracts).toBe(0);
  });
});

/** The state of every series, and the price of the underlying, in plain loops. */
function collectNaively(trades: readonly Row[]) {
  // Nulls are where the type of a plain record says numbers.
  const records = trades as readonly object[] as readonly Trade[];
  return new Map(
    [...groupBy(records, ({ symbol }) => symbol)].map(([symbol, own]) => {
      const series = [...groupBy(own, seriesOf).values()].map((shown): OptionContract & { delta: number | null } => ({
        putCall: shown[0]?.put_call as 'CALL' | 'PUT',
        strike: shown[0]?.strike ?? Number.NaN,
        expirationDate: shown[0]?.expiration_date ?? '',
        ...stateOf(shown),
      }));
      return [symbol, { spot: spotOf(own), series }];
    }),
  );
}

function sumNaively(
  own:
    | { readonly spot: number; readonly series: readonly (OptionContract & { readonly delta: number | null })[] }
    | undefined,
) {
  const sums = { callGex: 0, putGex: 0, callDex: 0, putDex: 0, netGexAfter: 0, netDexAfter: 0 };
  const spot = own?.spot ?? 0;
  for (const { putCall, gamma, delta, openInterest, expirationDate } of own?.series ?? []) {
    const gex = (gamma ?? 0) * openInterest * 100 * spot * spot * 0.01;
    const dex = (delta ?? 0) * openInterest * 100 * spot;
    if (expirationDate > DATE) {
      sums.netGexAfter += putCall === 'CALL' ? gex : -gex;
      sums.netDexAfter += dex;
    }
    if (putCall === 'CALL') {
      sums.callGex += gex;
      sums.callDex += dex;
    } else {
      sums.putGex -= gex;
      sums.putDex += dex;
    }
  }
  return { ...sums, netGex: sums.callGex + sums.putGex, netDex: sums.callDex + sums.putDex };
}

function scaleOf({ callGex, putGex, callDex, putDex }: ReturnType<typeof sumNaively>): number {
  return callGex - putGex + callDex - putDex;
}

/** Against the arithmetic that the service uses, to 1e-9 of the whole exposure. */
function expectDetails(
  actual: SymbolExposure | null | undefined,
  spot: number,
  date: string,
  chain: readonly OptionContract[],
) {
  const expected = sumGammaExposure(spot, chain);
  const scale = expected.call_gex - expected.put_gex;
  expectClose(actual?.callGex ?? Number.NaN, expected.call_gex, scale);
  expectClose(actual?.putGex ?? Number.NaN, expected.put_gex, scale);
  expect(actual?.callWall).toBe(expected.call_wall);
  expect(actual?.putWall).toBe(expected.put_wall);
  const exposed = expected.gex_by_strike.filter((sums) => sums.call_gex > 0 || sums.put_gex < 0);
  const sizes = exposed.map(({ strike, call_gex, put_gex }) => ({ strike, size: call_gex - put_gex }));
  expect(actual?.absoluteGammaStrike).toBe(
    sizes.sort((a, b) => b.size - a.size || a.strike - b.strike)[0]?.strike ?? null,
  );
  const near = [...exposed]
    .sort((a, b) => Math.abs(a.strike - spot) - Math.abs(b.strike - spot) || a.strike - b.strike)
    .slice(0, 60)
    .sort((a, b) => a.strike - b.strike);
  expect(actual?.strikes.map(({ strike }) => strike)).toEqual(near.map(({ strike }) => strike));
  for (const [at, { call_gex, put_gex, net_gex }] of near.entries()) {
    expectClose(actual?.strikes[at]?.callGex ?? Number.NaN, call_gex, scale);
    expectClose(actual?.strikes[at]?.putGex ?? Number.NaN, put_gex, scale);
    expectClose(actual?.strikes[at]?.netGex ?? Number.NaN, net_gex, scale);
  }
  const dated = expected.gex_by_expiration.filter((sums) => sums.call_gex > 0 || sums.put_gex < 0);
  expect(actual?.expirations.map(({ expirationDate }) => expirationDate)).toEqual(
    dated.slice(0, 12).map(({ expiration_date }) => expiration_date),
  );
  for (const [at, { call_gex, put_gex, net_gex }] of dated.slice(0, 12).entries()) {
    expectClose(actual?.expirations[at]?.callGex ?? Number.NaN, call_gex, scale);
    expectClose(actual?.expirations[at]?.putGex ?? Number.NaN, put_gex, scale);
    expectClose(actual?.expirations[at]?.netGex ?? Number.NaN, net_gex, scale);
  }
  const left = chain.filter(({ expirationDate }) => expirationDate > date);
  const after = sumGammaExposure(spot, left);
  expectClose(actual?.netGexAfter ?? Number.NaN, after.net_gex, scale);
  expect([actual?.callWallAfter, actual?.putWallAfter]).toEqual([after.call_wall, after.put_wall]);
  const strikesAfter = new Map(after.gex_by_strike.map(({ strike, net_gex }) => [strike, net_gex]));
  for (const { strike, netGexAfter } of actual?.strikes ?? [])
    expectClose(netGexAfter, strikesAfter.get(strike) ?? 0, scale);
  const zeros = [chain, left].map((contracts) => (spot > 0 ? listZeroGammas(spot, date, contracts) : []));
  for (const [at, isAfter] of [false, true].entries()) {
    const found = actual?.zeroGammas.filter((zero) => zero.isAfter === isAfter) ?? [];
    expect(found.map(({ place }) => place)).toEqual(zeros[at]?.map((_, index) => index + 1));
    for (const [index, { zeroGamma }] of found.entries()) expectClose(zeroGamma, zeros[at]?.[index] ?? 0, spot);
  }
  const nearest = (isAfter: boolean) => actual?.zeroGammas.find((zero) => zero.isAfter === isAfter)?.zeroGamma ?? null;
  expect([actual?.zeroGamma, actual?.zeroGammaAfter]).toEqual([nearest(false), nearest(true)]);
}

/** Within 1e-9 of `scale`, as sums of doubles depend on their order. */
function expectClose(actual: Amount, expected: Amount, scale: Amount): void {
  expect(Math.abs(known(actual) - known(expected))).toBeLessThanOrEqual(1e-9 * Math.abs(known(scale)));
}

/** Some twenty symbols of many sizes; several records a series; unknown numbers; prices of 0; expirations of all weekdays. */
function drawDay(seed: number, count: number): readonly Row[] {
  const random = createRandom(seed);
  return Array.from({ length: count }, (_, at) => {
    const symbol = `S${Math.floor(random() * random() * 20)}`;
    // One symbol has no puts, and so no change of sign.
    const call = symbol === 'S7' || random() < 0.5;
    // Puts below the calls, so that profiles go from negative to positive.
    const strike = (call ? 52 : 42) + Math.floor(random() * 16) * 0.75;
    const expiration = addDays(DATE, Math.floor(random() ** 3 * 60) * 3 - 3);
    // Whole minutes, so that records of a series share their time.
    const minutes = 570 + Math.floor(random() * random() * 405);
    return row({
      id: String(Math.floor(random() * 1e6) * count + at),
      symbol,
      time: `${DATE} ${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}:00`,
      put_call: call ? 'CALL' : 'PUT',
      strike,
      expiration_date: expiration,
      option_symbol: `${symbol}${expiration}${call ? 'C' : 'P'}${strike}`,
      oi: random() < 0.1 ? 0 : Math.floor(random() * 50_000),
      underlying_price: random() < 0.1 ? 0 : 45 + random() * 15,
      gamma: random() < 0.1 ? null : random() * 0.1,
      iv: random() < 0.1 ? null : 0.05 + random() * 0.6,
      delta: random() < 0.1 ? null : random() * (call ? 1 : -1),
    });
  });
}
