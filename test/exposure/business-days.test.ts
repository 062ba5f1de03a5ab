/** Time to expiration in business days. */
import { describe, expect, test } from 'vitest';
import { addDays, weekday } from '../../src/calendar/wall-clock.ts';
import { countBusinessDays, countYears } from '../../src/exposure/zero-gamma.ts';

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
