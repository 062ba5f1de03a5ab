/**
 * The summary of a drop: its numbers against plain loops over the rows, which are those that the flow report is compared with
 * in `test/report/naive.slow.test.ts`; which drops have one.
 */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Amount } from '../../src/report/amount.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { compareSummary, hasSummary, writeSummary } from '../../src/seal/summary.ts';
import { listDropColumns, writeParquet } from '../../src/seal/write-parquet.ts';
import { openStage } from '../../src/stage/stage.ts';
import type { Trade } from '../report/drop-file.ts';
import { known } from '../report/known.ts';
import {
  computeExclusions,
  computePremium,
  computeVolumeAboveOpenInterest,
  splitFates,
  sum,
} from '../report/plain-loops.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createRandom } from '../support/random.ts';
import { createJob, createPage, createTrade, DATE, windowAt } from '../support/trades.ts';

const ROWS = 3_000;
const TYPES = ['AUTO', 'AUTO', 'ISOI', 'MLET', 'SLAN', 'TLFT', 'CANC', 'CNOL', 'LATE', 'OSEQ'];
const random = createRandom(7);
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
const TRADES = Array.from({ length: ROWS }, (_, k) =>
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
) as Trade[]; // Rows as the API sends them.

const { folder: makeFolder } = useCleanups();
let folder: string;
let engine: Engine;
let drop: string;
let path: string;
let summary: readonly Record<string, unknown>[];

beforeAll(async () => {
  folder = await makeFolder();
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
afterAll(async () => await engine.close());

const rowOf = (symbol: string, segment = '') => {
  const row = summary.find((candidate) => candidate['symbol'] === symbol && candidate['segment'] === segment);
  return Object.fromEntries(Object.entries(row ?? {}).map(([name, value]) => [name, Number(value)]));
};
const near = (value: Amount) => expect.closeTo(known(value), 2);

describe('the summary', () => {
  it('has rows of all symbols and of each, whole and by segment, sorted, and is small', async () => {
    const rows = ['', 'A', 'NVDA', 'QQQ', 'SPY'].flatMap((symbol) => [
      [symbol, '', ''],
      [symbol, DATE, 'regular'],
    ]);
    expect(summary.map((row) => [row['symbol'], row['session_date'], row['segment']])).toEqual(rows);
    expect((await stat(path)).size).toBeLessThan(24_000);
  });

  it.each(['', 'A', 'NVDA', 'QQQ', 'SPY'])('has the numbers that plain loops make of the rows of "%s"', (symbol) => {
    const own = TRADES.filter((trade) => symbol === '' || trade.symbol === symbol);
    const fates = splitFates(own);
    expect(fates.cancelled.length).toBeGreaterThan(symbol === '' ? 100 : 0);
    const flow = computePremium(fates.counted);
    const above = computeVolumeAboveOpenInterest(fates.counted);
    const { cancelMessages, cancelledPrints, lateReports, recorded } = computeExclusions(fates);
    const premiumOf = (right: string, ...sides: readonly string[]) =>
      sum(
        fates.counted.filter(({ put_call, side }) => put_call === right && sides.includes(side)),
        ({ premium }) => premium,
      );
    expect(rowOf(symbol)).toMatchObject({
      ...{ trades: flow.trades, contracts: flow.contracts },
      ...{ call_contracts: flow.callContracts, put_contracts: flow.putContracts },
      total_premium: near(flow.total),
      call_premium: near(flow.calls),
      put_premium: near(flow.puts),
      net_call_premium: near(flow.netCalls),
      net_put_premium: near(flow.netPuts),
      call_ask_premium: near(premiumOf('CALL', 'ASK', 'AASK')),
      call_bid_premium: near(premiumOf('CALL', 'BID', 'BBID')),
      put_ask_premium: near(premiumOf('PUT', 'ASK', 'AASK')),
      put_bid_premium: near(premiumOf('PUT', 'BID', 'BBID')),
      bullish_premium: near(flow.bullish),
      bearish_premium: near(flow.bearish),
      neutral_premium: near(flow.neutral),
      zero_dte_premium: near(flow.zeroDte),
      multi_leg_premium: near(flow.multiLeg),
      sweep_premium: near(flow.sweep),
      ...{ series: above.ofSeries, volume_above_oi_series: above.series, unknown_oi_series: above.unknownSeries },
      volume_above_oi_premium: near(above.premium),
      cancel_message_trades: cancelMessages.trades,
      cancel_message_premium: near(cancelMessages.premium),
      cancelled_print_trades: cancelledPrints.trades,
      cancelled_print_premium: near(cancelledPrints.premium),
      late_report_trades: lateReports.trades,
      late_report_premium: near(lateReports.premium),
      recorded_trades: own.length,
      recorded_premium: near(recorded.premium),
    });
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
    const { counted } = splitFates(TRADES.filter(({ symbol }) => symbol === 'SPY'));
    const spy = summary.find(({ symbol }) => symbol === 'SPY');
    // All trades are in the first two minutes.
    expect(JSON.parse(String(spy?.['half_hours']))).toEqual({ '09:30': counted.length });
    const seconds = counted.map(({ time }) => (Date.parse(`${time.replace(' ', 'T')}Z`) / 1000) % 86_400);
    expect(rowOf('SPY')).toMatchObject({ expirations: 2, last_trade_second: Math.max(...seconds) });
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
    const lacking = all.source.columns.filter(({ name }) => name !== 'side');
    expect(hasSummary(all, lacking)).toBe(false);
    const sql =
      'SELECT symbol, substring(time, 1, 16) AS time, sum(premium) AS premium FROM RawOptionTrades WHERE {window} GROUP BY symbol, time';
    const groups = parseSqlJob(
      'flow.yaml',
      `name: flow\nsource: {api: historical, sql: "${sql}", grain: minute, split: [symbol]}\ndrop: {to: out, dataset: flow}\n`,
    );
    expect(hasSummary(groups, all.source.columns)).toBe(false);
  });
});
