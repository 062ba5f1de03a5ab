/**
 * Gamma exposure and zero gamma: the published figures of the real SPX chain, a second implementation in plain loops on
 * random chains, and the cases without an answer. The same figures over HTTP are in `service/market-structure.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import { addDays, weekday } from '../../src/calendar/wall-clock.ts';
import { type OptionContract, sumGammaExposure } from '../../src/exposure/gamma-exposure.ts';
import { buildGammaProfile, computeZeroGamma, findSignChange } from '../../src/exposure/zero-gamma.ts';
import { hasSpxPage, readSpxPage, SPX_REFERENCE } from '../support/chain-page.ts';
import { createRandom } from '../support/random.ts';

const DATE = '2026-11-19';
const SPOT = 500;

describe.skipIf(!hasSpxPage)('the real SPX chain', () => {
  test('has its published exposure', () => {
    const gex = sumGammaExposure(SPX_REFERENCE.spot, readSpxPage());
    expect(gex.callGex).toBeCloseTo(SPX_REFERENCE.callGex, -6);
    expect(gex.putGex).toBeCloseTo(SPX_REFERENCE.putGex, -6);
    expect(Math.abs(gex.netGex - SPX_REFERENCE.netGex)).toBeLessThan(0.0001e9);
    expect(gex.callWall).toBe(4800);
    expect(gex.putWall).toBe(4600);
  });

  test('has its published zero gamma', () => {
    const zero = computeZeroGamma(SPX_REFERENCE.spot, SPX_REFERENCE.date, readSpxPage());
    expect(Math.abs((zero ?? 0) - SPX_REFERENCE.zeroGamma)).toBeLessThan(0.005);
  });
});

describe('random chains', () => {
  test.each([1, 2, 3, 4, 5, 6, 7, 8])('of seed %i agree with plain loops', (seed) => {
    const chain = drawChain(seed, 600);
    const gex = sumGammaExposure(SPOT, chain);
    const expected = sumNaively(chain);
    expect(gex.callGex).toBeCloseTo(expected.call, 3);
    expect(gex.putGex).toBeCloseTo(expected.put, 3);
    expect(gex.netGex).toBeCloseTo(expected.call + expected.put, 3);
    const byStrike = gex.strikes.map(({ netGex }) => netGex).reduce((sum, value) => sum + value, 0);
    const byExpiration = gex.expirations.map(({ netGex }) => netGex).reduce((sum, value) => sum + value, 0);
    expect(byStrike).toBeCloseTo(gex.netGex, 3);
    expect(byExpiration).toBeCloseTo(gex.netGex, 3);
    expect(gex.callWall).toBe(expected.callWall);
    expect(gex.putWall).toBe(expected.putWall);
    const profile = buildGammaProfile(SPOT, DATE, chain);
    const naive = drawProfileNaively(chain);
    expect(profile.prices).toHaveLength(60);
    for (const [level, { price, net }] of naive.entries()) {
      expect(profile.prices[level]).toBeCloseTo(price, 9);
      expect(Math.abs((profile.netGex[level] ?? 0) - net)).toBeLessThan(1e-9 * naive.reduce(largest, 1));
    }
    const zero = computeZeroGamma(SPOT, DATE, chain);
    const expectedZero = findZeroNaively(naive);
    if (expectedZero === null) expect(zero).toBeNull();
    else expect(zero).toBeCloseTo(expectedZero, 6);
  });

  test('have a zero gamma in some draws and none in others', () => {
    const zeros = [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => computeZeroGamma(SPOT, DATE, drawChain(seed, 600)));
    expect(zeros.some((zero) => zero !== null)).toBe(true);
    expect(computeZeroGamma(SPOT, DATE, drawChain(1, 600).filter(isCall))).toBeNull();
  });
});

describe('exposure', () => {
  const call: OptionContract = {
    putCall: 'CALL',
    strike: 500,
    expirationDate: '2026-11-20',
    iv: 0.2,
    gamma: 0.01,
    openInterest: 1000,
  };

  test('of one call is gamma x OI x 100 x S^2 x 0.01, and of a put the negative', () => {
    expect(sumGammaExposure(SPOT, [call]).netGex).toBeCloseTo(0.01 * 1000 * 100 * 500 ** 2 * 0.01, 6);
    expect(sumGammaExposure(SPOT, [{ ...call, putCall: 'PUT' }]).netGex).toBeCloseTo(-2_500_000, 6);
  });

  test('of an empty chain is 0 without walls, and never a negative zero', () => {
    const gex = sumGammaExposure(SPOT, []);
    expect(gex).toEqual({
      callGex: 0,
      putGex: 0,
      netGex: 0,
      strikes: [],
      expirations: [],
      callWall: null,
      putWall: null,
    });
  });

  test.each([null, 0, -0.5, Number.NaN])('of a contract whose gamma is %s is 0, its open interest counts', (gamma) => {
    const gex = sumGammaExposure(SPOT, [{ ...call, gamma }]);
    expect(gex.callGex).toBe(0);
    expect(gex.callWall).toBeNull();
    expect(gex.strikes[0]?.callOpenInterest).toBe(1000);
  });

  test('walls are the lowest of equal strikes', () => {
    const chain = [520, 510, 530].map((strike) => ({ ...call, strike }));
    expect(sumGammaExposure(SPOT, chain).callWall).toBe(510);
  });
});

describe('zero gamma', () => {
  test('does not exist without contracts', () => {
    expect(computeZeroGamma(SPOT, DATE, [])).toBeNull();
  });

  test('ignores contracts that have expired, have no volatility or no open interest', () => {
    const chain = drawChain(3, 600);
    const [first] = chain;
    if (!first) throw new RangeError('an empty chain');
    const extra = [
      { ...first, expirationDate: '2026-11-18', openInterest: 1e9 },
      { ...first, iv: null, openInterest: 1e9 },
      { ...first, iv: 0, openInterest: 1e9 },
      { ...first, openInterest: 0 },
    ];
    const profile = buildGammaProfile(SPOT, DATE, [...chain, ...extra]);
    expect(profile).toEqual(buildGammaProfile(SPOT, DATE, chain));
  });

  test('is the first change of sign, past prices where the sum is exactly 0', () => {
    const change = (...netGex: number[]) =>
      findSignChange({ prices: Float64Array.from(netGex, (_, i) => i), netGex: Float64Array.from(netGex) });
    expect(change(-1, 1, -1)).toBe(0.5);
    expect(change(-1, -3, 1)).toBe(1.75);
    expect(change(0, 0, 2, 1)).toBeNull();
    expect(change(-1, 0, 1)).toBe(1);
    expect(change(0, 0)).toBeNull();
  });

  test('of a whole index chain takes well under 100 ms', () => {
    const chain = drawChain(9, 21_000);
    const times = [1, 2, 3, 4, 5].map(() => {
      const started = performance.now();
      computeZeroGamma(SPOT, DATE, chain);
      return performance.now() - started;
    });
    expect(Math.min(...times)).toBeLessThan(100);
  });
});

function isCall({ putCall }: OptionContract): boolean {
  return putCall === 'CALL';
}

function drawChain(seed: number, size: number): readonly OptionContract[] {
  const random = createRandom(seed);
  return Array.from({ length: size }, () => {
    const putCall = random() < 0.5 ? 'CALL' : 'PUT';
    // Puts below the calls, so that the profile goes from negative to positive.
    const strike = Math.round((putCall === 'CALL' ? 520 : 480) + 120 * (random() - 0.5));
    return {
      putCall,
      strike,
      expirationDate: addDays(DATE, Math.floor(200 * random() ** 2)),
      iv: random() < 0.05 ? null : 0.1 + 0.4 * random(),
      gamma: random() < 0.05 ? null : 0.02 * random(),
      openInterest: Math.floor(5000 * random()),
    };
  });
}

function sumNaively(chain: readonly OptionContract[]) {
  let [call, put] = [0, 0];
  const calls = new Map<number, number>();
  const puts = new Map<number, number>();
  for (const { putCall, strike, gamma, openInterest } of chain) {
    const dollars = (gamma ?? 0) * openInterest * 100 * SPOT * SPOT * 0.01;
    if (putCall === 'CALL') call += dollars;
    else put -= dollars;
    const side = putCall === 'CALL' ? calls : puts;
    side.set(strike, (side.get(strike) ?? 0) + dollars);
  }
  const wall = (side: Map<number, number>) => [...side].sort((a, b) => b[1] - a[1])[0]?.[0];
  return { call, put, callWall: wall(calls), putWall: wall(puts) };
}

function drawProfileNaively(chain: readonly OptionContract[]) {
  const priced = chain.flatMap((contract) => {
    if (contract.iv === null) return [];
    let days = 0;
    for (let day = DATE; day < contract.expirationDate; day = addDays(day, 1)) if (weekday(day) % 6 !== 0) days += 1;
    return [{ ...contract, iv: contract.iv, years: (days === 0 ? 1 : days) / 262 }];
  });
  return Array.from({ length: 60 }, (_, level) => {
    const price = 0.8 * SPOT + (0.4 * SPOT * level) / 59;
    let net = 0;
    for (const { putCall, strike, iv, openInterest, years } of priced) {
      const d1 = (Math.log(price / strike) + 0.5 * iv ** 2 * years) / (iv * Math.sqrt(years));
      const gamma = Math.exp(-(d1 ** 2) / 2) / Math.sqrt(2 * Math.PI) / (price * iv * Math.sqrt(years));
      net += (putCall === 'CALL' ? 1 : -1) * gamma * openInterest * 100 * price ** 2 * 0.01;
    }
    return { price, net };
  });
}

function findZeroNaively(profile: readonly { readonly price: number; readonly net: number }[]): number | null {
  for (let level = 1; level < profile.length; level += 1) {
    const [below, above] = [profile[level - 1], profile[level]];
    if (!below || !above || Math.sign(below.net) === Math.sign(above.net)) continue;
    return above.price - ((above.price - below.price) * above.net) / (above.net - below.net);
  }
  return null;
}

function largest(size: number, { net }: { readonly net: number }): number {
  return Math.max(size, Math.abs(net));
}
