/**
 * Days whose records lack numbers or have codes that nobody knows, from the file to what a reader sees: no number that
 * cannot be computed is printed as 0, and what a sum is without stands beside it. That the sums are right is in
 * `naive.slow.test.ts` and `rebuild.test.ts`.
 */
import { describe, expect, it } from 'vitest';
import { isFulfilled } from '../../src/deliver/deliver-date.ts';
import { buildAttachments } from '../../src/report/attach/attach.ts';
import type { FlowReport } from '../../src/report/model.ts';
import type { PastSession } from '../../src/report/query/past-sessions.ts';
import { renderFullReport } from '../../src/report/render.ts';
import { printTable } from '../../src/report/report-table.ts';
import { listTables } from '../../src/report/report-tables.ts';
import { buildFlowView } from '../../src/report/text/mail-view.ts';
import { compareSummary } from '../../src/seal/summary.ts';
import { renderDigest, renderFlowReport } from './days.ts';
import { createTrade, TEMPLATES, type TradeChanges, useDrops } from './drop-file.ts';

const drops = useDrops();

const VIEW = { timezone: 'UTC', link: null, late: false, correction: null } as const;
const PUT = { put_call: 'PUT', sentiment: 'BEARISH', option_symbol: 'SPY261120P00600000', premium: 800 };

const listTrades = (changes: readonly TradeChanges[], date = '2026-11-19') =>
  changes.map((change, index) => createTrade({ id: String(index + 1), date, ...change }));

async function report(changes: readonly TradeChanges[], before: readonly PastSession[] = []): Promise<FlowReport> {
  const drop = await drops.write(listTrades(changes), { isLoose: true });
  return await drops.build(drop, { symbols: ['SPY', 'QQQ'], before });
}

async function summarise(date: string, changes: readonly TradeChanges[]): Promise<PastSession> {
  const past = await drops.summarise(date, listTrades(changes, date), { isLoose: true });
  const drop = { path: past.path.replace('.summary', ''), date };
  expect(await compareSummary(drops.engine, drop, past.path)).toEqual([]);
  return past;
}

/** Everything that a reader sees. */
async function render(model: FlowReport) {
  const options = { ...VIEW, templatesDir: TEMPLATES };
  const { subject, html, text } = await renderFlowReport(model, options);
  const full = await renderFullReport([{ title: 'trades', report: model }], options);
  const digest = await renderDigest([{ title: 'trades', report: model }], options);
  return { subject, html, text, full, digest };
}

describe('a day of which no trade has a premium', () => {
  it.each([
    ['null', null],
    ['NaN', Number.NaN],
    ['infinity', Number.POSITIVE_INFINITY],
    ['minus infinity', Number.NEGATIVE_INFINITY],
  ])('(%s) says that it cannot be computed and why, and nowhere $0.00 or balanced', async (_name, premium) => {
    const neutral = { ...PUT, premium, sentiment: 'NEUTRAL', gamma: 0.01 };
    const model = await report([{ premium }, { ...PUT, premium, gamma: 0.01 }, neutral]);
    expect(model.headline).toMatchObject({ trades: 3, unpriced: 3, total: null, calls: null, bullish: null, sweep: 0 });
    const { subject, html, text, digest } = await render(model);
    expect(subject).toBe('Flow 2026-11-19: premium cannot be computed (3 of 3 trades have no premium)');
    expect(digest.subject).toBe('Flow digest 2026-11-19: 1 dataset, trades premium cannot be computed');
    for (const part of [html, text, digest.html, digest.text]) {
      expect(part).toContain('cannot be computed');
      expect(part).toContain('3 of 3 trades have no premium');
      expect(part).not.toMatch(/balanced|NaN|Infinity|\binf\b/);
    }
    const glance = text.slice(0, text.indexOf('KEY NUMBERS'));
    expect(glance).not.toContain('$0.00');
    expect(text).toMatch(/^Premium +n\/a$/m);
  });

  it('says so in every file that leaves with the mail', async () => {
    const model = await report([{ premium: null }, { ...PUT, premium: null }]);
    const cellsOf = (name: string) => {
      const table = listTables(model).find((one) => one.name === name);
      return (table?.rows ?? []).map((row) =>
        Object.fromEntries(row.map((cell, at) => [table?.columns[at]?.name, cell])),
      );
    };
    const keyNumber = (name: string) => cellsOf('key-numbers').find((row) => row['name'] === name)?.['latest'];
    expect(keyNumber('Premium')).toBeNull();
    expect(keyNumber('Left out of premium: no premium')).toBe(2);
    // People see what is unknown, and no row of zeros; files have both.
    const [table] = listTables(model).filter((one) => one.name === 'key-numbers');
    const printed = (table ? printTable(table).rows : []).map(([name]) => name);
    expect(printed).toContain('Premium');
    expect(printed).toContain('Left out of premium: no premium');
    expect(printed).not.toContain('Left out: late reports');
    expect(keyNumber('Left out: late reports')).toBe(0);
    expect(cellsOf('symbols')[0]).toMatchObject({ symbol: 'SPY', premium: null, unpriced_trades: 2 });
    const { attachments } = await buildAttachments(model, ['csv', 'parquet', 'pdf'], {
      limitBytes: 1e7,
      timezone: 'UTC',
    });
    expect(attachments.map(({ filename }) => filename)).toContain('trades-2026-11-19-report.pdf');
    const csv = attachments.find(({ filename }) => filename.endsWith('key-numbers.csv'));
    expect(Buffer.from(csv?.bytes ?? []).toString()).toMatch(/,Premium,dollars,,/);
  });
});

describe('a day of which some trades have no premium', () => {
  const day = [{}, { premium: null }, { ...PUT }, { premium: Number.NaN, symbol: 'QQQ', option_symbol: 'QQQC' }];

  it('sums up the others, and says beside the sum how many it is without', async () => {
    const model = await report(day);
    expect(model.headline).toMatchObject({ trades: 4, unpriced: 2, total: 2050, calls: 1250, puts: 800, sweep: 0 });
    expect(model.topSymbols.map(({ symbol, total, unpriced }) => [symbol, total, unpriced])).toEqual([
      ['SPY', 2050, 1],
      ['QQQ', null, 1],
    ]);
    const { subject, text, full } = await render(model);
    expect(subject).toBe('Flow 2026-11-19: $2.05K premium (2 of 4 trades have no premium), 61% calls, bullish by $450');
    expect(text).toContain('* All premium sums leave out some trades: 2 of 4 trades have no premium.');
    expect(full).toContain('Of the largest symbols: SPY 1, QQQ 1.');
    expect(text).toMatch(/^QQQ +n\/a +n\/a/m);
  });

  it('is left out of the median of the next ones where nobody knows a symbol’s premium', async () => {
    const priced = [{}, { ...PUT }];
    const unpriced = [{ premium: null }, { ...PUT, symbol: 'QQQ', premium: 900 }];
    const past = [
      await summarise('2026-11-18', priced),
      await summarise('2026-11-17', unpriced),
      await summarise('2026-11-16', priced),
      await summarise('2026-11-13', priced),
    ];
    const model = await report(priced, past);
    // Three sessions of $2,050, and one of which nobody knows it: not four, one of them of 0.
    expect(model.watchlist[0]?.unusual).toMatchObject({ median: 2050, ratio: 1, sessions: 4 });
    expect(model.comparison.changes.total).toMatchObject({ latest: 2050, previous: 2050, median: 2050 });
  });
});

describe('a sum that no number can hold', () => {
  it('is not computed: of premium, of contracts’ exposure, of the comparison', async () => {
    const model = await report([{ premium: 1e308 }, { premium: 1e308, oi: 1, gamma: 1e308 }]);
    expect(model.headline).toMatchObject({ total: null, calls: null, puts: 0, unpriced: 0 });
    expect(model.comparison.changes.total.latest).toBeNull();
    const { subject, full } = await render(model);
    expect(subject).toBe('Flow 2026-11-19: premium cannot be computed (the sum is too large)');
    expect(full).toContain('the sum is beyond what a number can hold');
    const { exposure } = await report([{ gamma: 1e308 }]);
    expect(exposure.total).toMatchObject({ callGex: null, putGex: 0, netGex: null });
    expect(buildFlowView(await report([{ gamma: 1e308 }]), VIEW).lead?.netGex).toBe('n/a');
  });
});

describe('records of unknown codes', () => {
  it('are counted and named, and in no part that the code decides', async () => {
    const odd = { put_call: 'STRADDLE', sentiment: 'SIDEWAYS', side: null, option_activity_type: 'WHAT' };
    const model = await report([{}, { ...PUT }, odd, { ...odd, sentiment: null }]);
    expect(model.headline).toMatchObject({
      total: 4550,
      calls: 1250,
      puts: 800,
      bullish: 1250,
      bearish: 800,
      neutral: 0,
    });
    expect(model.exclusions.unknownCodes).toEqual([
      { column: 'put_call', trades: 2, values: [{ value: 'STRADDLE', trades: 2 }] },
      {
        ...{ column: 'sentiment', trades: 2 },
        values: [
          { value: 'SIDEWAYS', trades: 1 },
          { value: null, trades: 1 },
        ],
      },
      { column: 'side', trades: 2, values: [{ value: null, trades: 2 }] },
      { column: 'option_activity_type', trades: 2, values: [{ value: 'WHAT', trades: 2 }] },
    ]);
    const { full } = await render(model);
    expect(full).toContain(
      '2 trades have an unknown sentiment (&quot;SIDEWAYS&quot; 1 and none 1): neither bullish, bearish nor neutral.',
    );
    expect(full).toContain('2 trades have an unknown side (none 2): in no net premium.');
    expect(model.rebuildQueries.map(({ table }) => table)).toContain('Unknown sentiment');
  });

  it('count, whatever they lack: a record without a type is no late report', async () => {
    const model = await report([{ option_activity_type: null }, { option_activity_type: 'LATE' }]);
    expect(model.headline.trades).toBe(1);
    expect(model.exclusions).toMatchObject({ lateReports: { trades: 1 }, recorded: { trades: 2 } });
  });

  it('of several symbols that lack a part of the contract are not one series', async () => {
    const day = [{ option_symbol: null }, { option_symbol: null, symbol: 'QQQ' }, { strike: null, symbol: 'IWM' }];
    const model = await report(day);
    expect(model.volumeAboveOpenInterest.ofSeries).toBe(3);
    expect(model.exposure.top.map(({ symbol }) => symbol).toSorted()).toEqual(['IWM', 'QQQ', 'SPY']);
    const { path } = await summarise('2026-11-18', day);
    const rows = await drops.engine.rows(
      `SELECT symbol, trades FROM file('${path}', Parquet) WHERE segment = '' ORDER BY symbol`,
    );
    expect(rows.map((row) => Object.values(row))).toEqual([
      ['', 3],
      ['IWM', 1],
      ['QQQ', 1],
      ['SPY', 1],
    ]);
  });
});

describe('a condition on a number', () => {
  const condition = (number: 'premium' | 'bullish_share' | 'put_call_by_premium' | 'premium_change' | 'net_gex') => ({
    ...{ number, above: 1e12, below: null },
  });

  it('that cannot be computed is fulfilled: a reader must hear of such a day', async () => {
    const model = await report([{ premium: null }, { ...PUT, premium: null }]);
    for (const number of ['premium', 'bullish_share', 'put_call_by_premium', 'premium_change'] as const)
      expect(isFulfilled(condition(number), model), number).toBe(true);
    expect(isFulfilled(condition('net_gex'), model)).toBe(false);
  });

  it('that the day does not have is not fulfilled', async () => {
    const model = await report([{ ...PUT }]);
    for (const number of ['put_call_by_premium', 'premium_change'] as const)
      expect(isFulfilled(condition(number), model), number).toBe(false);
  });
});
