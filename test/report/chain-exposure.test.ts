/**
 * Exposure of whole chains: a report beside a chain drop of its date. The published figures of the real SPX chain, `src/exposure`
 * on random chains, the printed query in both readers, and what a reader is shown of it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteString } from '../../src/engine/literal.ts';
import type { OptionContract } from '../../src/exposure/contract.ts';
import { sumGammaExposure } from '../../src/exposure/gamma-exposure.ts';
import { computeZeroGamma } from '../../src/exposure/zero-gamma.ts';
import { buildFlowReport } from '../../src/report/flow-report.ts';
import { renderFullReport } from '../../src/report/full-report.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { renderFlowReport } from '../../src/report/render.ts';
import { hasSpxPage, readSpxPage, SPX_REFERENCE } from '../support/chain-page.ts';
import { queryDuckDb } from '../support/drop.ts';
import { createRandom } from '../support/random.ts';
import { createDropFolder, createTrade, TEMPLATES, type TradeChanges, writeDrop } from './drop-file.ts';

let engine: Engine;
let folder: Awaited<ReturnType<typeof createDropFolder>>;
let files = 0;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  folder = await createDropFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

type Chain = readonly (OptionContract & { readonly symbol: string })[];

/** Writes a chain drop with the columns that exposure is computed from. */
async function writeChain(date: string, chain: Chain): Promise<{ path: string; location: string }> {
  files += 1;
  const path = join(folder.path, `option-chain-${files}.parquet`);
  const rows = chain.map(({ symbol, expirationDate, putCall, strike, openInterest, iv, gamma }, at) => [
    ...[
      symbol,
      `${symbol}${at}`,
      expirationDate,
      putCall,
      strike,
      openInterest,
      iv,
      putCall === 'CALL' ? 0.5 : -0.5,
      gamma,
    ],
  ]);
  const input = join(folder.path, `option-chain-${files}.ndjson`);
  await writeFile(input, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  const columns =
    'symbol String, option_symbol Nullable(String), expiration_date Nullable(Date32), put_call Nullable(String), strike Nullable(Float64), open_interest Nullable(Float64), iv Nullable(Float64), delta Nullable(Float64), gamma Nullable(Float64)';
  await engine.command(
    `INSERT INTO FUNCTION file(${quoteString(path)}, Parquet) SELECT toDate32('${date}') AS date, * FROM file(${quoteString(input)}, JSONCompactEachRow, ${quoteString(columns)})`,
  );
  return { path, location: `s3://quant-drops/options/option-chain/session=${date}/option-chain-${files}.parquet` };
}

async function report(
  trades: readonly TradeChanges[],
  options: {
    readonly chain?: { path: string; location: string };
    readonly keepsExpiring?: boolean;
    readonly symbols?: readonly string[];
  },
): Promise<FlowReport> {
  files += 1;
  const records = trades.map((changes, at) => createTrade({ id: String(at), ...changes }));
  const drop = await writeDrop(engine, folder.path, `day-${files}`, records);
  const rest = { now: new Date('2026-11-19T22:32:00Z'), job: 'nightly', before: [], marketStructure: null };
  return await buildFlowReport(engine, drop, { symbols: [], ...rest, ...options });
}

// The chain is the exchange's data and may not be in the repository: without it there is nothing to compare with.
describe.skipIf(!hasSpxPage)('the real SPX chain beside a day in which one contract traded', () => {
  it.each([
    ['kept', true],
    ['dropped', false],
  ])(
    'has the published exposure and zero gamma, contracts of the date %s',
    async (_name, keepsExpiring) => {
      const { date, spot } = SPX_REFERENCE;
      const contracts = readSpxPage().map((contract) => ({ symbol: 'SPX', ...contract }));
      const chain = await writeChain(date, contracts);
      const trade = { symbol: 'SPX', date, time: `${date} 10:52:00`, underlying_price: spot, oi: 7, gamma: 0.5 };
      const { exposure } = await report([trade], { chain, keepsExpiring });
      const { lead } = exposure;
      expect(lead).toMatchObject({ symbol: 'SPX', isWholeChain: true, contracts: contracts.length, spot });
      expect(Math.abs((lead?.netGex ?? 0) - SPX_REFERENCE.netGex)).toBeLessThan(0.0005e9);
      expect(Math.abs((lead?.callGex ?? 0) - SPX_REFERENCE.callGex)).toBeLessThan(0.0005e9);
      // No contract of the page expires on its date, so both conventions give the published price.
      expect(Math.abs((lead?.zeroGamma ?? 0) - SPX_REFERENCE.zeroGamma)).toBeLessThan(1);
    },
    60_000,
  );
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
  const trades = ['SPX', 'SPY', 'QQQ'].map((symbol) => ({ symbol, underlying_price: 100.5, strike: 100, gamma: 0.03 }));
  let day: FlowReport;
  beforeAll(async () => {
    day = await report(trades, { chain: await writeChain(DATE, chain), symbols: ['SPX', 'QQQ'] });
  });

  it('gives the exposure of every contract of a symbol that it has, and of the traded ones of another', async () => {
    for (const keepsExpiring of [true, false]) {
      const { exposure } = await report(trades, {
        chain: await writeChain(DATE, chain),
        symbols: ['SPX', 'QQQ'],
        keepsExpiring,
      });
      const own = chain.filter(({ symbol }) => symbol === 'SPX');
      const [spx, qqq] = exposure.focus;
      const sums = sumGammaExposure(100.5, own);
      expect(spx?.netGex).toBeCloseTo(sums.netGex, 0);
      expect([spx?.callWall, spx?.putWall, spx?.contracts]).toEqual([sums.callWall, sums.putWall, own.length]);
      const alive = own.filter(({ expirationDate }) => keepsExpiring || expirationDate > DATE);
      const zero = computeZeroGamma(100.5, DATE, alive);
      if (zero === null) expect(spx?.zeroGamma).toBeNull();
      else expect(spx?.zeroGamma).toBeCloseTo(zero, 6);
      expect(qqq).toMatchObject({ isWholeChain: false, contracts: 1 });
      expect(exposure.total.contracts).toBe(own.length * 2 + 1);
      // A chain of a symbol that did not trade has no price.
      expect(exposure.top.map(({ symbol }) => symbol).toSorted()).toEqual(['QQQ', 'SPX', 'SPY']);
    }
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

  it.each(['DuckDB', 'ClickHouse'])('is rebuilt by the printed query in %s', async (reader) => {
    const query = day.rebuildQueries.find(({ table }) => table === 'GEX of whole chains');
    const sql = (query?.sql ?? '')
      .replace(/;$/, '')
      .replaceAll(
        `"${day.drop.location.split('/').at(-1)}"`,
        `"${join(folder.path, day.drop.location.split('/').at(-1) ?? '')}"`,
      )
      .replaceAll(
        `"${day.chainLocation?.split('/').at(-1)}"`,
        `"${join(folder.path, day.chainLocation?.split('/').at(-1) ?? '')}"`,
      );
    const rows = reader === 'DuckDB' ? await queryDuckDb(sql) : await engine.rows<Record<string, unknown>>(sql);
    const chains = day.exposure.top.filter(({ isWholeChain }) => isWholeChain);
    expect(rows).toHaveLength(2);
    for (const row of rows) {
      const found = chains.find(({ symbol }) => symbol === row['symbol']);
      expect(Number(row['call_gex'])).toBeCloseTo(found?.callGex ?? Number.NaN, 0);
      expect(Number(row['put_gex'])).toBeCloseTo(found?.putGex ?? Number.NaN, 0);
    }
  });

  it('says on the first screen what the exposure is of, and names the file', async () => {
    const options = { templatesDir: TEMPLATES, timezone: 'UTC', link: null, late: false, correction: null };
    const { text, html } = await renderFlowReport(day, options);
    for (const part of [text, html]) {
      expect(part).toContain('per 1% move, whole chain');
      expect(part).toContain('GEX of the whole chain: SPX; of the contracts that traded this day only: QQQ.');
    }
    expect(await renderFullReport([{ title: 'trades', report: day }], options)).toContain(day.chainLocation);
    const without = await renderFlowReport(await report(trades, {}), options);
    expect(without.text).toContain('per 1% move, traded contracts only');
  });
});

describe('a file that is no chain', () => {
  it('is refused with the columns that it lacks', async () => {
    const { path } = await writeDrop(engine, folder.path, 'no-chain', [createTrade()]);
    await expect(report([{}], { chain: { path, location: 'x' } })).rejects.toMatchObject({
      code: 'REPORT_COLUMNS_MISSING',
      message: expect.stringContaining('open_interest'),
    });
  });
});
