/**
 * Implied volatility by expiration against plain loops that follow `docs/formulas.md`: of traded contracts, each with its
 * latest record, on random days with records that lack numbers. A whole chain: `chain-exposure.test.ts`.
 */
import { describe, expect, it } from 'vitest';
import { addDays } from '../../src/calendar/wall-clock.ts';
import { createRandom } from '../support/random.ts';
import { createTrade, type Trade, useDrops } from './drop-file.ts';
import { expectSame, groupBy } from './plain-loops.ts';

const DATE = '2026-11-19';
const SPOT = 100.4;

const drops = useDrops();

function drawDay(seed: number): readonly Trade[] {
  const random = createRandom(seed);
  const draw = (low: number, high: number) => low + random() * (high - low);
  return Array.from({ length: 900 }, (_, at) => {
    const putCall = random() < 0.5 ? 'CALL' : 'PUT';
    const strike = Math.round(draw(92, 108));
    const expiration = addDays(DATE, [0, 1, 8, 29, 120, -3][Math.floor(draw(0, 6))] ?? 0);
    const delta = draw(0, 1) * (putCall === 'CALL' ? 1 : -1);
    return createTrade({
      ...{ id: String(at).padStart(4, '0'), symbol: at % 3 === 0 ? 'QQQ' : 'SPY', put_call: putCall, strike, delta },
      ...{ expiration_date: expiration, option_symbol: `S${expiration}${putCall}${strike}`, underlying_price: SPOT },
      time: `${DATE} 1${at % 5}:00:${String(at % 60).padStart(2, '0')}`,
      iv: at % 11 === 0 ? 0 : draw(0.1, 0.7),
    });
  });
}

describe.each([1, 2, 3])('random day %i', (seed) => {
  it('has the volatility, skew and expected move of plain loops', async () => {
    const trades = drawDay(seed);
    const { volatility } = await drops.report(trades, { symbols: ['SPY', 'QQQ', 'NONE'] });
    const expected = ['QQQ', 'SPY'].flatMap((symbol) => {
      const series = [
        ...groupBy(
          trades.filter((trade) => trade.symbol === symbol),
          ({ option_symbol: name }) => String(name),
        ),
      ]
        .map(([, own]) =>
          own
            .filter(({ iv }) => Number(iv) > 0)
            .sort(byAge)
            .at(-1),
        )
        .filter((trade) => trade !== undefined)
        .filter(({ expiration_date: day }) => String(day) >= DATE);
      return [...groupBy(series, ({ expiration_date: day }) => String(day))]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([day, own]) => {
          const nearest = own
            .map(({ strike }) => Number(strike))
            .sort((a, b) => Math.abs(a - SPOT) - Math.abs(b - SPOT) || a - b)[0];
          const there = own.filter(({ strike }) => strike === nearest).map(({ iv }) => Number(iv));
          const isNear = Math.abs(Number(nearest) - SPOT) <= 0.05 * SPOT;
          const atTheMoney = isNear ? there.reduce((sum, iv) => sum + iv, 0) / there.length : null;
          const wing = (right: string, delta: number) =>
            own
              .filter((one) => one.put_call === right && Math.abs(Number(one['delta']) - delta) <= 0.1)
              .sort((a, b) => Math.abs(Number(a['delta']) - delta) - Math.abs(Number(b['delta']) - delta))[0]?.iv;
          const [put, call] = [wing('PUT', -0.25), wing('CALL', 0.25)];
          const days = Math.round((Date.parse(day) - Date.parse(DATE)) / 86_400_000);
          const skew = put === undefined || call === undefined ? null : Number(put) - Number(call);
          return {
            symbol,
            expirationDate: day,
            days,
            atTheMoney,
            skew,
            strike: isNear ? nearest : null,
            expectedMove: atTheMoney === null || days === 0 ? null : SPOT * atTheMoney * Math.sqrt(days / 365),
          };
        });
    });
    expect(expected.length).toBeGreaterThan(8);
    expect(volatility.map(({ symbol, expirationDate }) => [symbol, expirationDate])).toEqual(
      expected.map(({ symbol, expirationDate }) => [symbol, expirationDate]),
    );
    for (const [index, row] of volatility.entries()) {
      const own = expected[index];
      expect(row.days).toBe(own?.days);
      const { atTheMoney, strike, skew, expectedMove } = own ?? {};
      expectSame(row, { atTheMoney, strike, skew, expectedMove });
    }
  });
});

/** Of one time, the smaller volatility counts. */
function byAge(a: Trade, b: Trade): number {
  return a.time === b.time ? Number(b.iv) - Number(a.iv) : a.time < b.time ? -1 : 1;
}
