/**
 * The queries that a reader rebuilds the tables with: each is run as printed, by DuckDB and by ClickHouse, over the file
 * under its own name, and must give the model's numbers. On a random day with much to leave out, on a day with nothing to
 * leave out, whose queries are shorter, and on days of records without numbers.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FlowReport, SealedDrop } from '../../src/report/model.ts';
import { type PremiumRow, pickNumbers, readPremium } from '../../src/report/number-values.ts';
import { KEY_NUMBERS, PART_KEYS } from '../../src/report/numbers.ts';
import type { PastSession } from '../../src/report/query/past-sessions.ts';
import { openDuckDb } from '../support/drop.ts';
import { createTrade, type Trade, useDrops } from './drop-file.ts';
import { known } from './known.ts';
import { expectSame, medianOf } from './plain-loops.ts';
import { createRandomDay, HOSTILE } from './random-day.ts';

type Row = Readonly<Record<string, unknown>>;

/** The sessions before the random day, newest first. */
const PAST = ['2026-11-18', '2026-11-17', '2026-11-16'];

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
      // Two of the early segment, whose open interest and price later ones replace.
      ...['6', '7'].map((id) => createTrade({ id, time: '2026-11-19 09:29:00', oi: 7, underlying_price: 300 })),
      // Below the calls, so that net exposure changes its sign.
      createTrade({
        ...{ id: '5', option_symbol: 'SPY261218P00560000', put_call: 'PUT', strike: 560, oi: 5000, delta: -0.3 },
        expiration_date: '2026-12-18',
      }),
    ],
  ],
  [
    'families',
    [
      createTrade({ symbol: 'SPX', option_symbol: 'SPX261120C00600000' }),
      createTrade({ id: '2', symbol: 'SPXW', option_symbol: 'SPXW261120C00600000', premium: 500 }),
      createTrade({ id: '3', symbol: 'SPXW', option_symbol: '', premium: 250, time: '2026-11-19 16:20:00' }),
      createTrade({ id: '4', symbol: 'SPXW', option_symbol: '', put_call: 'PUT', strike: 560, delta: -0.3, oi: 9000 }),
      createTrade({ id: '5', symbol: 'NDXP', option_symbol: 'NDXP261120C00600000', option_activity_type: 'CANC' }),
    ],
  ],
  ['gapped', createRandomDay(7, { date: '2026-11-19', prints: 2000, gaps: 0.02 })],
  ['unpriced', [createTrade({ premium: null }), createTrade({ id: '2', premium: Number.NaN, put_call: null })]],
];

describe.each(DAYS)('on a %s day', (name, trades) => {
  const drops = useDrops();
  let duckDb: Awaited<ReturnType<typeof openDuckDb>>;
  let drop: SealedDrop;
  let report: FlowReport;

  beforeAll(async () => {
    duckDb = await openDuckDb();
    drop = await drops.write(trades, { name, isLoose: name === 'gapped' || name === 'unpriced' });
    const before: PastSession[] = [];
    for (const [index, date] of (name === 'random' ? PAST : []).entries())
      before.push(await drops.summarise(date, createRandomDay(100 + index, { date, prints: 200 }), { name: date }));
    const symbols = name === 'random' || name === 'gapped' ? ['S3', 'S0', HOSTILE[1], 'NONE'] : [];
    report = await drops.build(drop, { symbols, before });
    // As if the session before had traded more of its contracts than there are.
    const contracts = report.topContracts.map((contract) => ({ ...contract, volume: 1e6 }));
    const past = before.map((session, index) => (index === 0 ? { ...session, contracts } : session));
    if (name === 'random') report = await drops.build(drop, { symbols, before: past });
  });
  afterAll(() => duckDb.close());

  describe.each(['DuckDB', 'ClickHouse'] as const)('run by %s', (reader) => {
    /** The query as printed; only the file's name becomes its place here. */
    const run = async (table: string): Promise<readonly Row[]> => {
      const query = report.rebuildQueries.find((candidate) => candidate.table === table);
      const sql = (query?.sql ?? '')
        .replace(/;$/, '')
        .replaceAll(`"${name}.parquet"`, `"${drop.path}"`)
        .replace(/"(\d{4}-\d{2}-\d{2}\.summary\.parquet)"/g, (_, file: string) => `"${join(drops.folder, file)}"`);
      const rows = reader === 'DuckDB' ? await duckDb.query(sql) : await drops.engine.rows<Row>(sql);
      return rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, plain(value)])));
    };

    it('Headline gives the headline', async () => {
      expectSame(readSums((await run('Headline'))[0]), report.headline);
    });

    it('Symbols gives the top symbols in order', async () => {
      const rows = await run('Symbols');
      const names = rows.slice(0, report.topSymbols.length).map((row) => row['symbol']);
      expect(names).toEqual(report.topSymbols.map(({ symbol }) => symbol));
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
        expectSame(pickNumbers(readPremium(row as PremiumRow), PART_KEYS), part); // Columns of the measures.
      }
    });

    it.each(['Biggest trades', 'Biggest sweeps'])('%s gives its trades in order', async (table) => {
      const trades = table === 'Biggest trades' ? report.biggestTrades : report.biggestSweeps;
      const rows = await run(table);
      expect(rows.map((row) => String(row['id']))).toEqual(trades.map(({ id }) => id));
      for (const [index, { premium, size, price, side }] of trades.entries()) {
        expectSame({ ...rows[index], side: rows[index]?.['side'] ?? '' }, { premium, size, price, side });
      }
      if (name === 'random') expect(trades).toHaveLength(10);
    });

    it('Earnings within ten days gives those of what moved the day', async () => {
      const rows = await run('Earnings within ten days');
      const found = new Map(rows.map((row) => [row['symbol'], String(row['earnings'])]));
      const { drivers, movers } = report;
      const moved = new Set([...drivers.top, ...movers].map(({ symbol }) => symbol));
      const expected = [...moved].filter((symbol) => found.has(symbol)).length;
      expect(report.earnings.filter(({ symbol }) => moved.has(symbol))).toHaveLength(expected);
      for (const { symbol, day } of report.earnings) expect(found.get(symbol)).toBe(day);
      if (name === 'random') expect(report.earnings.length).toBeGreaterThan(0);
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
      const rows = (await run('What moved the day')).filter(
        (row) => row['is_whole'] === 0 && Number(row['net_place']) <= 5 && row['bullish'] !== row['bearish'],
      );
      const { top } = report.drivers;
      expect(rows.map((row) => [row['symbol'], row['put_call']])).toEqual(
        top.map(({ symbol, right }) => [symbol, right === 'calls' ? 'CALL' : 'PUT']),
      );
      for (const [index, { bullish, bearish }] of top.entries()) {
        expectSame({ bullish: rows[index]?.['bullish'], bearish: rows[index]?.['bearish'] }, { bullish, bearish });
      }
    });

    it('GEX by symbol gives the ranking, with DEX', async () => {
      const rows = await run('GEX by symbol');
      const names = rows.slice(0, report.exposure.top.length).map((row) => row['symbol']);
      expect(names).toEqual(report.exposure.top.map(({ symbol }) => symbol));
      for (const [index, { spot, callGex, putGex, netGex, callDex, putDex, netDex }] of report.exposure.top.entries()) {
        const row = rows[index] ?? {};
        const found = { spot: row['spot'], callGex: row['call_gex'], putGex: row['put_gex'], netGex: row['net_gex'] };
        expectSame(found, { spot, callGex, putGex, netGex });
        expectSame(
          { callDex: row['call_dex'], putDex: row['put_dex'], netDex: row['net_dex'] },
          { callDex, putDex, netDex },
        );
      }
    });

    it('Walls and Zero gamma give those of the symbols with details', async () => {
      const walls = new Map((await run('Walls')).map((row) => [row['symbol'], row]));
      const nearest = (await run('Zero gamma')).filter((row) => row['is_after'] === 0 && row['place'] === 1);
      const zeros = new Map(nearest.map((row) => [row['symbol'], row['zero_gamma']]));
      const { focus } = report.exposure;
      expect(focus.length).toBeGreaterThan(name === 'random' ? 2 : 0);
      for (const { symbol, callWall, putWall, absoluteGammaStrike, zeroGamma } of focus) {
        const row = walls.get(symbol) ?? {};
        const found = { callWall: row['call_wall'], putWall: row['put_wall'], at: row['absolute_gamma_strike'] };
        expectSame(found, { callWall, putWall, at: absoluteGammaStrike });
        expectSame({ zeroGamma: zeros.get(symbol) ?? null }, { zeroGamma });
      }
      if (name === 'adjusted') expect(zeros.size).toBe(1);
    });

    it('GEX by strike and by expiration give their rows, with the share that rolls off', async () => {
      const [strikes, expirations] = [await run('GEX by strike'), await run('GEX by expiration')];
      for (const { symbol, callGex, putGex, ...exposure } of report.exposure.focus) {
        const own = strikes.filter((row) => row['symbol'] === symbol);
        expect(own.map((row) => row['strike'])).toEqual(exposure.strikes.map(({ strike }) => strike));
        for (const [index, { netGex }] of exposure.strikes.entries())
          expectSame({ netGex: own[index]?.['net_gex'] }, { netGex });
        const dated = expirations.filter((row) => row['symbol'] === symbol);
        expect(dated.map((row) => row['expiration_date'])).toEqual(
          exposure.expirations.map(({ expirationDate }) => expirationDate),
        );
        for (const [index, row] of exposure.expirations.entries()) {
          const share = (known(row.callGex) - known(row.putGex)) / (known(callGex) - known(putGex));
          const { net_gex: netGex, share_of_gamma: ownShare } = dated[index] ?? {};
          expectSame({ netGex, share: ownShare }, { netGex: row.netGex, share });
        }
      }
    });

    it('Opened or closed gives the open interest that the contracts have now', async () => {
      if (name !== 'random') return expect(report.opened).toEqual([]);
      const rows = await run('Opened or closed');
      expect(rows.length).toBeGreaterThan(0);
      expect(rows.map((row) => row['open_interest']).toSorted()).toEqual(
        report.opened.map(({ after }) => after).toSorted(),
      );
      const now = new Map(report.topContracts.map(({ contract, openInterest }) => [contract, openInterest]));
      for (const { contract, after } of report.opened) expect(after, contract).toBe(now.get(contract));
    });

    it('Max pain, vanna and charm gives its rows', async () => {
      const rows = await run('Max pain, vanna and charm');
      const expected = report.exposure.focus.flatMap(({ symbol, pains }) => pains.map((row) => ({ symbol, ...row })));
      expect(rows).toHaveLength(expected.length);
      for (const { symbol, expirationDate, maxPain, vanna, charm } of expected) {
        const row = rows.find((one) => one['symbol'] === symbol && one['expiration_date'] === expirationDate) ?? {};
        const { max_pain, vanna: ownVanna, charm: ownCharm } = row;
        expectSame({ maxPain: max_pain, vanna: ownVanna, charm: ownCharm }, { maxPain, vanna, charm });
      }
    });

    it('Implied volatility gives its rows', async () => {
      const rows = await run('Implied volatility');
      expect(rows.map((row) => [row['symbol'], row['expiration_date']])).toEqual(
        report.volatility.map(({ symbol, expirationDate }) => [symbol, expirationDate]),
      );
      for (const [index, { atTheMoney, skew, expectedMove }] of report.volatility.entries()) {
        const { at_the_money, skew: ownSkew, expected_move } = rows[index] ?? {};
        expectSame(
          { atTheMoney: at_the_money, skew: ownSkew, expectedMove: expected_move },
          { atTheMoney, skew, expectedMove },
        );
      }
    });

    it('Sessions before gives the key numbers of each', async () => {
      // Only one of the days has sessions before it.
      if (name !== 'random')
        return expect(report.rebuildQueries.map(({ table }) => table)).not.toContain('Sessions before');
      const rows = await run('Sessions before');
      expect(rows.map((row) => row['session']).toSorted()).toEqual([...PAST].toSorted());
      for (const { key, name: number } of KEY_NUMBERS) {
        const change = report.comparison.changes[key];
        const column = `of_${number}`;
        expectSame(
          {
            previous: rows.find((row) => row['session'] === PAST[0])?.[column],
            median: medianOf(rows.map((row) => Number(row[column] ?? Number.NaN))),
          },
          { previous: change.previous, median: change.median },
        );
      }
    });

    it('Symbols against the sessions before gives the unusual ones, the watchlist and the movers', async () => {
      if (name !== 'random') return;
      const rows = new Map((await run('Symbols against the sessions before')).map((row) => [row['symbol'], row]));
      const watched = report.watchlist.flatMap(({ unusual }) => unusual ?? []);
      expect(watched.length).toBeGreaterThan(1);
      for (const { symbol, premium, previous, median, ratio, sessions } of [...report.unusual, ...watched]) {
        const row = rows.get(symbol) ?? {};
        const found = {
          premium: row['total'],
          previous: row['previous'] ?? 0,
          median: row['median'],
          ratio: row['ratio'],
        };
        expectSame({ ...found, sessions: row['sessions'] }, { premium, previous, median, ratio, sessions });
      }
      for (const { symbol, premium, previous } of report.movers) {
        const row = rows.get(symbol) ?? {};
        expectSame({ premium: row['total'], previous: row['previous'] ?? 0 }, { premium, previous });
      }
    });

    it('Volume above open interest gives the series above it', async () => {
      const [row] = await run('Volume above open interest');
      const { series, of_series: ofSeries, unknown_series: unknownSeries, premium } = row ?? {};
      // A sum over no series is null where records lack a premium.
      const dollars = series === 0 ? 0 : premium;
      expectSame({ series, ofSeries, unknownSeries, premium: dollars }, report.volumeAboveOpenInterest);
    });

    it('Biggest left out gives the late reports and cancelled prints in order', async () => {
      const left = report.biggestLeftOut;
      if (left.length === 0) return;
      const rows = await run('Biggest left out');
      const listed = (list: readonly Row[]) => list.map((row) => [String(row['id']), row['record']]);
      expect(listed(rows)).toEqual(left.map(({ id, record }) => [id, record]));
      if (name === 'random') expect(new Set(left.map(({ record }) => record)).size).toBe(2);
    });

    it('Records left out gives what is left out', async () => {
      const rows = await run('Records left out');
      const tally = (record: string) => {
        const row = rows.find((candidate) => candidate['record'] === record);
        const { trades = 0, total_premium: premium = 0, bullish = 0, bearish = 0 } = row ?? {};
        return { trades, premium, bullish, bearish };
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

/** DuckDB's JSON has 64-bit and 128-bit integers as text; ids and dates stay text. */
function plain(value: unknown): unknown {
  return typeof value === 'string' && /^-?\d{1,11}$/.test(value) ? Number(value) : value;
}

function two(value: unknown): string {
  return String(value).padStart(2, '0');
}
