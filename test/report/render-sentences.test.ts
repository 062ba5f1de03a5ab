/** The three sentences of the first screen, rule by rule: each says only what the numbers say, or nothing. */

import { describe, expect, it } from 'vitest';
import type { FlowReport } from '../../src/report/model.ts';
import {
  buildSentences,
  sayCallShare,
  sayConcentration,
  sayDrivers,
  sayGamma,
  sayMover,
  sayNoHistory,
  sayOneSided,
  sayTrade,
  sayUnusual,
  sayZeroDte,
} from '../../src/report/text/sentences.ts';
import { describeLean } from '../../src/report/text/subject.ts';
import { DAYS, pickDay } from './days.ts';
import {
  createComparison,
  createDrivers,
  createExclusions,
  createExposure,
  createPremium,
  createReport,
  createSymbolExposure,
  createSymbolFlow,
  createTrade,
  createUnusual,
  NO_PREMIUM,
} from './model-fixture.ts';

/** A day with so much of premium in calls, after days with so much. */
function withShares(calls: number, previous: number | null, median: number | null): FlowReport {
  const headline = createPremium({ calls });
  const base = createComparison(headline, null);
  const rest = (share: number | null) => (share === null ? null : 1 - share);
  return createReport({
    headline,
    comparison: {
      previousDate: previous === null ? null : '2026-11-18',
      degradedDates: [],
      missingDates: [],
      levels: [],
      dates: median === null ? [] : Array.from({ length: 5 }, (_, index) => `2026-11-${18 - index}`),
      changes: {
        ...base.changes,
        callShare: { latest: calls, previous, median, place: null },
        putShare: { latest: 1 - calls, previous: rest(previous), median: rest(median), place: null },
      },
    },
  });
}

describe('the share of calls', () => {
  it.each([
    [0.62, 0.58, 0.55, 'Calls took 62% of premium, more than on Nov 18 (58%) and than the 5-session median (55%).'],
    [0.62, 0.7, 0.55, 'Calls took 62% of premium, less than on Nov 18 (70%) and more than the 5-session median (55%).'],
    [
      0.62,
      0.622,
      0.7,
      'Calls took 62% of premium, as much as on Nov 18 (62%) and less than the 5-session median (70%).',
    ],
    [0.3, 0.4, 0.4, 'Puts took 70% of premium, more than on Nov 18 (60%) and than the 5-session median (60%).'],
    [0.62, null, null, 'Calls took 62% of premium.'],
  ])('%d against %s and %s is said as it is', (calls, previous, median, sentence) => {
    expect(sayCallShare(withShares(calls, previous, median))?.text).toBe(sentence);
  });

  it('is not compared with a median where there is none', () => {
    expect(sayCallShare(withShares(0.62, 0.58, null))?.text).toBe(
      'Calls took 62% of premium, more than on Nov 18 (58%).',
    );
  });

  it('of no premium is not said', () => {
    expect(sayCallShare(createReport({ headline: NO_PREMIUM }))).toBeNull();
  });
});

describe('one symbol with most of the premium', () => {
  it('is named from half of all premium on', () => {
    const headline = createPremium({ total: 1000 });
    const report = (total: number) => createReport({ headline, topSymbols: [createSymbolFlow('TSLA', 1, { total })] });
    expect(sayConcentration(report(500))?.text).toBe('TSLA alone carried 50% of premium, of 4,127 symbols.');
    expect(sayConcentration(report(499))).toBeNull();
  });

  it('is the only one where no other traded', () => {
    expect(sayConcentration(pickDay('single-trade').report)?.text).toBe('SPY is the only symbol in this report.');
  });
});

describe('the causes', () => {
  const drivers = createDrivers(1e9);
  const day = (changes: Parameters<typeof createReport>[0]) =>
    createReport({ headline: createPremium({ total: 1e9, bullish: 0.3, bearish: 0.25 }), ...changes });

  it('of both sides are named with the larger side first, and an expiration only where it has most of its side', () => {
    expect(sayDrivers(day({ drivers }))).toEqual({
      text: 'SPX puts expiring Jan 15 were 40% of bearish premium; TSLA calls were 23% of bullish.',
      weight: expect.closeTo(0.17),
    });
  });

  it('of both sides are named once where they are the same', () => {
    const { bearish } = drivers;
    expect(sayDrivers(day({ drivers: { ...drivers, bullish: bearish && { ...bearish, bullish: 69e6 } } }))?.text).toBe(
      'SPX puts expiring Jan 15 were 40% of bearish premium and 23% of bullish.',
    );
  });

  it('say that most of one is a single record', () => {
    const one = { symbol: 'SPX', contract: 'SPX 2027-01-15 5900 P', sentiment: 'BEARISH', premium: 80e6 };
    const say = (changes: Partial<typeof one> & { multiLeg?: boolean }) =>
      sayDrivers(day({ drivers, biggestTrades: [createTrade({ ...one, ...changes })] }))?.text;
    expect(say({})).toBe(
      'SPX puts expiring Jan 15 were 40% of bearish premium, most of it one trade; TSLA calls were 23% of bullish.',
    );
    expect(say({ multiLeg: true })).toContain('most of it one leg of a complex order;');
    for (const other of [{ sentiment: 'NEUTRAL' }, { premium: 9e6 }, { contract: 'SPX 2026-12-18 5900 P' }])
      expect(say(other)).not.toContain('most of it');
  });

  it('that are small parts of their side are not named', () => {
    const bullish = createDrivers(0.4e9).bullish;
    expect(sayDrivers(day({ drivers: { ...drivers, bullish } }))?.text).toBe(
      'SPX puts expiring Jan 15 were 40% of bearish premium.',
    );
    expect(sayDrivers(day({ drivers: { bullish: null, bearish: null, top: [] } }))).toBeNull();
    expect(sayDrivers(day({ drivers, symbolCount: 1 }))).toBeNull();
  });

  it('of the change are named only where a symbol moved the way the day did', () => {
    const headline = createPremium({ total: 1e9 });
    const comparison = createComparison(headline, { previous: 0.8, median: 0.9 });
    const say = (premium: number, previous: number) =>
      sayMover(createReport({ headline, comparison, movers: [{ symbol: 'NVDA', premium, previous }] }))?.text;
    expect(say(250e6, 100e6)).toBe('$200M more premium than on Nov 18; NVDA traded $150M more.');
    expect(say(300e6, 50e6)).toBe(
      '$200M more premium than on Nov 18; NVDA traded $250M more, all others together $50.0M less.',
    );
    expect(say(100e6, 250e6)).toBeUndefined();
    const same = createComparison(headline, { previous: 0.97, median: 0.9 });
    expect(sayMover(createReport({ headline, comparison: same }))).toBeNull();
  });

  it('include one trade that is large beside the day', () => {
    const say = (premium: number) => sayTrade(day({ biggestTrades: [createTrade({ premium, sentiment: 'BEARISH' })] }));
    expect(say(50e6)?.text).toMatch(/^One trade was 5% of premium: SPY .* for \$50\.0M, bearish\.$/);
    expect(say(19e6)).toBeNull();
    const leg = createTrade({ premium: 22e6, multiLeg: true });
    expect(sayTrade(day({ biggestTrades: [leg] }))?.text).toMatch(/bullish, a leg of a complex order\.$/);
  });

  it('say that the net sentiment is mostly one trade', () => {
    const headline = createPremium({ total: 1e9, bullish: 0.3, bearish: 0.2 });
    const say = (change: Parameters<typeof createTrade>[0]) =>
      sayOneSided(createReport({ headline, biggestTrades: [createTrade(change)] }))?.text;
    expect(say({ premium: 80e6, sentiment: 'BULLISH', multiLeg: true })).toMatch(
      /^One leg of a complex order is \$80\.0M bullish \(SPY .*\): without it the day is balanced\.$/,
    );
    expect(say({ premium: 120e6, sentiment: 'BULLISH' })).toMatch(
      /^One trade .*: without it the day is bearish by \$20\.0M\.$/,
    );
    expect(say({ premium: 60e6, sentiment: 'BULLISH' })).toMatch(/without it the day is bullish by \$40\.0M\.$/);
    expect(say({ premium: 160e6, sentiment: 'BULLISH' })).toMatch(/without it the day is bearish by \$60\.0M\.$/);
    expect(say({ premium: 40e6, sentiment: 'BULLISH' })).toBeUndefined();
    expect(say({ premium: 120e6, sentiment: 'BEARISH' })).toBeUndefined();
  });

  it('say that a day is balanced only because of one trade, and that another has no direction', () => {
    const headline = createPremium({ total: 1e9, bullish: 0.2, bearish: 0.2 });
    const say = (premium: number, sentiment = 'BULLISH') =>
      sayOneSided(createReport({ headline, biggestTrades: [createTrade({ premium, sentiment })] }))?.text;
    expect(say(39.5e6)).toMatch(
      /^Balanced only because one trade is \$39\.5M bullish \(SPY .*\): without it the day is bearish by \$39\.5M\.$/,
    );
    expect(say(39.5e6, 'BEARISH')).toMatch(/bearish \(SPY .*\): without it the day is bullish by \$39\.5M\.$/);
    expect(say(5e6)).toBeUndefined();
    const neutral = createPremium({ total: 1e9, bullish: 0, bearish: 0 });
    expect(describeLean(neutral)).toBe('no direction known');
  });

  it('say what is left out where it is a hundredth of the premium, or would turn the day', () => {
    const headline = createPremium({ total: 1e9, bullish: 0.2, bearish: 0.25 });
    const say = (changes: { trades?: number; premium: number; bullish: number; bearish: number }, of = headline) => {
      const lateReports = { trades: 24, ...changes };
      const report = createReport({ headline: of, exclusions: createExclusions(of, { lateReports }) });
      return buildSentences(report).find((sentence) => sentence.includes('in no other number'));
    };
    expect(say({ premium: 10e6, bullish: 9e6, bearish: 1e6 })).toBe(
      '24 late reports are in no other number: $10.0M (1.0% of premium), bullish by $8.00M.',
    );
    expect(say({ premium: 9e6, bullish: 9e6, bearish: 0 })).toBeUndefined();
    expect(say({ trades: 1, premium: 100e6, bullish: 100e6, bearish: 0 })).toBe(
      '1 late report is in no other number: $100M (10.0% of premium), bullish by $100M; with it the day would be bullish by $50.0M.',
    );
    const close = createPremium({ total: 1e9, bullish: 0.2, bearish: 0.2212 });
    expect(say({ premium: 9e6, bullish: 9e6, bearish: 0 }, close)).toBe(
      '24 late reports are in no other number: $9.00M (0.9% of premium), bullish by $9.00M; with them the day would be balanced.',
    );
  });

  it('are printed by how much of the day they explain, at most three', () => {
    const said = buildSentences(day({ drivers, biggestTrades: [createTrade({ premium: 400e6 })] }));
    expect(said).toHaveLength(3);
    expect(said[0]).toContain('without it the day is bearish by');
    expect(said.join()).not.toMatch(/Net GEX of|above bearish/);
  });
});

describe('gamma', () => {
  it('says "negative in all" only when it is', () => {
    const row = (symbol: string, netGex: number) => createSymbolExposure(symbol, { netGex });
    const say = (...signs: number[]) =>
      sayGamma(createReport({ exposure: createExposure(signs.map((sign, index) => row(`S${index}`, sign * 1e9))) }));
    expect(say(-1, -2, -3)?.text).toBe(
      'Net GEX is negative in all 3 symbols with the largest exposure (partial: traded contracts only).',
    );
    expect(say(-1, 2, -3)).toBeNull();
    expect(say(-1)).toBeNull();
  });
});

describe('the other sentences', () => {
  it('unusual activity is said from twice the median on', () => {
    const say = (ratio: number) => sayUnusual(createReport({ unusual: [createUnusual('MSTR', ratio, 71e6, 4)] }));
    expect(say(4.3)?.text).toBe('MSTR traded $71.0M, 4.3 times its median of 5 sessions.');
    expect(say(1.9)).toBeNull();
    expect(sayUnusual(createReport({ unusual: [] }))).toBeNull();
  });

  it('contracts that expire the same day are named from half of premium on', () => {
    const day = (zeroDte: number) => createReport({ headline: { ...createPremium({ total: 100 }), zeroDte } });
    expect(sayZeroDte(day(50))?.text).toBe('Contracts that expired this day took 50% of premium.');
    expect(sayZeroDte(day(49))).toBeNull();
  });

  it('a first day says that nothing lies before it', () => {
    expect(sayNoHistory(pickDay('first-day').report)?.text).toContain('There is no earlier sealed session');
    expect(sayNoHistory(createReport())).toBeNull();
  });
});

describe('the sentences of a day', () => {
  it.each(DAYS.map(({ name, report }) => [name, report] as const))('%s has one to three, each whole', (_, report) => {
    const sentences = buildSentences(report);
    expect(sentences.length).toBeGreaterThanOrEqual(1);
    expect(sentences.length).toBeLessThanOrEqual(3);
    for (const sentence of sentences) {
      expect(sentence).toMatch(/^\S.*\.$/);
      expect(sentence).not.toMatch(/NaN|Infinity|undefined|null|n\/a/);
    }
  });

  it('are three on a whole day without anything that stands out', () => {
    expect(buildSentences(pickDay('quiet').report)).toHaveLength(3);
  });
});
