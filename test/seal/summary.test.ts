/**
 * The summary of a drop: its numbers against those of the flow report on the same file, and against sums made row by row
 * here; which drops have one.
 */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { buildFlowReport } from '../../src/report/flow-report.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { compareSummary, hasSummary, writeSummary } from '../../src/seal/summary.ts';
import { listDropColumns, writeParquet } from '../../src/seal/write-parquet.ts';
import { openStage } from '../../src/stage/stage.ts';
import type { Trade } from '../report/drop-file.ts';
import { known } from '../report/known.ts';
import { groupBy, openInterestOf } from '../report/plain-loops.ts';
import { queryDuckDb } from '../support/drop.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createRandom } from '../support/random.ts';
import { createJob, createPage, createTrade, DATE, type TradeRow, windowAt } from '../support/trades.ts';

const ROWS = 3_000;
const TYPES = ['AUTO', 'AUTO', 'ISOI', 'MLET', 'SLAN', 'TLFT', 'CANC', 'CNOL', 'LATE', 'OSEQ'];
const random = createRandom(7);
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
const TRADES: readonly TradeRow[] = Array.from({ length: ROWS }, (_, k) =>
  createTrade(k, {
    symbol: pick(['SPY', 'QQQ', 'NVDA', 'A', '']),
    option_activity_type: pick(TYPES),
    side: pick(['AASK', 'ASK', 'MID', 'BID', 'BBID', '']),
    sentiment: pick(['BULLISH', 'BEARISH', 'NEUTRAL', '']),
    put_call: pick(['CALL', 'PUT']),
    expiration_date: pick([DATE, '2026-12-18']),
    option_symbol: pick(['X1', 'X2', '']),
    strike: pick([1, 2]),
    oi: pick([10, 400, 3000]),
    // Few sizes and prices, so that cancel messages find prints.
    size: pick([1, 5, 20]),
    price: pick([1, 2]),
    premium: Math.round(random() * 1e7) / 100,
  }),
);

let folder: string;
let engine: Engine;
let drop: string;
let path: string;
let summary: readonly Record<string, unknown>[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-summary-'));
  engine = await openEmbeddedEngine({ path: join(folder, 'engine') });
  const job = createJob();
  const stage = await openStage(engine, job, DATE, '');
  await stage.put(windowAt(0), createPage(TRADES));
  drop = join(folder, 'drop.parquet');
  path = join(folder, 'summary.parquet');
  const columns = listDropColumns(job.source.columns, []);
  await writeParquet(engine, job, { table: stage.table, duplicates: 0 }, columns, drop);
  await writeFooter(drop, { columns, sort: job.drop.sort, keyValues: {} });
  await writeSummary(engine, { path: drop, date: DATE }, path);
  summary = await queryDuckDb(`SELECT * FROM '${path}'`);
});
afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

const rowOf = (symbol: string, segment = '') => {
  const row = summary.find((candidate) => candidate['symbol'] === symbol && candidate['segment'] === segment);
  return Object.fromEntries(Object.entries(row ?? {}).map(([name, value]) => [name, Number(value)]));
};
const near = (value: number) => expect.closeTo(value, 2);

describe('the summary', () => {
  it('has rows of all symbols and of each, whole and by segment, sorted, and is small', async () => {
    const rows = ['', 'A', 'NVDA', 'QQQ', 'SPY'].flatMap((symbol) => [
      [symbol, '', ''],
      [symbol, DATE, 'regular'],
    ]);
    expect(summary.map((row) => [row['symbol'], row['session_date'], row['segment']])).toEqual(rows);
    expect((await stat(path)).size).toBeLessThan(24_000);
  });

  it('has the numbers of the flow report on the same drop', async () => {
    const report = await buildFlowReport(
      engine,
      {
        ...{ dataset: 'trades', date: DATE, revision: 1, condition: 'available', rows: ROWS, min_time: null },
        ...{ max_time: null, sealed_at: '', sha256: '', location: 'x/trades.parquet', path: drop },
      },
      { symbols: ['SPY', 'QQQ', 'NVDA', 'A'], now: new Date(0), job: 'trades', before: [], marketStructure: null },
    );
    const shown = [
      ['', report.headline] as const,
      ...report.watchlist.map(({ symbol, flow }) => [symbol, flow] as const),
    ];
    expect(shown).toHaveLength(5);
    for (const [symbol, flow] of shown) {
      expect(rowOf(symbol)).toMatchObject({
        ...{ trades: flow?.trades, contracts: flow?.contracts },
        ...{ call_contracts: flow?.callContracts, put_contracts: flow?.putContracts },
        total_premium: near(flow?.total ?? -1),
        call_premium: near(flow?.calls ?? -1),
        put_premium: near(flow?.puts ?? -1),
        net_call_premium: near(flow?.netCalls ?? -1),
        net_put_premium: near(flow?.netPuts ?? -1),
        bullish_premium: near(flow?.bullish ?? -1),
        bearish_premium: near(flow?.bearish ?? -1),
        neutral_premium: near(flow?.neutral ?? -1),
        zero_dte_premium: near(flow?.zeroDte ?? -1),
        multi_leg_premium: near(flow?.multiLeg ?? -1),
        sweep_premium: near(flow?.sweep ?? -1),
      });
    }
    const { exclusions, volumeAboveOpenInterest: above } = report;
    expect(exclusions.cancelledPrints.trades).toBeGreaterThan(100);
    expect(rowOf('')).toMatchObject({
      ...{ series: above.ofSeries, volume_above_oi_series: above.series },
      volume_above_oi_premium: near(known(above.premium)),
      cancel_message_trades: exclusions.cancelMessages.trades,
      cancel_message_premium: near(known(exclusions.cancelMessages.premium)),
      cancelled_print_trades: exclusions.cancelledPrints.trades,
      cancelled_print_premium: near(known(exclusions.cancelledPrints.premium)),
      late_report_trades: exclusions.lateReports.trades,
      late_report_premium: near(known(exclusions.lateReports.premium)),
      recorded_trades: ROWS,
      recorded_premium: near(known(exclusions.recorded.premium)),
    });
  });

  it.each(['', 'SPY', 'A'])('has the sums of the rows of "%s"', (symbol) => {
    const own = TRADES.filter((row) => symbol === '' || row['symbol'] === symbol);
    const rows = listCounted(own);
    const sum = (keep: (row: TradeRow) => boolean) =>
      near(rows.filter(keep).reduce((total, row) => total + Number(row['premium']), 0));
    const is =
      (name: string, ...values: readonly unknown[]) =>
      (row: TradeRow) =>
        values.includes(row[name]);
    const both = (a: (row: TradeRow) => boolean, b: (row: TradeRow) => boolean) => (row: TradeRow) => a(row) && b(row);
    const [call, put] = [is('put_call', 'CALL'), is('put_call', 'PUT')];
    const [ask, bid] = [is('side', 'ASK', 'AASK'), is('side', 'BID', 'BBID')];
    const series = (row: TradeRow) =>
      ['symbol', 'option_symbol', 'put_call', 'strike', 'expiration_date'].map((name) => row[name]).join('|');
    const traded = groupBy(rows as readonly Trade[], series);
    const isAbove = (shown: readonly Trade[]) =>
      shown.reduce((volume, { size }) => volume + size, 0) > Number(openInterestOf(shown));
    const found = rowOf(symbol);
    expect(found).toMatchObject({
      trades: rows.length,
      call_ask_premium: sum(both(call, ask)),
      call_bid_premium: sum(both(call, bid)),
      put_ask_premium: sum(both(put, ask)),
      put_bid_premium: sum(both(put, bid)),
      zero_dte_premium: sum(is('expiration_date', DATE)),
      multi_leg_premium: sum(is('option_activity_type', 'MLET', 'TLFT')),
      sweep_premium: sum(is('option_activity_type', 'ISOI')),
      series: traded.size,
      volume_above_oi_series: [...traded.values()].filter(isAbove).length,
      unknown_oi_series: 0,
      recorded_trades: own.length,
      cancel_message_trades: own.filter(is('option_activity_type', 'CANC', 'CNOL')).length,
    });
    const left = ['cancel_message', 'cancelled_print', 'late_report'].map((name) => Number(found[`${name}_trades`]));
    expect(left.reduce((total, count) => total + count, rows.length)).toBe(own.length);
    expect(found['net_call_premium']).toBeCloseTo(
      Number(found['call_ask_premium']) - Number(found['call_bid_premium']),
      2,
    );
    expect(found['net_put_premium']).toBeCloseTo(
      Number(found['put_ask_premium']) - Number(found['put_bid_premium']),
      2,
    );
  });

  it('is right beside its drop, and wrong where one number is another or a symbol is missing', async () => {
    expect(await compareSummary(engine, { path: drop, date: DATE }, path)).toEqual([]);
    const change = async (sql: string) => {
      const other = join(folder, 'other.parquet');
      await rm(other, { force: true });
      await engine.command(`${sql} INTO OUTFILE '${other}' FORMAT Parquet`);
      return await compareSummary(engine, { path: drop, date: DATE }, other);
    };
    const file = `file('${path}', Parquet)`;
    expect(await change(`SELECT * REPLACE (sweep_premium + (symbol = 'QQQ') AS sweep_premium) FROM ${file}`)).toEqual([
      "the summary of QQQ differs from the drop's rows in sweep_premium",
      `the summary of QQQ, ${DATE} regular differs from the drop's rows in sweep_premium`,
    ]);
    expect(await change(`SELECT * FROM ${file} WHERE symbol != 'SPY'`)).toHaveLength(2);
    expect(await change(`SELECT * REPLACE ('curb' AS segment) FROM ${file} WHERE symbol = 'A'`)).toHaveLength(3);
  });

  it('says when each symbol traded: by half hour, the last second, and how many expirations', () => {
    const counted = TRADES.filter(({ symbol }) => symbol === 'SPY').filter(
      ({ option_activity_type: type }) => !['CANC', 'CNOL', 'LATE', 'OSEQ'].includes(String(type)),
    );
    const row = rowOf('SPY');
    // All trades are in the first two minutes; prints that a cancel message takes are in none of them.
    const spy = summary.find(({ symbol }) => symbol === 'SPY');
    expect(JSON.parse(String(spy?.['half_hours']))).toEqual({ '09:30': row['trades'] });
    expect(row['trades']).toBeGreaterThan(counted.length / 2);
    expect(row['expirations']).toBe(2);
    const last = Math.max(
      ...counted.map(({ time }) => Number(String(time).slice(14, 16)) * 60 + Number(String(time).slice(17))),
    );
    expect(row['last_trade_second']).toBeLessThanOrEqual(9 * 3600 + last);
    expect(row['last_trade_second']).toBeGreaterThan(9 * 3600 + last - 5);
  });

  it('that lacks a column of its own version is wrong', async () => {
    const other = join(folder, 'lacking.parquet');
    await engine.command(
      `SELECT * EXCEPT sweep_premium FROM file('${path}', Parquet) INTO OUTFILE '${other}' FORMAT Parquet`,
    );
    expect(await compareSummary(engine, { path: drop, date: DATE }, other)).toEqual([
      'the summary has no column sweep_premium',
    ]);
  });

  it('of a drop without rows has zeros for all symbols', async () => {
    const [empty, none] = [join(folder, 'empty.parquet'), join(folder, 'none.parquet')];
    await engine.command(`SELECT * FROM file('${drop}', Parquet) WHERE 0 INTO OUTFILE '${empty}' FORMAT Parquet`);
    await writeSummary(engine, { path: empty, date: DATE }, none);
    expect(await queryDuckDb(`SELECT symbol, trades::INTEGER AS trades, total_premium FROM '${none}'`)).toEqual([
      { symbol: '', trades: 0, total_premium: 0 },
    ]);
    expect(await compareSummary(engine, { path: empty, date: DATE }, none)).toEqual([]);
  });

  it('is made only of single trades with every column that it needs', () => {
    const all = createJob();
    expect(hasSummary(all, all.source.columns)).toBe(true);
    expect(
      hasSummary(
        all,
        all.source.columns.filter(({ name }) => name !== 'side'),
      ),
    ).toBe(false);
    const sql =
      'SELECT symbol, substring(time, 1, 16) AS time, sum(premium) AS premium FROM RawOptionTrades WHERE {window} GROUP BY symbol, time';
    const groups = parseSqlJob(
      'flow.yaml',
      `name: flow\nsource: {api: historical, sql: "${sql}", grain: minute, split: [symbol]}\ndrop: {to: out, dataset: flow}\n`,
    );
    expect(hasSummary(groups, all.source.columns)).toBe(false);
  });
});

/** Cancel messages in the order of time, each with the latest earlier print that it fits; the rule of the report. */
function listCounted(rows: readonly TradeRow[]): readonly TradeRow[] {
  const isCancel = (row: TradeRow) => ['CANC', 'CNOL'].includes(String(row['option_activity_type']));
  const key = (row: TradeRow) =>
    ['symbol', 'option_symbol', 'put_call', 'strike', 'expiration_date', 'size', 'price']
      .map((name) => row[name])
      .join('|');
  const place = (row: TradeRow) => `${row['time']} ${row['id']}`;
  const sorted = [...rows].sort((a, b) => (place(a) < place(b) ? -1 : 1));
  const taken = new Set<TradeRow>();
  for (const cancel of sorted.filter(isCancel)) {
    const print = sorted.findLast(
      (row) =>
        !isCancel(row) && !taken.has(row) && key(row) === key(cancel) && String(row['time']) <= String(cancel['time']),
    );
    if (print) taken.add(print);
  }
  return rows.filter(
    (row) => !isCancel(row) && !taken.has(row) && !['LATE', 'OSEQ'].includes(String(row['option_activity_type'])),
  );
}
