/**
 * Whether a day looks like the sessions before it: days that must be no alarm (noise, a half day, an expiration Friday, a
 * thin dataset), and one fault of the source at a time. Days are drawn at random, half hour by half hour. Where people are told, of a symbol whose
 * file ends early: `test/flow/baseline.slow.test.ts`.
 */
import { describe, expect, it } from 'vitest';
import { isHalfDay, previousSessions, sessionCloseSecond } from '../../src/calendar/session.ts';
import { type DayShape, judgeBaseline, type SymbolShape } from '../../src/seal/baseline.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createRandom } from '../support/random.ts';

const check = parseSqlJob(
  'nightly.yaml',
  'name: nightly\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: trades\nchecks:\n  - check: baseline\n',
).checks.find((one) => one.check === 'baseline');
if (check === undefined) throw new TypeError('the job has no baseline');

/** Trades a day: SPY and QQQ trade until 16:15, the others until 16:00; the last ones trade now and then. */
const TRADES: Readonly<Record<string, number>> = {
  ...{ SPY: 90_000, QQQ: 40_000, NVDA: 30_000, TSLA: 20_000, AAPL: 9_000 },
  ...Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`S${index}`, 3_000 - index * 45])),
  ...Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`T${index}`, 3])),
};
const LATE = ['SPY', 'QQQ'];
const START = 34_200;

type Changes = (symbol: string, shape: SymbolShape) => SymbolShape | undefined;

/** @param busy multiple of a usual day's trades */
function createDay(date: string, seed: number, busy = 1, change: Changes = (_, shape) => shape): DayShape {
  const random = createRandom(seed);
  // The product of four numbers around 1: half to double, as a symbol's volume is from day to day.
  const vary = () => Array.from({ length: 4 }, () => 0.8 + random() * 0.45).reduce((all, one) => all * one, 1);
  const close = sessionCloseSecond(date);
  const share = (close - START) / (58_500 - START);
  const symbols = new Map<string, SymbolShape>();
  for (const [symbol, usual] of Object.entries(TRADES)) {
    const trades = Math.round(usual * vary() * busy * share);
    const end = LATE.includes(symbol) ? close : close - 900;
    const slots = Math.ceil((end - START) / 1800);
    const halfHours = Array.from({ length: 14 }, (_, index) => (index < slots ? Math.round(trades / slots) : 0));
    const lastTrade = trades > 200 ? end - Math.floor(random() * 60) : START + Math.floor(random() * (end - START));
    const premium = trades * 3_000 * vary();
    const rights = { calls: 0.6 * premium, puts: 0.4 * premium };
    const shape = { trades, premium, ...rights, expirations: 20, lastTrade, halfHours };
    const changed = change(symbol, shape);
    if (changed && changed.trades > 0) symbols.set(symbol, changed);
  }
  const all = [...symbols.values()];
  const sum = (read: (shape: SymbolShape) => number) => all.reduce((total, shape) => total + read(shape), 0);
  const rows = sum(({ trades }) => trades);
  symbols.set('', {
    ...{ trades: rows, premium: sum(({ premium }) => premium ?? 0), expirations: 60 },
    ...{ calls: sum(({ calls }) => calls ?? 0), puts: sum(({ puts }) => puts ?? 0) },
    lastTrade: Math.max(...all.map(({ lastTrade }) => lastTrade)),
    halfHours: Array.from({ length: 14 }, (_, index) => sum(({ halfHours }) => halfHours[index] ?? 0)),
  });
  return { date, rows, nulls: new Map([['iv', Math.round(rows * 0.01)]]), symbols };
}

/** The sessions before the date, newest first, without half days. */
function listPast(date: string, seed: number, count = 5): readonly DayShape[] {
  const before = previousSessions(date, count + 4).slice(0, -1);
  return before
    .filter((other) => !isHalfDay(other))
    .reverse()
    .slice(0, count)
    .map((other, index) => createDay(other, seed * 100 + index));
}

const DATE = '2026-11-19';
const judge = (today: DayShape, past = listPast(today.date, 7)) => judgeBaseline(check, today, past);
const saying = (today: DayShape) => (judge(today).findings ?? []).map(({ says }) => says);

describe('a day that is no alarm', () => {
  it('is one of two hundred usual days', () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const found = judge(createDay(DATE, seed), listPast(DATE, seed));
      expect(found.findings, `seed ${seed}`).toEqual([]);
    }
  });

  it.each(['2026-11-27', '2026-12-24', '2027-11-26'])('is the half day %s', (date) => {
    expect(isHalfDay(date)).toBe(true);
    expect(judge(createDay(date, 3)).findings).toEqual([]);
  });

  it('is an expiration Friday with twice the trades', () => {
    expect(judge(createDay('2026-12-18', 4, 2)).findings).toEqual([]);
  });

  it('is the session after a half day', () => {
    const found = judge(createDay('2026-11-30', 5));
    expect(found.findings).toEqual([]);
    expect(found.sessions).not.toContain('2026-11-27');
  });

  it('is one with fewer than three sessions before it, whatever it has', () => {
    const tiny = createDay(DATE, 1, 0.01);
    expect(judge(tiny, listPast(DATE, 7, 2))).toMatchObject({ passed: true, found: 0, sessions: expect.any(Array) });
    expect(judge(tiny, listPast(DATE, 7, 3)).passed).toBe(false);
  });
});

describe('a fault of the source', () => {
  const change = (symbol: string, changed: (shape: SymbolShape) => Partial<SymbolShape> | undefined) =>
    createDay(DATE, 9, 1, (name, shape) => {
      if (name !== symbol) return shape;
      const partial = changed(shape);
      return partial && { ...shape, ...partial };
    });

  it('is a symbol of 16:00 that ends at 15:40', () => {
    expect(saying(change('NVDA', () => ({ lastTrade: 15 * 3600 + 40 * 60 })))).toEqual([
      "NVDA's last trade 15:40, 20 minutes before the close",
    ]);
  });

  it('is said once when the whole day ends early', () => {
    const end = 14 * 3600;
    const day = createDay(DATE, 9, 1, (_, shape) => ({
      ...shape,
      lastTrade: Math.min(end, shape.lastTrade),
      halfHours: shape.halfHours.map((trades, index) => (index + 19 < 28 ? trades : 0)),
    }));
    expect(saying(day)).toEqual(['the last trade of the day is at 14:00, 135 minutes before the close']);
  });

  it('is a gap of an hour, in one symbol or in all', () => {
    const silence = (shape: SymbolShape) => ({
      halfHours: shape.halfHours.map((trades, index) => (index === 4 || index === 5 ? 0 : trades)),
    });
    expect(saying(change('TSLA', silence))).toEqual(['TSLA has no trades from 11:30 to 12:30']);
    const all = createDay(DATE, 9, 1, (_, shape) => ({ ...shape, ...silence(shape) }));
    expect(saying(all)).toEqual(['no symbol trades from 11:30 to 12:30']);
  });

  it('is a day with a third of the trades', () => {
    const [first, second, ...rest] = saying(createDay(DATE, 9, 0.33));
    expect(first).toMatch(/^the day has [\d,]+ trades, usually [\d,]+$/);
    expect(second).toMatch(/^the day's premium is \$[\d.]+[MB], usually \$/);
    expect(rest).toEqual([]);
  });

  it('is two gaps, and a day without a put or without a call', () => {
    const apart = (shape: SymbolShape) => ({
      halfHours: shape.halfHours.map((trades, index) => (index === 4 || index === 7 ? 0 : trades)),
    });
    expect(saying(change('TSLA', apart))).toEqual(['TSLA has no trades in the half hours from 11:30, 13:00']);
    const without = (right: 'calls' | 'puts') =>
      saying(createDay(DATE, 9, 1, (_, shape) => ({ ...shape, [right]: 0 })));
    expect(without('puts')).toEqual([expect.stringMatching(/^no put has traded, usually for \$[\d.]+[MB]$/)]);
    expect(without('calls')).toEqual([expect.stringMatching(/^no call has traded, usually for \$[\d.]+[MB]$/)]);
  });

  it('is a symbol without most of its premium, and no symbol with a block trade', () => {
    const said = (times: number) => saying(change('AAPL', ({ premium }) => ({ premium: (premium ?? 0) * times })));
    expect(said(0.01)).toEqual([expect.stringMatching(/^AAPL's premium is \$[\d.]+K, usually \$/)]);
    expect(said(20)).toEqual([]);
  });

  it('is a symbol that vanished, and several', () => {
    expect(saying(change('NVDA', () => undefined))).toEqual([
      expect.stringMatching(/^NVDA has no trades, usually [\d,]+$/),
    ]);
    const day = createDay(DATE, 9, 1, (name, shape) => (/^S[1-4]$/.test(name) ? undefined : shape));
    expect(saying(day)).toEqual(['4 symbols that traded in every earlier session have no trades: S1, S2, S4, …']);
  });

  it('is a thin symbol of no session before only when there are many', () => {
    const add = (count: number): DayShape => {
      const day = createDay(DATE, 9);
      const shape = { trades: 4, premium: 100, calls: 100, puts: 0, expirations: 1, lastTrade: 40_000, halfHours: [] };
      const more = Array.from({ length: count }, (_, index) => [`N${index}`, shape] as const);
      return { ...day, symbols: new Map([...day.symbols, ...more]) };
    };
    expect(saying(add(9))).toEqual([]);
    expect(saying(add(30))).toEqual(['30 of 135 symbols are new: N0, N1, N2, …']);
  });

  it('is a column that is null much more often', () => {
    const day = createDay(DATE, 9);
    expect(saying({ ...day, nulls: new Map([['iv', Math.round(day.rows * 0.4)]]) })).toEqual([
      '40.0% of rows have no iv, usually 1.0%',
    ]);
  });

  it('is a day with a handful of expirations', () => {
    const day = createDay(DATE, 9);
    const all = day.symbols.get('');
    if (all === undefined) throw new TypeError('no row of all symbols');
    expect(saying({ ...day, symbols: new Map([...day.symbols, ['', { ...all, expirations: 4 }]]) })).toEqual([
      'the trades have 4 expiration dates, usually 60',
    ]);
  });
});
