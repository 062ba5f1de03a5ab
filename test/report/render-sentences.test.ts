/** The three sentences of the first screen, rule by rule: each says only what the numbers say, or nothing. */

import { describe, expect, it } from 'vitest';
import { FEWEST_IN_MEAN } from '../../src/report/key-numbers.ts';
import type { FlowReport } from '../../src/report/model.ts';
import {
  buildSentences,
  describeDistance,
  sayCallShare,
  sayConcentration,
  sayGamma,
  sayLean,
  sayNoHistory,
  sayUnusual,
  sayZeroDte,
} from '../../src/report/text/sentences.ts';
import { DAYS, pickDay } from './days.ts';
import {
  createComparison,
  createExposure,
  createPremium,
  createReport,
  createSymbolExposure,
  createSymbolFlow,
  createUnusual,
  NO_PREMIUM,
} from './model-fixture.ts';

/** A day with so much of premium in calls, after days with so much. */
function withShares(calls: number, previous: number | null, mean: number | null, sessions = 5): FlowReport {
  const headline = createPremium({ calls });
  const base = createComparison(headline, null);
  const rest = (share: number | null) => (share === null ? null : 1 - share);
  return createReport({
    headline,
    comparison: {
      previousDate: previous === null ? null : '2026-11-18',
      degradedDates: [],
      pastShares: [],
      missingDates: [],
      meanDates: mean === null ? [] : Array.from({ length: sessions }, (_, index) => `2026-11-${18 - index}`),
      changes: {
        ...base.changes,
        callShare: { latest: calls, previous, mean },
        putShare: { latest: 1 - calls, previous: rest(previous), mean: rest(mean) },
      },
    },
  });
}

describe('the share of calls', () => {
  it.each([
    [0.62, 0.58, 0.55, 'Calls took 62% of premium, more than on 18 Nov (58%) and in the 5-session mean (55%).'],
    [
      0.62,
      0.7,
      0.55,
      'Calls took 62% of premium, less than on 18 Nov (70%) and more than in the 5-session mean (55%).',
    ],
    [
      0.62,
      0.622,
      0.7,
      'Calls took 62% of premium, as much as on 18 Nov (62%) and less than in the 5-session mean (70%).',
    ],
    [0.3, 0.4, 0.4, 'Puts took 70% of premium, more than on 18 Nov (60%) and in the 5-session mean (60%).'],
    [0.62, null, null, 'Calls took 62% of premium.'],
  ])('%d against %s and %s is said as it is', (calls, previous, mean, sentence) => {
    expect(sayCallShare(withShares(calls, previous, mean))).toBe(sentence);
  });

  it('is not compared with a mean where there is none', () => {
    expect(sayCallShare(withShares(0.62, 0.58, null))).toBe('Calls took 62% of premium, more than on 18 Nov (58%).');
  });

  /** The calls' share of a day, of the five sessions before it, newest first, and the degraded ones among these. */
  it.each([
    [
      0.62,
      [0.58, 0.57, 0.56, 0.5, 0.6],
      [],
      'Calls took 62% of premium, the most of the last 6 sealed sessions; the 5-session mean is 56%.',
    ],
    [
      0.62,
      [0.58, 0.57, 0.64, 0.5, 0.6],
      [],
      'Calls took 62% of premium, the most since 16 Nov (64%); the 5-session mean is 58%.',
    ],
    [
      0.55,
      [0.58, 0.57, 0.56, 0.5, 0.6],
      [],
      'Calls took 55% of premium, the least since 15 Nov (50%); the 5-session mean is 56%.',
    ],
    [
      0.62,
      [0.58, 0.622, 0.5, 0.5, 0.5],
      [],
      'Calls took 62% of premium, more than on 18 Nov (58%) and in the 5-session mean (54%).',
    ],
    [0.62, [0.58, 0.56], [], 'Calls took 62% of premium, more than on 18 Nov (58%).'],
    [
      0.62,
      [0.58, 0.57, 0.56, 0.5, 0.6],
      [15],
      'Calls took 62% of premium, more than on 18 Nov (58%) and in the 5-session mean (56%).',
    ],
  ])('%d after %j, degraded %j, claims a record only when there is one', (calls, past, degraded, sentence) => {
    const mean = past.reduce((sum, share) => sum + share, 0) / past.length;
    const report = withShares(calls, past[0] ?? null, past.length < FEWEST_IN_MEAN ? null : mean, past.length);
    const comparison = {
      ...report.comparison,
      pastShares: past.map((share) => ({ calls: share, puts: 1 - share })),
      degradedDates: degraded.map((day) => `2026-11-${day}`),
    };
    expect(sayCallShare({ ...report, comparison })).toBe(sentence);
  });

  it('of no premium is not said', () => {
    expect(sayCallShare(createReport({ headline: NO_PREMIUM }))).toBeNull();
  });
});

describe('one symbol with most of the premium', () => {
  it('is named from half of all premium on', () => {
    const headline = createPremium({ total: 1000 });
    const report = (total: number) => createReport({ headline, topSymbols: [createSymbolFlow('TSLA', 1, { total })] });
    expect(sayConcentration(report(500))).toBe('TSLA alone carried 50% of premium, of 4,127 symbols that traded.');
    expect(sayConcentration(report(499))).toBeNull();
  });

  it('is the only one where no other traded', () => {
    expect(sayConcentration(pickDay('single-trade').report)).toBe('SPY is the only symbol that traded.');
  });
});

describe('gamma', () => {
  const withLead = (changes: Parameters<typeof createSymbolExposure>[1]) =>
    createReport({ exposure: createExposure([createSymbolExposure('SPY', { netGex: -2.3e9, ...changes })]) });

  it('says where the spot lies against zero gamma', () => {
    expect(sayGamma(withLead({ spot: 600, zeroGamma: 606 }))).toBe(
      'Net GEX of SPY is -$2.30B per 1% move; spot 600.00 is 1.0% below zero gamma 606.00.',
    );
  });

  it('says that there is no zero gamma, or no price to compare', () => {
    expect(sayGamma(withLead({ zeroGamma: null }))).toContain('with no zero gamma found');
    expect(sayGamma(withLead({ spot: null }))).toBeNull();
    expect(sayGamma(createReport({ exposure: createExposure([]) }))).toBeNull();
  });

  it('says "negative in all" only when it is', () => {
    const row = (symbol: string, netGex: number) => createSymbolExposure(symbol, { netGex });
    const say = (...signs: number[]) =>
      sayGamma(createReport({ exposure: createExposure(signs.map((sign, index) => row(`S${index}`, sign * 1e9))) }));
    expect(say(-1, -2, -3)).toContain('it is negative in all 3 symbols with the largest exposure');
    expect(say(-1, 2, -3)).not.toContain('negative');
    expect(say(-1)).not.toContain('negative');
  });

  it.each([
    [601, 600, '0.2% above'],
    [540, 600, '10% below'],
    [600.1, 600, 'at'],
  ])('a spot of %d is %s against zero gamma %d', (spot, level, text) => {
    expect(describeDistance(spot, level)).toBe(text);
  });
});

describe('the other sentences', () => {
  it('unusual activity is said from twice the mean on', () => {
    const say = (ratio: number) => sayUnusual(createReport({ unusual: [createUnusual('MSTR', ratio, 71e6, 4)] }));
    expect(say(4.3)).toBe('MSTR traded $71.0M, 4.3 times its mean of 5 sessions.');
    expect(say(1.9)).toBeNull();
    expect(sayUnusual(createReport({ unusual: [] }))).toBeNull();
  });

  it('the lean names the neutral share', () => {
    expect(sayLean(createReport())).toBe('Bullish premium was $112M above bearish; 47% was neutral.');
    const even = createPremium({ bullish: 0.2, bearish: 0.2 });
    expect(sayLean(createReport({ headline: even }))).toBe('Bullish and bearish premium were equal; 60% was neutral.');
  });

  it('contracts that expire the same day are named from half of premium on', () => {
    const day = (zeroDte: number) => createReport({ headline: { ...createPremium({ total: 100 }), zeroDte } });
    expect(sayZeroDte(day(50))).toBe('Contracts that expired this day took 50% of premium.');
    expect(sayZeroDte(day(49))).toBeNull();
  });

  it('a first day says that nothing lies before it', () => {
    expect(sayNoHistory(pickDay('first-day').report)).toContain('No sealed session lies before this one');
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

  it('never claim a record, because only the session before and a mean are known', () => {
    const said = DAYS.flatMap(({ report }) => buildSentences(report)).join(' ');
    expect(said).not.toMatch(/most since|highest|lowest|record/i);
  });

  it('are three on a whole day without anything that stands out', () => {
    expect(buildSentences(pickDay('quiet').report)).toHaveLength(3);
  });
});
