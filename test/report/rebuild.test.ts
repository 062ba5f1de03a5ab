/**
 * The queries that a reader rebuilds the tables with: each is run as printed, by DuckDB and by ClickHouse, over the file
 * under its own name, and must give the model's numbers. On a random day with much to leave out, on a day with nothing to
 * leave out, whose queries are shorter, and on days of records without numbers.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { buildFlowReport } from '../../src/report/flow-report.ts';
import type { FlowReport, SealedDrop } from '../../src/report/model.ts';
import { type PremiumRow, readPremium, readPremiumPart } from '../../src/report/number-values.ts';
import { queryDuckDb } from '../support/drop.ts';
import { createDropFolder, createTrade, type Trade, writeDrop } from './drop-file.ts';
import { expectSame } from './plain-loops.ts';
import { createRandomDay } from './random-day.ts';

type Row = Readonly<Record<string, unknown>>;

const DAYS: readonly (readonly [string, readonly Trade[]])[] = [
  ['random', createRandomDay(5, { date: '2026-11-19', prints: 2000 })],
  ['single', [createTrade()]],
  [
    'adjusted',
    [
      createTrade(),
      createTrade({ id: '2', option_symbol: 'SPY1261120C00600000' }),
      createTrade({ id: '3', option_symbol: 'SPY  261120C00610000', strike: 610, premium: 125 }),
      createTrade({ id: '4', option_symbol: 'SPY7 261120P00600000', put_call: 'PUT' }),
    ],
  ],
  ['gapped', createRandomDay(7, { date: '2026-11-19', prints: 2000, gaps: 0.02 })],
  ['unpriced', [createTrade({ premium: null }), createTrade({ id: '2', premium: Number.NaN, put_call: null })]],
];

describe.each(DAYS)('on a %s day', (name, trades) => {
  let engine: Engine;
  let folder: Awaited<ReturnType<typeof createDropFolder>>;
  let drop: SealedDrop;
  let report: FlowReport;

  beforeAll(async () => {
    engine = await openEmbeddedEngine();
    folder = await createDropFolder();
    drop = await writeDrop(engine, folder.path, name, trades, TRADE_COLUMNS, name === 'gapped' || name === 'unpriced');
    const options = { symbols: [], now: new Date(0), job: 'nightly', before: [], marketStructure: null };
    report = await buildFlowReport(engine, drop, options);
  });
  afterAll(async () => {
    await engine.close();
    await folder.remove();
  });

  describe.each(['DuckDB', 'ClickHouse'] as const)('run by %s', (reader) => {
    /** The query as printed; only the file's name becomes its place here. */
    const run = async (table: string): Promise<readonly Row[]> => {
      const query = report.rebuildQueries.find((candidate) => candidate.table === table);
      const sql = (query?.sql ?? '').replace(/;$/, '').replaceAll(`"${name}.parquet"`, `"${drop.path}"`);
      const rows = reader === 'DuckDB' ? await queryDuckDb(sql) : await engine.rows<Row>(sql);
      return rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, plain(value)])));
    };

    it('Headline gives the headline', async () => {
      expectSame(readSums((await run('Headline'))[0]), report.headline);
    });

    it('Symbols gives the top symbols in order', async () => {
      const rows = await run('Symbols');
      expect(rows.map((row) => row['symbol'])).toEqual(report.topSymbols.map(({ symbol }) => symbol));
      for (const [index, { symbol: _, place: __, ...flow }] of report.topSymbols.entries()) {
        expectSame(readSums(rows[index]), flow);
      }
    });

    it('Half hours gives the half hours that have trades', async () => {
      const rows = await run('Half hours');
      const found = new Map(rows.map((row) => [`${two(row['hour'])}:${two(row['minute'])}`, row]));
      const traded = report.halfHours.filter((slot) => slot.trades > 0);
      expect([...found.keys()]).toEqual(traded.map(({ start }) => start));
      for (const { start, ...slot } of traded) expectSame(readSums(found.get(start)), slot);
    });

    it.each(['Expirations', 'Moneyness'] as const)('%s gives its buckets', async (table) => {
      const rows = await run(table);
      const parts = table === 'Expirations' ? report.expiries : report.moneyness;
      const traded = parts.filter((part) => part.trades > 0);
      expect(rows).toHaveLength(traded.length);
      for (const { bucket, ...part } of traded) {
        const row = rows.find((candidate) => candidate['bucket'] === bucket) ?? {};
        expectSame(readPremiumPart(row as PremiumRow), part); // Columns of the measures.
      }
    });

    it('Biggest trades gives the biggest trades in order', async () => {
      const rows = await run('Biggest trades');
      expect(rows.map((row) => String(row['id']))).toEqual(report.biggestTrades.map(({ id }) => id));
      for (const [index, { premium, size, price, side }] of report.biggestTrades.entries()) {
        expectSame(rows[index], { premium, size, price, side });
      }
    });

    it('Contracts by premium gives the contracts in order', async () => {
      const rows = await run('Contracts by premium');
      expect(rows.map((row) => row['symbol'])).toEqual(report.topContracts.map(({ symbol }) => symbol));
      for (const [index, { volume, openInterest, premium, trades: count }] of report.topContracts.entries()) {
        const row = rows[index] ?? {};
        const found = { trades: row['trades'], volume: row['volume'], openInterest: row['open_interest'] };
        expectSame({ ...found, premium: row['total_premium'] }, { trades: count, volume, openInterest, premium });
      }
    });

    it('What moved the day gives its rows in order', async () => {
      const rows = (await run('What moved the day')).filter((row) => row['bullish'] !== row['bearish']);
      const { top } = report.drivers;
      expect(rows.map((row) => [row['symbol'], row['put_call']])).toEqual(
        top.map(({ symbol, right }) => [symbol, right === 'calls' ? 'CALL' : 'PUT']),
      );
      for (const [index, { bullish, bearish }] of top.entries()) {
        expectSame({ bullish: rows[index]?.['bullish'], bearish: rows[index]?.['bearish'] }, { bullish, bearish });
      }
    });

    it('GEX by symbol gives the ranking', async () => {
      const rows = await run('GEX by symbol');
      expect(rows.map((row) => row['symbol'])).toEqual(report.exposure.top.map(({ symbol }) => symbol));
      for (const [index, { spot, callGex, putGex, netGex }] of report.exposure.top.entries()) {
        const row = rows[index] ?? {};
        const found = { spot: row['spot'], callGex: row['call_gex'], putGex: row['put_gex'], netGex: row['net_gex'] };
        expectSame(found, { spot, callGex, putGex, netGex });
      }
    });

    it('Volume above open interest gives the series above it', async () => {
      const [row] = await run('Volume above open interest');
      const { series, of_series: ofSeries, unknown_series: unknownSeries, premium } = row ?? {};
      // A sum over no series is null where records lack a premium.
      const dollars = series === 0 ? 0 : premium;
      expectSame({ series, ofSeries, unknownSeries, premium: dollars }, report.volumeAboveOpenInterest);
    });

    it('Records left out gives what is left out', async () => {
      const rows = await run('Records left out');
      const tally = (record: string) => {
        const row = rows.find((candidate) => candidate['record'] === record);
        return { trades: row?.['trades'] ?? 0, premium: row === undefined ? 0 : row['total_premium'] };
      };
      const { cancelMessages, cancelledPrints, lateReports } = report.exclusions;
      expectSame(tally('cancel message'), cancelMessages);
      expectSame(tally('cancelled print'), cancelledPrints);
      expectSame(tally('late report'), lateReports);
      expectSame(tally('counted'), { trades: report.headline.trades, premium: report.headline.total });
    });
  });
});

function readSums(row: Row | undefined) {
  return readPremium(row as PremiumRow); // Columns of the measures, whatever stands beside them.
}

/** DuckDB's JSON has 64-bit and 128-bit integers as text; ids stay text. */
function plain(value: unknown): unknown {
  return typeof value === 'string' && /^-?\d{1,11}$/.test(value) ? Number(value) : value;
}

function two(value: unknown): string {
  return String(value).padStart(2, '0');
}
