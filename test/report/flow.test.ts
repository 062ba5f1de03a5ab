/**
 * The report's numbers against published totals of one real session, and at the edges: no trades, one trade, all of them
 * cancelled, which print a cancel message takes back, records without prices, sessions that cannot be compared with, a
 * file that is not the sealed one. Random days against a second implementation: `naive.slow.test.ts`.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import type { FlowReport, SealedDrop } from '../../src/report/model.ts';
import { OPTIONS, renderFlowReport } from './days.ts';
import { createTrade, hasVixDay, readVixDay, type Trade, useDrops, VIX_MISSING } from './drop-file.ts';
import { known } from './known.ts';
import { computePremium, splitFates } from './plain-loops.ts';

const drops = useDrops();

// Skipped only where the real day is not at hand; the title then says so.
describe.skipIf(!hasVixDay)(hasVixDay ? 'a real session of VIX options' : VIX_MISSING, () => {
  let report: FlowReport;
  beforeAll(async () => {
    report = await drops.report(readVixDay(), { symbols: ['VIX', 'SPY'] });
  });

  it('has the published totals of all records', () => {
    const { recorded } = report.exclusions;
    expect(recorded.trades).toBe(2295);
    expect(recorded.premium).toBeCloseTo(22_724_231, 2);
  });

  it('leaves out the cancel message, the print that it takes back and the late reports, and says so', () => {
    const { cancelMessages, cancelledPrints, unmatchedCancels, lateReports } = report.exclusions;
    expect(cancelMessages).toEqual({ trades: 1, premium: 39_600 });
    expect(cancelledPrints).toMatchObject({ trades: 1, premium: 39_600 });
    expect(unmatchedCancels).toBe(0);
    expect(lateReports.trades).toBe(24);
    expect(report.headline.trades).toBe(2295 - 1 - 1 - 24);
  });

  it('names on the first screen what is left out, as it matters, and lists the largest of it', async () => {
    const { lateReports } = report.exclusions;
    const [bullish, bearish] = [known(lateReports.bullish), known(lateReports.bearish)];
    expect([known(lateReports.premium), bullish - bearish].every((dollars) => dollars > 1_300_000)).toBe(true);
    const { text } = await renderFlowReport(report, OPTIONS);
    expect(text).toMatch(
      /24 late reports are in no other number: \$1\.40M \(6\.6% of premium\), bullish by \$1\.\d+M; with them the day would be bullish by/,
    );
    const left = leftOutOf(readVixDay()).filter(({ option_activity_type: type }) => type !== 'CANC');
    const largest = left.toSorted((a, b) => b.premium - a.premium).slice(0, 10);
    expect(report.biggestLeftOut.map(({ premium }) => premium)).toEqual(largest.map(({ premium }) => premium));
    expect(new Set(report.biggestLeftOut.map(({ record }) => record))).toContain('late report');
  });

  it('has the published sums by put, call and sentiment in what counts and what does not together', () => {
    const leftOut = computePremium(leftOutOf(readVixDay()));
    const { headline } = report;
    const all = (name: 'contracts' | 'total' | 'calls' | 'puts' | 'bullish' | 'bearish' | 'neutral') =>
      known(headline[name]) + known(leftOut[name]);
    expect(leftOut.trades).toBe(26);
    expect(all('contracts')).toBe(306_679);
    expect(all('total')).toBeCloseTo(22_724_231, 2);
    expect(all('calls')).toBeCloseTo(13_397_856, 2);
    expect(all('puts')).toBeCloseTo(9_326_375, 2);
    expect(all('bullish')).toBeCloseTo(4_678_012, 2);
    expect(all('bearish')).toBeCloseTo(3_674_655, 2);
    expect(all('neutral')).toBeCloseTo(14_371_564, 2);
  });

  it('covers the session in half hours without a hole', () => {
    expect(report.halfHours.map((slot) => slot.start)).toEqual([
      ...['09:30', '10:00', '10:30', '11:00', '11:30', '12:00', '12:30', '13:00'],
      ...['13:30', '14:00', '14:30', '15:00', '15:30', '16:00'],
    ]);
    expect(report.halfHours.reduce((sum, slot) => sum + known(slot.total), 0)).toBeCloseTo(
      known(report.headline.total),
      2,
    );
  });

  it('prices GEX at the last positive price of the underlying', () => {
    const { top, total } = report.exposure;
    expect(top).toMatchObject([{ symbol: 'VIX', contracts: report.volumeAboveOpenInterest.ofSeries }]);
    expect(top[0]?.spot).toBeGreaterThan(14);
    expect(total.netGex).toBe(known(total.callGex) + known(total.putGex));
  });

  it('shows a watched symbol that did not trade as such', () => {
    expect(report.watchlist.map(({ symbol, flow }) => [symbol, flow?.place ?? null])).toEqual([
      ['VIX', 1],
      ['SPY', null],
    ]);
  });

  it('is plain JSON and names no local path', () => {
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
    expect(JSON.stringify(report)).not.toContain(drops.folder);
  });
});

describe('the edges of a day', () => {
  it('an empty day has zeros, no ratios and no rows', async () => {
    const report = await drops.report([]);
    expectEmpty(report);
    expect(report.exclusions.recorded).toEqual({ trades: 0, premium: 0 });
    expect(report.rebuildQueries[0]?.sql).not.toContain('counted');
  });

  it('a day of which every trade was cancelled has zeros too, and says what was cancelled', async () => {
    const trades = Array.from({ length: 30 }, (_, index) => createTrade({ id: `p${index}` }));
    const cancels = trades.map(({ id }) => createTrade({ id: `c${id}`, option_activity_type: 'CNOL' }));
    const report = await drops.report([...trades, ...cancels]);
    expectEmpty(report);
    expect(report.exclusions).toEqual({
      unknownCodes: [],
      cancelMessages: { trades: 30, premium: 37_500 },
      cancelledPrints: { trades: 30, premium: 37_500, bullish: 37_500, bearish: 0 },
      unmatchedCancels: 0,
      lateReports: { trades: 0, premium: 0, bullish: 0, bearish: 0 },
      otherHours: { trades: 0, premium: 0 },
      recorded: { trades: 60, premium: 75_000 },
    });
  });

  it('more cancelled prints than a query lists are left out all the same, in many row groups', async () => {
    const trades = Array.from({ length: 20_500 }, (_, index) => createTrade({ id: `p${index}`, premium: 1 }));
    const kept = createTrade({ id: 'kept', size: 11, premium: 7 });
    const cancels = trades.map(({ id }) => createTrade({ id: `c${id}`, option_activity_type: 'CANC', premium: 1 }));
    const report = await drops.build(await splitRowGroups(await drops.write([...trades, kept, ...cancels])));
    expect(report.exclusions.cancelledPrints.trades).toBe(20_500);
    expect(report.headline).toMatchObject({ trades: 1, total: 7 });
    expect(report.biggestTrades.map(({ id }) => id)).toEqual(['kept']);
  });

  it('the rows that are left out are those cancelled, whatever their row group', async () => {
    const trades = Array.from({ length: 5000 }, (_, index) =>
      createTrade({ id: String(index).padStart(4, '0'), price: index, premium: index }),
    );
    const cancelled = trades.filter((_, index) => index % 7 === 3);
    const cancels = cancelled.map((trade) => ({ ...trade, id: `c${trade.id}`, option_activity_type: 'CANC' }));
    const report = await drops.build(await splitRowGroups(await drops.write([...cancels, ...trades])));
    const kept = trades.filter((_, index) => index % 7 !== 3);
    expect(report.headline.total).toBe(kept.reduce((total, { premium }) => total + premium, 0));
    expect(report.biggestTrades.map(({ id }) => id)).toEqual(
      kept
        .slice(-10)
        .reverse()
        .map(({ id }) => id),
    );
  });

  it('a single trade is readable as a contract, with its exposure by the formula', async () => {
    const report = await drops.report([createTrade()]);
    expect(report.biggestTrades).toMatchObject([{ contract: 'SPY 2026-11-20 600 C', time: '09:30:02', size: 10 }]);
    expect(report.exposure.total.netGex).toBeCloseTo(0.02 * 1000 * 100 * 601.5 ** 2 * 0.01, 6);
    expect(report.headline.putCallByVolume).toBe(0);
  });

  it('a symbol without any price of the underlying is left out of GEX and counted', async () => {
    const trades = [createTrade(), createTrade({ id: '2', symbol: 'XYZ', underlying_price: 0, bid: 0, ask: 0 })];
    const report = await drops.report(trades, { symbols: ['XYZ'] });
    expect(report.exposure.unpricedSymbols).toBe(1);
    expect(report.exposure.top.map((row) => row.symbol)).toEqual(['SPY']);
    expect(report.watchlist[0]?.exposure).toMatchObject({ spot: null, netGex: 0 });
  });

  it('of one second, the record with the greater id is the latest', async () => {
    const [nine, ten] = [createTrade({ id: '9', oi: 7 }), createTrade({ id: '10', oi: 5 })];
    for (const trades of [
      [nine, ten],
      [ten, nine],
    ]) {
      const report = await drops.report(trades);
      expect(report.exposure.total.callGex).toBeCloseTo(0.02 * 7 * 601.5 ** 2, 6);
    }
  });

  it('a symbol with quotes and backslashes can be watched', async () => {
    const symbol = `A'b\\c"--`;
    const report = await drops.report([createTrade({ symbol })], { symbols: [symbol] });
    expect(report.watchlist[0]?.flow?.total).toBe(1250);
  });
});

describe('a cancel message', () => {
  const at = (id: string, time: string, changes: Partial<Trade> = {}) =>
    createTrade({ id, time: `2026-11-19 ${time}`, ...changes });
  const cancel = (id: string, time: string, changes: Partial<Trade> = {}) =>
    at(id, time, { option_activity_type: 'CANC', ...changes });
  const CASES: readonly (readonly [string, readonly Trade[], readonly string[]])[] = [
    ['takes back the latest earlier print', [at('a', '10:00:00'), at('b', '10:05:00'), cancel('c', '10:06:00')], ['a']],
    ['takes back a print of its own time', [at('b', '10:00:00'), cancel('a', '10:00:00')], []],
    ['takes back no later print', [cancel('c', '10:00:00'), at('a', '10:00:01')], ['a']],
    ['takes of one time the greatest id', [at('9', '10:00:00'), at('10', '10:00:00'), cancel('c', '11:00:00')], ['10']],
    [
      'of two takes back a print each',
      [at('a', '10:00:00'), at('b', '10:01:00'), at('d', '10:02:00'), cancel('c', '11:00:00'), cancel('e', '11:00:00')],
      ['a'],
    ],
    [
      'that came between two prints leaves the later one to the next',
      [
        at('a', '10:00:00'),
        cancel('c', '10:01:00'),
        at('b', '10:02:00'),
        cancel('e', '10:03:00'),
        cancel('f', '10:04:00'),
      ],
      [],
    ],
    [
      'without a print leaves an earlier print to the next one',
      [cancel('c', '09:31:00'), at('a', '10:00:00'), at('b', '10:01:00'), cancel('e', '10:02:00')],
      ['a'],
    ],
    ...(
      [
        { symbol: 'QQQ' },
        { option_symbol: 'X' },
        { put_call: 'PUT' },
        { strike: 601 },
        { expiration_date: '2026-11-27' },
        { size: 11 },
        { price: 1.26 },
      ] satisfies Partial<Trade>[]
    ).map((changes): (typeof CASES)[number] => [
      `of another ${Object.keys(changes)[0]} takes back nothing`,
      [at('a', '10:00:00'), cancel('c', '10:01:00', changes)],
      ['a'],
    ]),
    [
      'takes back a late report as well',
      [at('a', '10:00:00', { option_activity_type: 'LATE' }), cancel('c', '10:01:00')],
      [],
    ],
  ];

  it.each(CASES)('%s', async (_, trades, kept) => {
    const { biggestTrades, exclusions } = await drops.report(trades);
    expect(biggestTrades.map(({ id }) => id).sort()).toEqual([...kept].sort());
    const cancels = trades.filter(({ option_activity_type: type }) => type === 'CANC').length;
    const taken = trades.length - cancels - kept.length;
    expect(exclusions).toMatchObject({ unmatchedCancels: cancels - taken, lateReports: { trades: 0 } });
    expect(exclusions.cancelledPrints.trades).toBe(taken);
  });
});

describe('a comparison', () => {
  const summarise = (date: string, premium: number) => drops.summarise(date, [createTrade({ date, premium })]);

  it('without sessions before has no numbers but the latest', async () => {
    const { comparison, unusual } = await drops.report([createTrade()]);
    expect(comparison).toMatchObject({ previousDate: null, dates: [] });
    expect(comparison.changes.total).toEqual({ latest: 1250, previous: null, median: null, place: null });
    expect(unusual).toEqual([]);
  });

  it('with one or two sessions before has a previous one and no median, with three both', async () => {
    const sessions = [
      await summarise('2026-11-18', 500),
      await summarise('2026-11-17', 700),
      await summarise('2026-11-16', 900),
    ];
    for (const [count, median] of [
      [1, null],
      [2, null],
      [3, 700],
    ] as const) {
      const { comparison } = await drops.report([createTrade()], { before: sessions.slice(0, count) });
      expect(comparison.changes.total).toMatchObject({ latest: 1250, previous: 500, median });
      expect(comparison.changes.total.place).toEqual(median && { above: 3, sessions: 3 });
      expect(comparison.changes.putCallByPremium).toMatchObject({ latest: 0, previous: 0, median: median && 0 });
    }
  });

  it('names the known sessions between those compared that are not, newest first', async () => {
    const before = [await summarise('2026-11-18', 500), await summarise('2026-11-13', 700)];
    const known = ['2026-11-10', '2026-11-13', '2026-11-16', '2026-11-17', '2026-11-18'];
    const { comparison } = await drops.report([createTrade()], { before, known });
    expect(comparison.missingDates).toEqual(['2026-11-17', '2026-11-16']);
    const alone = await drops.report([createTrade()], { before: [], known });
    expect(alone.comparison.missingDates).toEqual([]);
  });

  it('of ratios leaves out a session that has none', async () => {
    const rest = [await summarise('2026-11-10', 600), await summarise('2026-11-09', 900)];
    const before = [await drops.summarise('2026-11-18', []), ...rest, await summarise('2026-11-06', 900)];
    const { comparison } = await drops.report([createTrade()], { before });
    expect(comparison.changes.zeroDteShare).toEqual({
      ...{ latest: 0, previous: null, median: 0 },
      place: { above: 0, sessions: 3 },
    });
    expect(comparison.changes.total).toMatchObject({ latest: 1250, previous: 0, median: 750 });
    const few = await drops.report([createTrade()], { before: before.slice(0, 3) });
    expect(few.comparison.changes.zeroDteShare.median).toBeNull();
    expect(few.comparison.changes.total.median).toBe(600);
  });

  it('finds nothing unusual in a symbol of a few hundred dollars', async () => {
    const before = [
      await summarise('2026-11-13', 1),
      await summarise('2026-11-12', 1),
      await summarise('2026-11-11', 1),
    ];
    const { unusual, watchlist } = await drops.report([createTrade()], { before, symbols: ['SPY'] });
    expect(unusual).toEqual([]);
    expect(watchlist[0]?.unusual).toMatchObject({ premium: 1250, median: 1, ratio: 1250, sessions: 3, previous: 1 });
    const large = await drops.report([createTrade({ premium: 1e6 })], { before });
    expect(large.unusual).toMatchObject([{ symbol: 'SPY', premium: 1e6, ratio: 1e6 }]);
    const few = await drops.report([createTrade({ premium: 1e6 })], { before: before.slice(1) });
    expect(few.unusual).toEqual([]);
  });
});

describe('a file that the report refuses', () => {
  it('with other rows than were sealed', async () => {
    const drop = await drops.write([createTrade()]);
    await expect(drops.build({ ...drop, rows: 2 })).rejects.toMatchObject({
      code: 'REPORT_DROP_DIFFERS',
    });
  });

  it('without a column that it needs, naming it', async () => {
    const columns = TRADE_COLUMNS.filter((column) => column.name !== 'gamma');
    await expect(drops.build(await drops.write([createTrade()], { columns }))).rejects.toMatchObject({
      code: 'REPORT_COLUMNS_MISSING',
      kind: 'usage',
      message: expect.stringContaining('gamma'),
    });
  });
});

/** The same file in row groups of a thousand rows, as a whole day has many. */
async function splitRowGroups(drop: SealedDrop): Promise<SealedDrop> {
  const path = `${drop.path}.groups`;
  await drops.engine.command(
    `INSERT INTO FUNCTION file('${path}', Parquet) SELECT * FROM file('${drop.path}', Parquet)
     SETTINGS output_format_parquet_row_group_size = 1000, max_block_size = 1000, max_insert_block_size = 1000, min_insert_block_size_rows = 1, min_insert_block_size_bytes = 1, max_threads = 1`,
  );
  const [footer] = await drops.engine.rows<{ groups: number }>(
    `SELECT num_row_groups AS groups FROM file('${path}', ParquetMetadata)`,
  );
  expect(footer?.groups).toBeGreaterThanOrEqual(5);
  return { ...drop, path };
}

function leftOutOf(trades: readonly Trade[]): readonly Trade[] {
  const { cancels, cancelled, late } = splitFates(trades);
  return [...cancels, ...cancelled, ...late];
}

/** Zeros and nulls in every place, and no number that is none. */
function expectEmpty(report: FlowReport): void {
  expect(report.headline).toMatchObject({ trades: 0, total: 0, neutral: 0, netCalls: 0, putCallByPremium: null });
  expect(report).toMatchObject({ halfHours: [], topSymbols: [], mostBullish: [], biggestTrades: [], symbolCount: 0 });
  expect(report.volumeAboveOpenInterest).toEqual({ series: 0, ofSeries: 0, unknownSeries: 0, premium: 0 });
  expect(report.expiries.map(({ trades }) => trades)).toEqual([0, 0, 0, 0, 0]);
  expect(report.moneyness.map(({ total }) => total)).toEqual([0, 0, 0, 0]);
  expect(report.comparison.changes.zeroDteShare.latest).toBeNull();
  expect(report.exposure).toMatchObject({ top: [], total: { callGex: 0, putGex: 0, netGex: 0, contracts: 0 } });
  // What is no number turns into null on the way through JSON.
  expect(JSON.parse(JSON.stringify(report))).toEqual(report);
}
