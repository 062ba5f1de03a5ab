/**
 * The report's numbers against a second implementation in plain loops, over random days with cancel messages, late
 * reports, hostile texts and missing numbers, one with nulls, NaN and infinities in every column, each with a history of summaries. Seeds are fixed, so that a failure can
 * be looked at again. Exposure: `exposure.test.ts`; the printed queries: `rebuild.test.ts`.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { addDays } from '../../src/calendar/wall-clock.ts';
import type { FlowReport } from '../../src/report/model.ts';
import type { Premium } from '../../src/report/numbers.ts';
import type { PastSession } from '../../src/report/query/past-sessions.ts';
import { listTables } from '../../src/report/report-tables.ts';
import { type Trade, useDrops } from './drop-file.ts';
import { known, knownAll } from './known.ts';
import {
  computeExclusions,
  computePremium,
  computeVolumeAboveOpenInterest,
  daysLeft,
  expectSame,
  groupBy,
  isAdjusted,
  isSettled,
  isZeroDte,
  medianOf,
  SWEEPS,
  seriesOf,
  splitFates,
  spotOf,
  stateOf,
  sum,
} from './plain-loops.ts';
import { createRandomDay, HOSTILE } from './random-day.ts';

const PRINTS = 3000;
/** Newest first. */
const BEFORE = ['2026-11-18', '2026-11-17', '2026-11-16', '2026-11-13', '2026-11-12', '2026-11-11'];
const SYMBOLS = ['S0', 'S14', 'NONE', ...HOSTILE];

/** The second date is a monthly expiration. */
describe.each([
  [1, 0, '2026-11-19'],
  [2, 0, '2026-11-20'],
  [3, 0, '2026-11-19'],
  [4, 0, '2026-11-20'],
  [5, 0.02, '2026-11-20'],
])('random day %i, with gaps in %d of its cells, %s', (seed, gaps, today) => {
  const burst = { symbol: 'S5', times: 6 };
  const trades = createRandomDay(seed, { date: today, prints: PRINTS, burst, gaps });
  const past = BEFORE.map((date, index) => createRandomDay(seed * 100 + index, { date, prints: 600 }));
  const fates = splitFates(trades);
  const { counted } = fates;
  const pastCounted = past.map((day) => splitFates(day).counted);
  const drops = useDrops();
  let report: FlowReport;

  beforeAll(async () => {
    const before: PastSession[] = [];
    for (const [index, date] of BEFORE.entries()) before.push(await drops.summarise(date, past[index] ?? []));
    const drop = await drops.write(trades, { isLoose: gaps > 0 });
    report = await drops.build(drop, { symbols: SYMBOLS, before });
  });

  it('leaves out the same records, each of them once', () => {
    const expected = computeExclusions(fates);
    expectSame(report.exclusions, expected);
    expect(expected.cancelledPrints.trades).toBeGreaterThan(100);
    expect(expected.unmatchedCancels).toBeGreaterThan(10);
    const { cancelMessages, cancelledPrints, lateReports, recorded } = report.exclusions;
    const leftOut = cancelMessages.trades + cancelledPrints.trades + lateReports.trades;
    expect(report.headline.trades + leftOut).toBe(recorded.trades);
  });

  it('has the headline of plain loops', () => {
    expectSame(report.headline, computePremium(counted));
  });

  it('has the half hours of plain loops, without a hole', () => {
    const slots = groupBy(counted, (trade) => startOf(trade.time));
    for (const { start, ...slot } of report.halfHours) expectSame(slot, computePremium(slots.get(start) ?? []));
    const minutes = report.halfHours.map(({ start }) => Number(start.slice(0, 2)) * 60 + Number(start.slice(3)));
    expect(minutes).toEqual(minutes.map((_, index) => (minutes[0] ?? 0) + 30 * index));
    expect(sum(report.halfHours, ({ trades: own }) => own)).toBe(counted.length);
  });

  it('has the expirations and the moneyness of plain loops', () => {
    const expiryOf = (trade: Trade) => {
      if (trade.expiration_date === null) return 'unknown';
      const days = daysLeft(trade);
      return isZeroDte(trade) ? '0DTE' : days <= 7 ? 'week' : days <= 31 ? 'month' : 'later';
    };
    const moneynessOf = ({ moneyness }: Trade) =>
      ['ITM', 'ATM', 'OTM'].includes(String(moneyness)) ? String(moneyness) : 'unknown';
    expect(report.expiries.map(({ bucket }) => bucket)).toEqual(['0DTE', 'week', 'month', 'later', 'unknown']);
    expect(report.moneyness.map(({ bucket }) => bucket)).toEqual(['ITM', 'ATM', 'OTM', 'unknown']);
    for (const [parts, bucketOf] of [[report.expiries, expiryOf] as const, [report.moneyness, moneynessOf] as const]) {
      const groups = groupBy(counted, bucketOf);
      for (const { bucket, ...part } of parts) {
        const { trades: count, contracts, total, calls, puts } = computePremium(groups.get(bucket) ?? []);
        if (bucket !== 'unknown') expect(count).toBeGreaterThan(100);
        expectSame(part, { trades: count, contracts, total, calls, puts });
      }
    }
  });

  it('has the contracts of plain loops, by premium', () => {
    const sums = [...groupBy(counted, seriesOf).values()].map((own) => computePremium(own));
    const largest = sums.filter(({ total }) => total !== null).sort((a, b) => known(b.total) - known(a.total));
    expect(report.topContracts).toHaveLength(10);
    for (const [index, { premium, trades: count, volume }] of report.topContracts.entries()) {
      expectSame(
        { premium, count, volume },
        {
          ...{ premium: largest[index]?.total, count: largest[index]?.trades, volume: largest[index]?.contracts },
        },
      );
    }
  });

  it('has what drove the day of plain loops', () => {
    const of = (trade: Trade, sentiment: string) =>
      trade.sentiment === sentiment ? (Number.isFinite(trade.premium) ? Number(trade.premium) : 0) : 0;
    const sided = counted.filter(({ put_call: right }) => right === 'CALL' || right === 'PUT');
    const groups = groupBy(sided, ({ symbol, put_call: right, expiration_date: day }) =>
      [symbol, right, day].join('|'),
    );
    const sums = [...groups.values()].map((own) => ({
      bullish: sum(own, (trade) => of(trade, 'BULLISH')),
      bearish: sum(own, (trade) => of(trade, 'BEARISH')),
    }));
    const largest = sums.sort((a, b) => Math.abs(b.bullish - b.bearish) - Math.abs(a.bullish - a.bearish)).slice(0, 5);
    expect(report.drivers.top).toHaveLength(5);
    for (const [index, { bullish, bearish }] of report.drivers.top.entries())
      expectSame({ bullish, bearish }, largest[index] ?? {});
    for (const side of ['bullish', 'bearish'] as const) {
      const driver = report.drivers[side];
      const whole = sided.filter(
        ({ symbol, put_call: right }) =>
          symbol === driver?.symbol && right === (driver.right === 'calls' ? 'CALL' : 'PUT'),
      );
      const own = whole.filter(
        ({ expiration_date: day }) => driver?.expirationDate === null || day === driver?.expirationDate,
      );
      const total = (trades: readonly Trade[]) => sum(trades, (trade) => of(trade, side.toUpperCase()));
      expectSame({ dollars: driver?.[side] }, { dollars: total(own) });
      // No other side of a symbol has more; one expiration stands for it only with more than half.
      const sides = [...groupBy(sided, ({ symbol, put_call: right }) => `${symbol}|${right}`).values()].map(total);
      expectSame({ most: total(whole) }, { most: Math.max(...sides) });
      if (driver?.expirationDate !== null) expect(total(own)).toBeGreaterThan(total(whole) / 2);
    }
  });

  it('has the symbols with the largest change of plain loops', () => {
    const premiums = (day: readonly Trade[]) =>
      new Map([...groupBy(day, ({ symbol }) => symbol)].map(([symbol, own]) => [symbol, computePremium(own).total]));
    const [now, then] = [premiums(counted), premiums(pastCounted[0] ?? [])];
    const changes = [...now].flatMap(([symbol, premium]) => {
      const previous = then.has(symbol) ? then.get(symbol) : 0;
      return premium == null || previous == null ? [] : [Math.abs(premium - previous)];
    });
    const found = report.movers.map(({ premium, previous }) => Math.abs(premium - previous));
    expectSame(found, changes.sort((a, b) => b - a).slice(0, found.length));
    if (gaps === 0) expect(found).toHaveLength(3);
  });

  it('has the symbols of plain loops, by premium and by net sentiment', () => {
    const flows = [...groupBy(counted, ({ symbol }) => symbol)].map(([symbol, own]) => ({
      symbol,
      ...computePremium(own),
    }));
    const names = (list: readonly { symbol: string }[]) => list.map(({ symbol }) => symbol);
    const lean = (flow: Premium) => known(flow.bullish) - known(flow.bearish);
    const by = (value: (flow: Premium) => number) => [...flows].sort((a, b) => value(b) - value(a));
    expect(report.symbolCount).toBe(flows.length);
    expect(names(report.topSymbols)).toEqual(names(by(({ total }) => known(total)).slice(0, 10)));
    expect(names(report.mostBullish)).toEqual(
      names(
        by(lean)
          .filter((flow) => lean(flow) > 0)
          .slice(0, 5),
      ),
    );
    expect(names(report.mostBearish)).toEqual(
      names(
        by((flow) => -lean(flow))
          .filter((flow) => lean(flow) < 0)
          .slice(0, 5),
      ),
    );
    const shown = [...report.topSymbols, ...report.mostBullish, ...report.mostBearish];
    for (const flow of shown) expectSame(flow, flows.find(({ symbol }) => symbol === flow.symbol) ?? {});
    expect(report.topSymbols.map(({ place }) => place)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('has the series above their open interest of plain loops', () => {
    const expected = computeVolumeAboveOpenInterest(counted);
    expectSame(report.volumeAboveOpenInterest, expected);
    expect(expected.series).toBeGreaterThan(10);
  });

  it('has the biggest trades of plain loops, in order', () => {
    const priced = counted.filter(({ premium }) => premium !== null && Number.isFinite(premium));
    const sorted = priced.sort((a, b) => b.premium - a.premium || compare(a.time, b.time) || compare(a.id, b.id));
    const expected = sorted.slice(0, 10).map((trade) => ({
      ...{ id: trade.id, time: trade.time.slice(11), symbol: trade.symbol, size: trade.size, price: trade.price },
      ...{ premium: trade.premium, side: trade.side, sentiment: trade.sentiment, openInterest: trade.oi },
      ...{ side: trade.side ?? '', sentiment: trade.sentiment ?? '' },
      spot: positiveOrNull(trade.underlying_price),
      impliedVolatility: positiveOrNull(trade.iv),
      days: trade.expiration_date === null ? null : daysLeft(trade),
      activityType: trade.option_activity_type ?? '',
      multiLeg: ['MLET', 'MLAI', 'TLFT', 'MESL'].includes(trade.option_activity_type),
      sweep: SWEEPS.includes(trade.option_activity_type),
    }));
    expect(report.biggestTrades).toMatchObject(expected);
  });

  it('compares with the session before and the median of all', () => {
    const { comparison } = report;
    expect(comparison.previousDate).toBe(BEFORE[0]);
    expect(comparison.dates).toEqual(BEFORE);
    const numbersOf = (day: readonly Trade[]) => {
      const premium = computePremium(day);
      const { zeroDte, multiLeg, sweep, total, calls, puts } = knownAll({
        ...{ zeroDte: premium.zeroDte, multiLeg: premium.multiLeg, sweep: premium.sweep },
        ...{ total: premium.total, calls: premium.calls, puts: premium.puts },
      });
      const shares = {
        ...{ zeroDteShare: zeroDte / total, multiLegShare: multiLeg / total, sweepShare: sweep / total },
        ...{ callShare: calls / total, putShare: puts / total },
      };
      return { ...premium, ...shares, volumeAboveOpenInterest: computeVolumeAboveOpenInterest(day).premium };
    };
    const [latest, before] = [numbersOf(counted), pastCounted.map(numbersOf)];
    for (const [name, change] of Object.entries(comparison.changes)) {
      const of = (numbers: object) => Number((numbers as Record<string, unknown>)[name]);
      expectSame(change, { latest: of(latest), previous: of(before[0] ?? {}), median: medianOf(before.map(of)) });
      expect(change.place?.above ?? 0).toBe(before.filter((day) => of(day) < of(latest)).length);
    }
    expect(Object.keys(comparison.changes)).toHaveLength(18);
  });

  it('names the symbols that stand out against their own sessions', () => {
    const pastOf = (symbol: string) => pastCounted.map((day) => day.filter((trade) => trade.symbol === symbol));
    const candidates = [...groupBy(counted, ({ symbol }) => symbol)].flatMap(([symbol, own]) => {
      const sessions = pastOf(symbol);
      const median = medianOf(sessions.map((day) => sum(day, ({ premium }) => premium)));
      const { total, netCalls, netPuts, bullish, bearish } = computePremium(own);
      const traded = sessions.filter((day) => day.length > 0).length;
      const previous = sum(sessions[0] ?? [], ({ premium }) => premium);
      const base = { symbol, premium: total, previous, median, ratio: known(total) / median, sessions: traded };
      // Records without a symbol have no history: a summary counts them in its total only.
      return symbol === '' || traded < 3 || median === 0 ? [] : [{ ...base, netCalls, netPuts, bullish, bearish }];
    });
    const expected = candidates
      .filter(({ premium, ratio }) => known(premium) >= 1e6 && ratio >= 2)
      .sort((a, b) => b.ratio - a.ratio)
      .slice(0, 10);
    expect(report.unusual.map(({ symbol }) => symbol)).toEqual(expected.map(({ symbol }) => symbol));
    for (const [index, row] of expected.entries()) expectSame(report.unusual[index], row);
    expect(expected.map(({ symbol }) => symbol)).toContain('S5');
    for (const { symbol, unusual } of report.watchlist) {
      const own = candidates.find((candidate) => candidate.symbol === symbol);
      if (own) expectSame(unusual, own);
      else expect(unusual).toBeNull();
    }
  });

  it('has the price of each underlying, and the gamma and delta exposure, of plain loops', () => {
    for (const { symbol, spot, callGex, putGex, callDex, putDex } of report.exposure.top) {
      const own = counted.filter((trade) => trade.symbol === symbol);
      expectSame({ spot }, { spot: spotOf(own) });
      const sums = { callGex: 0, putGex: 0, callDex: 0, putDex: 0 };
      for (const series of groupBy(own, seriesOf).values()) {
        if (series.some(isSettled) || series.some(isAdjusted)) continue;
        const { gamma, delta, openInterest, shares } = stateOf(series);
        const shown = openInterest * shares * (spot ?? 0);
        if (series[0]?.put_call === 'CALL') {
          sums.callGex += gamma * shown * (spot ?? 0) * 0.01;
          sums.callDex += delta * shown;
        } else if (series[0]?.put_call === 'PUT') {
          sums.putGex -= gamma * shown * (spot ?? 0) * 0.01;
          sums.putDex += delta * shown;
        }
      }
      expectSame({ callGex, putGex, callDex, putDex }, sums);
    }
  });

  it('has the part of each symbol’s gamma that rolls off with an expiration of plain loops', () => {
    const table = listTables(report).find(({ name }) => name === 'gex-by-expiration');
    const names = table?.columns.map(({ name }) => name) ?? [];
    const rows = (table?.rows ?? []).map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])));
    expect(rows.length).toBeGreaterThan(gaps === 0 ? 6 : 0);
    for (const symbol of new Set(rows.map((row) => row['symbol']))) {
      const own = counted.filter((trade) => trade.symbol === symbol);
      // Each contract has the same spot, so it cancels out.
      const sizes = new Map<string, number>();
      for (const series of groupBy(own, seriesOf).values()) {
        const [last] = series;
        if (last === undefined || !['CALL', 'PUT'].includes(last.put_call)) continue;
        if (series.some(isSettled) || series.some(isAdjusted)) continue;
        const { gamma, openInterest, shares } = stateOf(series);
        sizes.set(last.expiration_date, (sizes.get(last.expiration_date) ?? 0) + gamma * openInterest * shares);
      }
      const all = sum([...sizes.values()], (size) => size);
      for (const row of rows.filter((candidate) => candidate['symbol'] === symbol)) {
        const size = sizes.get(String(row['expiration_date'])) ?? Number.NaN;
        expectSame({ share: row['share_of_gamma'] }, { share: size / all });
      }
    }
  });

  it('has max pain, vanna and charm of plain loops', () => {
    let compared = 0;
    for (const { symbol, spot, pains } of report.exposure.focus) {
      const held = [
        ...groupBy(
          counted.filter((trade) => trade.symbol === symbol),
          seriesOf,
        ).values(),
      ].flatMap((series) => {
        const [last] = series;
        const { openInterest, shares, iv } = stateOf(series);
        if (last === undefined || !['CALL', 'PUT'].includes(last.put_call) || !(last.strike > 0)) return [];
        if (series.some(isSettled) || series.some(isAdjusted) || openInterest * shares === 0) return [];
        return [
          { right: last.put_call, strike: last.strike, day: last.expiration_date, amount: openInterest * shares, iv },
        ];
      });
      for (const { expirationDate, maxPain, vanna, charm } of pains) {
        const own = held.filter(({ day }) => day === expirationDate);
        const payAt = (price: number) =>
          sum(
            own,
            ({ right, strike, amount }) => amount * Math.max(0, right === 'CALL' ? price - strike : strike - price),
          );
        const least = Math.min(...own.map(({ strike }) => payAt(strike)));
        expect(payAt(maxPain) - least).toBeLessThan(1e-9 * sum(own, ({ amount, strike }) => amount * strike));
        const days = Array.from({ length: 4_000 }, (_, index) => addDays(today, index)).filter(
          (day) => day < expirationDate && ![0, 6].includes(new Date(day).getUTCDay()),
        ).length;
        const years = Math.max(1, days) / 262;
        const deltaAt = (strike: number, sigma: number, time: number) =>
          cumulate((Math.log((spot ?? 0) / strike) + (sigma * sigma * time) / 2) / (sigma * Math.sqrt(time)));
        const moved = (sigmaUp: number, timeUp: number) =>
          sum(own, ({ right, strike, amount, iv }) => {
            const signed = (right === 'CALL' ? amount : -amount) * (spot ?? 0);
            const step = deltaAt(strike, iv + sigmaUp, years + timeUp) - deltaAt(strike, iv - sigmaUp, years - timeUp);
            return iv > 0 ? signed * step : 0;
          });
        const size = sum(own, ({ amount }) => amount * (spot ?? 0));
        if (own.every(({ iv }) => !(iv > 0))) continue;
        compared += 1;
        // Differences of the delta itself, in place of its derivatives.
        expect(Math.abs(Number(vanna) - moved(1e-5, 0) / 2e-5 / 100) / size).toBeLessThan(1e-6);
        expect(Math.abs(Number(charm) - -moved(0, 1e-7) / 2e-7 / 262) / size).toBeLessThan(1e-6);
      }
    }
    expect(compared).toBeGreaterThan(gaps === 0 ? 6 : 0);
  });

  it('has the biggest sweeps, and the earnings of what moved the day, of plain loops', () => {
    const sweeps = counted
      .filter((trade) => SWEEPS.includes(trade.option_activity_type) && Number.isFinite(trade.premium))
      .sort((a, b) => b.premium - a.premium || compare(a.time, b.time) || compare(a.id, b.id));
    expect(report.biggestSweeps.map(({ id }) => id)).toEqual(sweeps.slice(0, 10).map(({ id }) => id));
    expect(report.biggestSweeps.every(({ sweep }) => sweep)).toBe(true);
    const { drivers, movers } = report;
    const moved = [...drivers.top, ...[drivers.bullish ?? []].flat(), ...[drivers.bearish ?? []].flat(), ...movers];
    const near = [...new Set(moved.map(({ symbol }) => symbol))].flatMap((symbol) => {
      const days = counted
        .filter((trade) => trade.symbol === symbol)
        .map(({ earning_date: day }) => String(day ?? ''))
        .filter((day) => day >= today && day <= addDays(today, 10));
      const [first] = days.sort();
      return first === undefined ? [] : [{ symbol, day: first }];
    });
    expect(report.earnings).toEqual(near.sort((a, b) => compare(a.day, b.day) || compare(a.symbol, b.symbol)));
  });

  it('has the watchlist in the order asked for', () => {
    expect(report.watchlist.map(({ symbol }) => symbol)).toEqual(SYMBOLS);
    for (const { symbol, flow } of report.watchlist) {
      const own = counted.filter((trade) => trade.symbol === symbol);
      if (own.length === 0) expect(flow).toBeNull();
      else expectSame(flow, computePremium(own));
    }
    expect(report.watchlist.filter(({ flow }) => flow !== null).length).toBeGreaterThan(3);
  });
});

function positiveOrNull(value: number | null): number | null {
  return value !== null && value > 0 && Number.isFinite(value) ? value : null;
}

function startOf(time: string): string {
  return `${time.slice(11, 13)}:${Number(time.slice(14, 16)) < 30 ? '00' : '30'}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Of the standard normal distribution, by Simpson's rule. */
function cumulate(x: number): number {
  const far = Math.max(-10, Math.min(10, x));
  const steps = 2_000;
  const width = far / steps;
  const density = (at: number) => Math.exp((-at * at) / 2) / Math.sqrt(2 * Math.PI);
  const inner = Array.from({ length: steps - 1 }, (_, k) => (k % 2 === 0 ? 4 : 2) * density((k + 1) * width));
  return 0.5 + ((density(0) + sum(inner, (part) => part) + density(far)) * width) / 3;
}
