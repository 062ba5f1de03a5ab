/**
 * The report of a week: its numbers, recomputed in plain loops over the trades of six weeks; when it is due; what it says of
 * days that are not whole. Job files are in `test/job/reports.test.ts`, the layout in `test/report/browser.slow.test.ts`.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { summarizeReport } from '../../src/alert/report-post.ts';
import { listSessions } from '../../src/calendar/session.ts';
import { deliverReports } from '../../src/deliver/deliver.ts';
import { findLate } from '../../src/deliver/late.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { identifyReport } from '../../src/job/job.ts';
import { describeUnsealed } from '../../src/ledger/condition-file.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import type { Condition } from '../../src/plan/conditions.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { createTrade, TEMPLATES, type Trade } from '../report/drop-file.ts';
import { computePremium, computeVolumeAboveOpenInterest, splitFates } from '../report/plain-loops.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createRandom } from '../support/random.ts';
import { createReportJob, type DeliveryBench, openDeliveryBench } from './bench.ts';
import { sealDay } from './sealed-day.ts';

/** The week of Thanksgiving: Thursday is closed, Friday a half day. Two more weeks than it is compared with. */
const [FIRST, LAST] = ['2026-10-12', '2026-11-27'];
const SESSIONS = listSessions(FIRST, LAST);
const MONDAYS = ['2026-11-23', '2026-11-16', '2026-11-09', '2026-11-02', '2026-10-26'];
/** 09:30 to 13:15 of 09:30 to 16:15. */
const HALF = 225 / 405;

const EXPIRATIONS = ['2026-11-23', '2026-11-24', '2026-11-25', '2026-11-27', '2026-12-18'];
const SYMBOLS = ['SPY', 'SPX', 'SPXW', 'QQQ', 'VIX'];

/** Some trades of each of a few contracts, whose open interest grows or shrinks from day to day; cancels and late reports. */
function createDay(date: string): readonly Trade[] {
  const random = createRandom(Number(date.replaceAll('-', '')));
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const day = SESSIONS.indexOf(date);
  const trades: Trade[] = [];
  for (const [place, symbol] of SYMBOLS.entries()) {
    for (const [other, expiration] of EXPIRATIONS.entries()) {
      for (const right of ['CALL', 'PUT']) {
        // Not every contract trades every day.
        if (expiration < date || random() < 0.3) continue;
        const root = symbol === 'SPX' ? 'SPXW' : symbol;
        const strike = 100 + 5 * place;
        const series = {
          ...{ date, symbol, put_call: right, strike, expiration_date: expiration },
          option_symbol: `${root}${expiration.slice(2).replaceAll('-', '')}${right[0]}00${strike}000`,
          oi: Math.max(0, 500 * (other + 1) + day * (right === 'CALL' ? 40 + place : -30)),
        };
        for (let count = 0; count < 4; count += 1) {
          const price = Math.round(random() * 1000) / 100 + 0.01;
          const size = 1 + Math.floor(random() * 900);
          const minute = String(Math.floor(random() * 60)).padStart(2, '0');
          trades.push(
            createTrade({
              ...series,
              ...{ id: `${date}-${trades.length}`, time: `${date} 1${Math.floor(random() * 3)}:${minute}:00.000` },
              ...{ price, size, premium: Math.round(price * size * 10_000) / 100 },
              ...{ sentiment: pick(['BULLISH', 'BEARISH', 'NEUTRAL']), side: pick(['ASK', 'MID', 'BID']) },
              option_activity_type: pick(['AUTO', 'AUTO', 'AUTO', 'MLET', 'ISOI', 'LATE']),
            }),
          );
        }
      }
    }
  }
  const [first, second] = trades;
  const cancel = (one: Trade, id: string) => ({
    ...one,
    id,
    time: `${date} 12:59:59.000`,
    option_activity_type: 'CANC',
  });
  return first && second ? [...trades, cancel(first, `${date}-c1`), cancel(second, `${date}-c2`)] : trades;
}

const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);
const mondayOf = (date: string) => MONDAYS.find((monday) => monday <= date) ?? '';
const near = (value: number) => expect.closeTo(value, 4);

const { folder, keep } = useCleanups();

describe('the report of a week', () => {
  const counted = new Map<string, readonly Trade[]>();
  let cwd: string;
  let report: FlowReport;

  beforeAll(async () => {
    cwd = await folder();
    const store = await keep(openDirectoryStore(join(cwd, 'drops')));
    const engine = await openEmbeddedEngine();
    try {
      for (const date of SESSIONS) {
        const trades = createDay(date);
        counted.set(date, splitFates(trades).counted);
        await sealDay(engine, store, { date, trades });
      }
    } finally {
      await engine.close();
    }
    await writeJob(cwd, {
      reports: 'reports:\n  - template: weekly\n    to: [boss@example.com]\n    attach: [csv, pdf]',
    });
    const args = ['report', 'nightly', '--jobs', cwd, '--date', LAST, '--preview', 'out', '--json'];
    [report] = JSON.parse((await flowdrop(args, { cwd, code: 0 })).stdout) as [FlowReport];
  });

  const daysOf = (monday: string) => SESSIONS.filter((date) => mondayOf(date) === monday);
  const tradesOf = (dates: readonly string[]) => dates.flatMap((date) => counted.get(date) ?? []);

  it('has the numbers of each of its days and of the four weeks before', () => {
    const { days = [], before = [] } = report.week ?? {};
    expect(days.map(({ date, state, length }) => [date, state, length])).toEqual([
      ['2026-11-23', 'complete', 1],
      ['2026-11-24', 'complete', 1],
      ['2026-11-25', 'complete', 1],
      ['2026-11-26', 'closed', 0],
      ['2026-11-27', 'complete', HALF],
    ]);
    expect(before.map((week) => week.map(({ date }) => date))).toEqual(MONDAYS.slice(1).map(daysOf));
    for (const { date, numbers, state } of [...days, ...before.flat()]) {
      if (state === 'closed') continue;
      const { total, netCalls, netPuts, bullish, putCallByPremium } = computePremium(counted.get(date) ?? []);
      expect(numbers, date).toMatchObject({
        ...{ total: near(total ?? 0), netCalls: near(netCalls ?? 0), netPuts: near(netPuts ?? 0) },
        ...{ bullish: near(bullish ?? 0), putCallByPremium: near(putCallByPremium ?? 0) },
      });
    }
  });

  it('adds up its days, and compares an average session with the week before and the median of four', () => {
    const week = report.week;
    const own = computePremium(tradesOf(daysOf('2026-11-23')));
    for (const key of ['trades', 'total', 'calls', 'puts', 'netCalls', 'netPuts', 'bullish', 'bearish'] as const)
      expect(week?.sums[key], key).toEqual(near(own[key] ?? 0));
    const average = (monday: string, read: (trades: readonly Trade[]) => number) => {
      const lengths = daysOf(monday).map((date) => (date === LAST ? HALF : 1));
      return sum(daysOf(monday).map((date) => read(counted.get(date) ?? []))) / sum(lengths);
    };
    const middle = (values: readonly number[]) => {
      const [, a = 0, b = 0] = values.toSorted((x, y) => x - y);
      return (a + b) / 2;
    };
    const expectChange = (
      key: 'total' | 'netPuts' | 'putCallByPremium' | 'zeroDteShare' | 'volumeAboveOpenInterest',
      of: readonly number[],
    ) => {
      const [latest = 0, ...past] = of;
      expect(week?.changes[key], key).toEqual({
        ...{ latest: near(latest), previous: near(past[0] ?? 0), median: near(middle(past)) },
        place: { above: past.filter((value) => value < latest).length, sessions: 4 },
      });
    };
    expectChange(
      'total',
      MONDAYS.map((monday) => average(monday, (trades) => computePremium(trades).total ?? 0)),
    );
    expectChange(
      'netPuts',
      MONDAYS.map((monday) => average(monday, (trades) => computePremium(trades).netPuts ?? 0)),
    );
    const above = (trades: readonly Trade[]) => computeVolumeAboveOpenInterest(trades).premium ?? 0;
    expectChange(
      'volumeAboveOpenInterest',
      MONDAYS.map((monday) => average(monday, above)),
    );
    // Quotients are those of the sums.
    const whole = MONDAYS.map((monday) => computePremium(tradesOf(daysOf(monday))));
    expectChange(
      'putCallByPremium',
      whole.map(({ puts, calls }) => (puts ?? 0) / (calls ?? 1)),
    );
    expectChange(
      'zeroDteShare',
      whole.map(({ zeroDte, total }) => (zeroDte ?? 0) / (total ?? 1)),
    );
  });

  it('has what expired in it and what was opened, by the open interest of its mornings', () => {
    const dates = daysOf('2026-11-23');
    const nameOf = ({ symbol }: Trade) => (symbol === 'SPXW' ? 'SPX' : symbol);
    const seriesOf = (trade: Trade) => `${nameOf(trade)} ${trade.option_symbol}`;
    const all = [...new Set(tradesOf(dates).map(seriesOf))].map((name) => {
      const own = dates.map((date) => (counted.get(date) ?? []).filter((trade) => seriesOf(trade) === name));
      const traded = own.filter((trades) => trades.length > 0).map(([trade]) => trade as Trade);
      const [first, last] = [traded[0] as Trade, traded.at(-1) as Trade];
      return { symbol: nameOf(first), first, last, premium: sum(own.flat().map(({ premium }) => premium)) };
    });
    const gone = all.filter(({ first }) => first.expiration_date <= LAST);
    const bySymbol = [...new Set(gone.map(({ symbol }) => symbol))].map((symbol) => {
      const own = gone.filter((row) => row.symbol === symbol);
      const openInterest = sum(own.map(({ last }) => last.oi));
      return { symbol, premium: sum(own.map(({ premium }) => premium)), openInterest, series: own.length };
    });
    const listed = bySymbol.toSorted((a, b) => b.premium - a.premium);
    expect(listed.length).toBe(4);
    expect(report.week?.expiredSymbols).toEqual(listed.map((row) => ({ ...row, premium: near(row.premium) })));
    expect(report.week?.expired).toEqual({
      premium: near(sum(listed.map(({ premium }) => premium))),
      openInterest: sum(listed.map(({ openInterest }) => openInterest)),
      series: gone.length,
    });
    const opened = all
      .filter(({ first, last }) => first.expiration_date > LAST && last.oi > first.oi)
      .toSorted((a, b) => b.last.oi - b.first.oi - (a.last.oi - a.first.oi));
    expect(opened.length).toBeGreaterThan(2);
    expect(report.week?.openedSeries).toBe(opened.length);
    expect(report.week?.opened.map(({ before, after }) => after - before)).toEqual(
      opened.map(({ first, last }) => last.oi - first.oi),
    );
  });

  it('is a mail, a page, a PDF and tables', async () => {
    const text = await readFile(join(cwd, 'out', 'weekly-1.txt'), 'utf8');
    expect(text).toMatch(/^Subject: Flow, week to 2026-11-27: \$[\d.]+M premium, \d+% calls, /);
    expect(text).toContain('Week of Nov 23, 2026');
    expect(text).toContain('COMPLETE: 4 of 4 sessions');
    expect(text).toMatch(/^Thu, Nov 26 +– +– +– +– +Closed$/m);
    const html = await readFile(join(cwd, 'out', 'weekly-1.html'), 'utf8');
    for (const said of ['half day', '4-week median', 'What expired', 'What was opened']) expect(html).toContain(said);
    const days = await readFile(join(cwd, 'out', `weekly-1-trades-${LAST}-days.csv`), 'utf8');
    expect(days.split('\r\n')[0]).toMatch(/^date,day,state,reason,premium,/);
    expect(days).toContain(`${LAST},2026-11-26,Closed,,,`);
    const page = await readFile(join(cwd, 'out', 'weekly-1-full.html'), 'utf8');
    expect(page).toContain('Each day of these weeks');
    expect((await readFile(join(cwd, 'out', `weekly-1-trades-${LAST}-report.pdf`))).subarray(0, 5).toString()).toBe(
      '%PDF-',
    );
  });

  it('of the middle of a week is shown, but not mailed', async () => {
    const at = ['--jobs', cwd, '--date', '2026-11-24'];
    const shown = await flowdrop(['report', 'nightly', ...at, '--preview', 'middle'], { cwd, code: 0 });
    expect(shown.stdout).toContain('weekly-1.html');
    expect(await readFile(join(cwd, 'middle', 'weekly-1.txt'), 'utf8')).toContain('2 of 2 sessions');
    const { stdout } = await flowdrop(['report', 'nightly', ...at], { cwd, code: 0 });
    expect(stdout).toContain(
      'Weekly report of 2026-11-24: not mailed: a weekly report is mailed with the last session of its week, 2026-11-27; `flowdrop report nightly --preview DIR` shows the week so far',
    );
  });
});

describe('a report of a week is mailed', () => {
  const [MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY] = listSessions('2026-11-16', '2026-11-20') as [
    string,
    string,
    string,
    string,
    string,
  ];
  const weekly = createReportJob('template: weekly');
  let bench: DeliveryBench;
  beforeEach(async () => {
    bench = await openDeliveryBench();
  });
  afterEach(async () => await bench.close());

  const seal = async (date: string, more: Partial<Parameters<typeof sealDay>[2]> = {}) =>
    await sealDay(bench.engine, bench.store, { date, ...more });
  const run = async () => await deliverReports({ ...bench.context(), templatesDir: TEMPLATES }, weekly);
  /** Of dates that are not sealed. */
  const note = async (gaps: Readonly<Record<string, Condition>>) => {
    const ledger = new Ledger(bench.store, 'trades');
    const entries = Object.entries(gaps).map(([date, condition]) => describeUnsealed(date, condition));
    await ledger.writeConditions(entries, await ledger.conditions());
  };

  it('with the last session of the week, once, and late if the next one is over', async () => {
    for (const date of [MONDAY, TUESDAY, WEDNESDAY, THURSDAY]) {
      await seal(date);
      expect(await run()).toEqual([]);
    }
    await note({ [FRIDAY]: 'pending' });
    expect(await run()).toMatchObject([{ date: FRIDAY, pending: true }]);
    expect(await bench.arrived()).toEqual([]);
    const friday = await seal(FRIDAY);
    await run();
    await run();
    expect(await bench.arrived()).toEqual([
      'desk@example.com Flow, week to 2026-11-20: $10.3K premium, 61% calls, bullish by $2.25K',
    ]);
    // Neither the days after it nor a restatement are a reason for another.
    await seal(FRIDAY, { supersedes: friday as Manifest, trades: [{ premium: 9e6 }] });
    await seal('2026-11-23');
    await run();
    expect(await bench.arrived()).toEqual([]);
    // A week whose end was sealed after the next session.
    for (const date of ['2026-11-24', '2026-11-25', '2026-11-30']) await seal(date);
    await note({ '2026-11-27': 'pending' });
    expect(await run()).toMatchObject([{ date: '2026-11-27', pending: true }]);
    await seal('2026-11-27');
    await run();
    expect((await bench.arrived()).map((line) => line.split(':')[0])).toEqual([
      'desk@example.com Flow, week to 2026-11-27 [late]',
    ]);
  });

  it('of the last whole week, where it is new in the middle of one', async () => {
    for (const date of ['2026-11-13', THURSDAY, FRIDAY, '2026-11-23']) await seal(date);
    await run();
    const [line, ...others] = await bench.arrived();
    expect(line).toMatch(/^desk@example.com Flow, week to 2026-11-20 \[degraded\] \[late\]: /);
    expect(others).toEqual([]);
    const [mail] = await bench.mails();
    expect(mail?.text).toContain('Wed, Nov 18: not exported, the job did not ask for it.');
  });

  it('with Thursday where Friday is a holiday, or has nothing that will be sealed', async () => {
    await seal('2026-04-02');
    expect(await run()).toHaveLength(1);
    await seal(THURSDAY);
    await note({ [FRIDAY]: 'missing' });
    // The source may only be late.
    expect(await run()).toEqual([]);
    await seal('2026-11-23');
    expect(await run()).toHaveLength(1);
    await seal(FRIDAY);
    await note({ [FRIDAY]: 'available' });
    expect(await run()).toEqual([]);
    const [holiday, lost] = (await bench.mails()).map(({ text = '' }) => text);
    expect(holiday).toMatch(/^Fri, Apr 3 .*Closed$/m);
    expect(lost).toMatch(/^Fri, Nov 20 .*Missing$/m);
  });

  it('with the days that are not whole, and why, also in its subject', async () => {
    await seal(MONDAY);
    await seal(TUESDAY, { condition: 'degraded' });
    await seal(FRIDAY);
    await note({ [WEDNESDAY]: 'expired', [THURSDAY]: 'pending' });
    await run();
    const [mail] = await bench.mails();
    expect(mail?.subject).toMatch(/^Flow, week to 2026-11-20 \[degraded\]: /);
    const said = [
      'Tue, Nov 17: degraded, rows may be missing.',
      'Wed, Nov 18: lost, it left the source before it was sealed.',
      'Thu, Nov 19: pending, it can still be fetched.',
    ].join(' ');
    for (const part of [mail?.text, mail?.html]) expect(part).toContain(said);
    expect(mail?.text).toContain('3 DAYS INCOMPLETE: 3 of 5 sessions');
    expect(mail?.html).toMatch(/class="pill pill-warn"[^>]*>3 days incomplete</);
    expect(mail?.html).toMatch(/class="pill pill-warn"[^>]*>Lost</);
    // The first week has no earlier one.
    expect(mail?.text).toContain('There is no earlier week to compare with.');
  });

  it('not without the drop of another of its days', async () => {
    await seal(THURSDAY);
    await seal(FRIDAY);
    await bench.store.put(dropKey('trades', THURSDAY), { bytes: Buffer.from('no parquet') });
    expect(await run()).toMatchObject([
      { error: { code: 'DROP_DAMAGED', message: expect.stringContaining(THURSDAY) } },
    ]);
    expect(await bench.arrived()).toEqual([]);
  });

  it('and posted with the numbers of the week; no deadline of another day waits for it', async () => {
    for (const date of [MONDAY, FRIDAY]) await seal(date);
    await run();
    const { log } = bench.context();
    const place = { job: 'nightly', date: FRIDAY, report: identifyReport(weekly.reports[0] as never), revision: 1 };
    const occasion = { late: false, corrected: false, publicUrl: undefined };
    const posted = await summarizeReport(bench.store, log, weekly.reports[0] as never, place, occasion);
    expect(posted).toMatchObject({
      subject: expect.stringMatching(/^Flow, week to 2026-11-20/),
      numbers: { trades: { premium: { value: 4100 }, put_call_by_premium: { value: 0.64 } } },
      picture: { alt: expect.stringContaining('Premium of each day. The largest') },
    });
    expect(String(posted?.['text'])).toContain('The largest day was');
    const schedule = { cron: '31 16 * * 1-5', timezone: 'America/New_York', sealedBy: '17:30' };
    const job = { ...weekly, schedule: { ...createReportJob().schedule, ...schedule } } as never;
    const late = async (date: string, condition: Condition = 'available') =>
      await findLate(job, {
        ...{ store: bench.store, history: bench.context().history, calendar: undefined },
        ...{ nowMs: Date.parse(`${date}T23:00:00Z`), dates: [{ date, condition, accepted: null }] },
      });
    expect(await late(MONDAY)).toBeNull();
    expect(await late(FRIDAY)).toBeNull();
    expect(await late('2026-11-27')).toMatchObject({ lacks: expect.stringContaining('has not accepted') });
  });
});
