/** Gamma against published and differentiated values, and time in business days. */
import { describe, expect, test } from 'vitest';
import { addDays, weekday } from '../../src/calendar/wall-clock.ts';
import { computeGamma } from '../../src/exposure/black-scholes.ts';
import { countBusinessDays, countYears } from '../../src/exposure/business-days.ts';
import { createRandom } from '../support/random.ts';

describe('gamma', () => {
  test("is that of Hull's example: 49 dollars, strike 50, 5 %, 20 %, 20 weeks", () => {
    // Options, Futures, and Other Derivatives, "The Greek Letters": the example's option has a gamma of 0.066.
    expect(computeGamma({ spot: 49, strike: 50, iv: 0.2, years: 0.3846, rate: 0.05 })).toBeCloseTo(0.0655, 4);
  });

  test('at the money without rates is n(sigma sqrt(T) / 2) / (S sigma sqrt(T))', () => {
    const gamma = computeGamma({ spot: 100, strike: 100, iv: 0.2, years: 1 });
    expect(gamma).toBeCloseTo(0.3969525474770118 / 20, 12);
  });

  test('is the second derivative of the price of a call', () => {
    const random = createRandom(7);
    for (let round = 0; round < 50; round += 1) {
      const terms = {
        strike: 100,
        iv: 0.1 + 0.5 * random(),
        years: 0.1 + 2 * random(),
        rate: 0.08 * random(),
        dividendYield: 0.05 * random(),
      };
      const spot = 80 + 40 * random();
      const price = (at: number) => priceCall({ ...terms, spot: at });
      const step = 0.05;
      const second = (price(spot + step) - 2 * price(spot) + price(spot - step)) / step ** 2;
      expect(computeGamma({ ...terms, spot })).toBeCloseTo(second, 5);
    }
  });

  test.each([
    ['price', { spot: 0 }],
    ['strike', { strike: 0 }],
    ['volatility', { iv: 0 }],
    ['volatility that is not a number', { iv: Number.NaN }],
    ['time', { years: 0 }],
    ['time left', { years: -1 }],
  ])('without a %s is 0', (_name, change) => {
    expect(computeGamma({ spot: 100, strike: 100, iv: 0.2, years: 1, ...change })).toBe(0);
  });
});

describe('business days', () => {
  test('are the weekdays from the first date on, the last not counted', () => {
    expect(countBusinessDays('2024-01-07', '2024-01-08')).toBe(0);
    expect(countBusinessDays('2024-01-05', '2024-01-08')).toBe(1);
    expect(countBusinessDays('2024-01-08', '2024-01-15')).toBe(5);
    expect(countBusinessDays('2024-01-08', '2024-01-08')).toBe(0);
    expect(countBusinessDays('2024-01-08', '2024-01-01')).toBe(0);
  });

  test('agree with a count day by day', () => {
    for (let start = 0; start < 14; start += 1) {
      const from = addDays('1969-12-25', start);
      let count = 0;
      for (let date = from; date < '1970-03-01'; date = addDays(date, 1)) {
        expect(countBusinessDays(from, date)).toBe(count);
        if (weekday(date) % 6 !== 0) count += 1;
      }
    }
  });

  test('make years of 262, and an expiration today is one day away', () => {
    expect(countYears('2026-11-19', '2026-11-19')).toBe(1 / 262);
    expect(countYears('2026-11-19', '2026-11-20')).toBe(1 / 262);
    expect(countYears('2026-11-19', '2026-11-26')).toBe(5 / 262);
  });
});

interface CallTerms {
  readonly spot: number;
  readonly strike: number;
  readonly iv: number;
  readonly years: number;
  readonly rate: number;
  readonly dividendYield: number;
}

function priceCall({ spot, strike, iv, years, rate, dividendYield }: CallTerms): number {
  const deviation = iv * Math.sqrt(years);
  const d1 = (Math.log(spot / strike) + (rate - dividendYield + iv ** 2 / 2) * years) / deviation;
  const discounted = strike * Math.exp(-rate * years) * sumNormal(d1 - deviation);
  return spot * Math.exp(-dividendYield * years) * sumNormal(d1) - discounted;
}

/** The cumulative normal distribution by its power series, exact to about 1e-14 for the arguments here. */
function sumNormal(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; n < 200; n += 1) {
    term *= (x * x) / (2 * n + 1);
    sum += term;
  }
  return 0.5 + (sum * Math.exp(-(x * x) / 2)) / Math.sqrt(2 * Math.PI);
}
