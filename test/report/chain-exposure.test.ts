/**
 * Exposure of whole chains: a report beside a chain drop of its date. The published figures of the real SPX chain, `src/exposure`
 * on random chains, the printed query in both readers, and what a reader is shown of it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { quoteString } from '../../src/engine/literal.ts';
import { listZeroGammas, type OptionContract, sumGammaExposure } from '../../src/exposure/gamma-exposure.ts';
import type { FlowOptions } from '../../src/report/flow-report.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { renderFullReport } from '../../src/report/render.ts';
import { hasSpxPage, readSpxPage, SPX_REFERENCE } from '../support/chain-page.ts';
import { queryDuckDb } from '../support/drop.ts';
import { createRandom } from '../support/random.ts';
import { renderFlowReport } from './days.ts';
import { createTrade, TEMPLATES, type TradeChanges, useDrops } from './drop-file.ts';
import { expectSame } from './plain-loops.ts';

const drops = useDrops();
let files = 0;

type Chain = readonly (OptionContract & { readonly symbol: string; readonly optionSymbol?: string })[];

/** Writes a chain drop with the columns that exposure is computed from. */
async function writeChain(date: string, chain: Chain): Promise<{ path: string; location: string }> {
  files += 1;
  const path = join(drops.folder, `option-chain-${files}.parquet`);
  const rows = chain.map(({ symbol, optionSymbol, expirationDate, putCall, strike, openInterest, iv, gamma }, at) => [
    ...[
      symbol,
      optionSymbol ?? `${symbol}${at}`,
      expirationDate,
      putCall,
      strike,
      openInterest,
      iv,
      putCall === 'CALL' ? 0.5 : -0.5,
      gamma,
    ],
  ]);
  const input = join(drops.folder, `option-chain-${files}.ndjson`);
  await writeFile(input, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  const columns =
    'symbol String, option_symbol Nullable(String), expiration_date Nullable(Date32), put_call Nullable(String), strike Nullable(Float64), open_interest Nullable(Float64), iv Nullable(Float64), delta Nullable(Float64), gamma Nullable(Float64)';
  await drops.engine.command(
    `INSERT INTO FUNCTION file(${quoteString(path)}, Parquet) SELECT toDate32('${date}') AS date, * FROM file(${quoteString(input)}, JSONCompactEachRow, ${quoteString(columns)})`,
  );
  return { path, location: `s3://quant-drops/options/option-chain/session=${date}/option-chain-${files}.parquet` };
}

/** Writes a market-structure drop with the columns that are compared. @param summaries symbol, calls, puts, and when */
async function writeStructure(
  summaries: readonly (readonly [string, number | null, number, string | null])[],
): Promise<{ path: string; location: string }> {
  files += 1;
  const path = join(drops.folder, `market-structure-${files}.parquet`);
  const input = join(drops.folder, `market-structure-${files}.ndjson`);
  await writeFile(
    input,
    summaries.map(([symbol, ...rest]) => `${JSON.stringify([symbol, 100.5, ...rest])}\n`).join(''),
  );
  const columns =
    "symbol String, spot Nullable(Float64), call_gex Nullable(Float64), put_gex Nullable(Float64), intraday_gex_as_of Nullable(DateTime64(3, 'UTC'))";
  await drops.engine.command(
    `INSERT INTO FUNCTION file(${quoteString(path)}, Parquet) SELECT * FROM file(${quoteString(input)}, JSONCompactEachRow, ${quoteString(columns)})`,
  );
  return { path, location: `s3://quant-drops/options/structure/session=2026-11-19/market-structure-${files}.parquet` };
}

const report = async (trades: readonly TradeChanges[], options: Partial<FlowOptions>) =>
  await drops.report(
    trades.map((changes, at) => createTrade({ id: String(at), ...changes })),
    options,
  );

// The chain is the exchange's data and may not be in the repository: without it there is nothing to compare with.
describe.skipIf(!hasSpxPage)('the real SPX chain beside a day in which one contract traded', () => {
  it('has the published exposure and zero gamma, also after expiration, as no contract of it expires on its date', async () => {
    const { date, spot } = SPX_REFERENCE;
    const contracts = readSpxPage().map((contract) => ({ symbol: 'SPX', ...contract }));
    const chain = await writeChain(date, contracts);
    const trade = { symbol: 'SPX', date, time: `${date} 10:52:00`, underlying_price: spot, oi: 7, gamma: 0.5 };
    const { lead } = (await report([trade], { chain })).exposure;
    expect(lead).toMatchObject({ symbol: 'SPX', isWholeChain: true, contracts: contracts.length, spot });
    expect(Math.abs((lead?.callGex ?? 0) - SPX_REFERENCE.callGex)).toBeLessThan(0.0005e9);
    for (const gex of [lead?.netGex, lead?.netGexAfter])
      expect(Math.abs((gex ?? 0) - SPX_REFERENCE.netGex)).toBeLessThan(0.0005e9);
    for (const zero of [lead?.zeroGamma, lead?.zeroGammaAfter])
      expect(Math.abs((zero ?? 0) - SPX_REFERENCE.zeroGamma)).toBeLessThan(1);
    expect(lead?.endedContracts).toBe(0);
  }, 60_000);
});

it('counts a contract of the chain for 25 shares where the premium of its trades does', async () => {
  const contract = { symbol: 'SPY', strike: 600, expirationDate: '2026-11-20', iv: 0.2, gamma: 0.02 };
  const chain = await writeChain('2026-11-19', [
    { ...contract, putCall: 'CALL', openInterest: 1000, optionSymbol: 'SPY261120C00600000' },
  ]);
  const gexOf = async (premium: number) => (await report([{ premium }, { premium }], { chain })).exposure.total.callGex;
  const [usual, fewer] = [await gexOf(1250), await gexOf(1250 / 4)];
  expect(usual).toBeGreaterThan(0);
  expect(fewer).toBeCloseTo(Number(usual) / 4, 6);
});

describe.each([1, 2, 3])('random chain %i', (seed) => {
  const DATE = '2026-11-19';
  const random = createRandom(seed);
  const draw = (low: number, high: number) => low + random() * (high - low);
  const dates = [DATE, '2026-11-20', '2026-12-18', '2027-03-19'];
  const chain: Chain = ['SPX', 'SPY', 'GONE'].flatMap((symbol) =>
    Array.from({ length: 300 }, (_, at) => ({
      symbol,
      putCall: at % 2 === 0 ? ('CALL' as const) : ('PUT' as const),
      strike: Math.round(draw(80, 120)),
      expirationDate: dates[Math.floor(draw(0, dates.length))] ?? DATE,
      iv: draw(0.1, 0.6),
      gamma: draw(0, 0.08),
      openInterest: Math.round(draw(0, 5000)),
    })),
  );
  const trades = ['SPX', 'SPY', 'QQQ'].map((symbol) => ({
    ...{ symbol, underlying_price: 100.5, strike: 100, gamma: 0.03 },
    // With most premium, so that it leads.
    ...(symbol === 'SPX' ? { price: 2.5, premium: 2500 } : {}),
  }));
  let day: FlowReport;
  beforeAll(async () => {
    const marketStructure = await writeStructure([
      // The newest that has both figures counts; IWM did not trade, and SPY has no details.
      ['SPX', 1, 1, `${DATE} 20:00:00`],
      ['SPX', 5e9, -7e9, `${DATE} 20:46:30`],
      ['SPX', null, -1, `${DATE} 20:59:00`],
      ['SPX', 3, 3, null],
      ['QQQ', 4e6, -1e6, null],
      ['IWM', 1e6, -1e6, `${DATE} 20:00:00`],
      ['SPY', 1e6, -1e6, `${DATE} 20:00:00`],
    ]);
    day = await report(trades, { chain: await writeChain(DATE, chain), symbols: ['SPX', 'QQQ'], marketStructure });
  });

  it('gives the exposure of every contract of a symbol that it has, and of the traded ones of another', async () => {
    const { exposure } = day;
    const own = chain.filter(({ symbol }) => symbol === 'SPX');
    const left = own.filter(({ expirationDate }) => expirationDate > DATE);
    const [spx, qqq] = exposure.focus;
    const [sums, after] = [own, left].map((contracts) => sumGammaExposure(100.5, contracts));
    expect(spx?.netGex).toBeCloseTo(sums?.net_gex ?? 0, 0);
    expect(spx?.netGexAfter).toBeCloseTo(after?.net_gex ?? 0, 0);
    expect([spx?.callWall, spx?.putWall, spx?.contracts]).toEqual([sums?.call_wall, sums?.put_wall, own.length]);
    expect([spx?.callWallAfter, spx?.putWallAfter]).toEqual([after?.call_wall, after?.put_wall]);
    for (const [isAfter, contracts] of [
      [false, own],
      [true, left],
    ] as const) {
      const zeros = listZeroGammas(100.5, DATE, contracts);
      const found = spx?.zeroGammas.filter((zero) => zero.isAfter === isAfter) ?? [];
      expect(found).toHaveLength(zeros.length);
      for (const [index, { zeroGamma }] of found.entries()) expect(zeroGamma).toBeCloseTo(zeros[index] ?? 0, 6);
    }
    expect(qqq).toMatchObject({ isWholeChain: false, contracts: 1 });
    expect(exposure.total.contracts).toBe(own.length * 2 + 1);
    // A chain of a symbol that did not trade has no price.
    expect(exposure.top.map(({ symbol }) => symbol).toSorted()).toEqual(['QQQ', 'SPX', 'SPY']);
  });

  it('gives the volatility of the chain, not of what traded', () => {
    const own = chain.filter(({ symbol, expirationDate }) => symbol === 'SPX' && expirationDate === '2026-12-18');
    const nearest = own
      .map(({ strike }) => strike)
      .sort((a, b) => Math.abs(a - 100.5) - Math.abs(b - 100.5) || a - b)[0];
    const there = own.filter(({ strike }) => strike === nearest).map(({ iv }) => iv ?? 0);
    const found = day.volatility.find(
      ({ symbol, expirationDate }) => symbol === 'SPX' && expirationDate === '2026-12-18',
    );
    expect(found?.atTheMoney).toBeCloseTo(there.reduce((sum, iv) => sum + iv, 0) / there.length, 9);
    // The one contract of QQQ that traded.
    expect(day.volatility.filter(({ symbol }) => symbol === 'QQQ')).toMatchObject([{ atTheMoney: 0.18, days: 1 }]);
  });

  it.each(['DuckDB', 'ClickHouse'])('is rebuilt by the printed queries in %s', async (reader) => {
    const run = async (table: string) => {
      const query = day.rebuildQueries.find((candidate) => candidate.table === table);
      const place = (location = '') => location.split('/').at(-1) ?? '';
      const sql = [day.drop.location, day.chainLocation ?? '', day.structureLocation ?? ''].reduce(
        (text, location) => text.replaceAll(`"${place(location)}"`, `"${join(drops.folder, place(location))}"`),
        (query?.sql ?? '').replace(/;$/, ''),
      );
      return reader === 'DuckDB' ? await queryDuckDb(sql) : await drops.engine.rows<Record<string, unknown>>(sql);
    };
    const ranking = await run('GEX by symbol');
    expect(ranking.map((row) => row['symbol'])).toEqual(day.exposure.top.map(({ symbol }) => symbol));
    for (const [index, { callGex, putGex, netDex, netGexAfter, netDexAfter }] of day.exposure.top.entries()) {
      const { call_gex, put_gex, net_dex, net_gex_after, net_dex_after } = ranking[index] ?? {};
      expectSame(
        { callGex: call_gex, putGex: put_gex, netDex: net_dex, netGexAfter: net_gex_after, netDexAfter: net_dex_after },
        { callGex, putGex, netDex, netGexAfter, netDexAfter },
      );
    }
    const [walls, zeros] = [await run('Walls'), await run('Zero gamma')];
    for (const { symbol, callWall, putWall, callWallAfter, putWallAfter, zeroGammas } of day.exposure.focus) {
      const { call_wall, put_wall, call_wall_after, put_wall_after } =
        walls.find((row) => row['symbol'] === symbol) ?? {};
      expectSame(
        { callWall: call_wall, putWall: put_wall, callWallAfter: call_wall_after, putWallAfter: put_wall_after },
        { callWall, putWall, callWallAfter, putWallAfter },
      );
      const own = zeros.filter((row) => row['symbol'] === symbol);
      expect(own).toHaveLength(zeroGammas.length);
      for (const [index, { zeroGamma, place }] of zeroGammas.entries())
        expectSame(
          { zeroGamma: own[index]?.['zero_gamma'], place: Number(own[index]?.['place']) },
          { zeroGamma, place },
        );
    }
    const compared = await run('Market structure');
    expect(compared.map((row) => row['symbol'])).toEqual(['QQQ', 'SPX']);
    expect(compared.map((row) => row['intraday_gex'])).toEqual([3e6, -2e9]);
    for (const { symbol, netGex, marketStructure } of day.exposure.focus) {
      const row = compared.find((candidate) => candidate['symbol'] === symbol);
      expectSame(
        { netGex: row?.['net_gex'], intradayGex: row?.['intraday_gex'], difference: row?.['difference'] },
        { netGex, intradayGex: marketStructure?.intradayGex, difference: marketStructure?.difference },
      );
    }
    const volatility = await run('Implied volatility');
    expect(volatility).toHaveLength(day.volatility.length);
    for (const [index, { atTheMoney, skew }] of day.volatility.entries())
      expectSame(
        { atTheMoney: volatility[index]?.['at_the_money'], skew: volatility[index]?.['skew'] },
        { atTheMoney, skew },
      );
  });

  it('says on the first screen what the exposure is of, and names the file', async () => {
    const options = { templatesDir: TEMPLATES, timezone: 'UTC', link: null, late: false, correction: null };
    const { text, html } = await renderFlowReport(day, options);
    for (const part of [text, html]) {
      expect(part).toContain('per 1% move, whole chain');
      expect(part).toContain('GEX of the whole chain: SPX; partial (traded contracts only): QQQ.');
    }
    const whole = await renderFullReport([{ title: 'trades', report: day }], options);
    for (const location of [day.chainLocation, day.structureLocation]) expect(whole).toContain(location);
    expect((await report(trades, {})).rebuildQueries.map(({ table }) => table)).not.toContain('Market structure');
    const lacking = { ...(await writeChain(DATE, chain)), isDegraded: true };
    const part = await renderFlowReport(await report(trades, { chain: lacking, symbols: ['SPX', 'QQQ'] }), options);
    expect(part.text).toContain('per 1% move, degraded chain');
    expect(part.text).toContain(
      'GEX of a degraded chain, which may lack contracts: SPX; partial (traded contracts only): QQQ.',
    );
    const without = await renderFlowReport(await report(trades, {}), options);
    expect(without.text).toContain('per 1% move, partial: traded contracts only');
  });
});

describe('a file that is no chain', () => {
  it('is refused with the columns that it lacks', async () => {
    const { path } = await drops.write([createTrade()]);
    await expect(report([{}], { chain: { path, location: 'x' } })).rejects.toMatchObject({
      code: 'REPORT_COLUMNS_MISSING',
      message: expect.stringContaining('open_interest'),
    });
  });
});
