/** Lookback, settling and expiry, as pure functions of a clock. */
import { describe, expect, test } from 'vitest';
import { NO_OVERRIDE } from '../../src/calendar/session.ts';
import { computeLookback, expiresAt, explainClip, listSettled, settledAt } from '../../src/plan/dates.ts';

describe('the lookback', () => {
  const at = (instant: string) => computeLookback(Date.parse(instant), NO_OVERRIDE, 900);

  test.each([
    ['2026-11-20T22:00:00Z', '2026-11-05 17:00:00', '2026-11-05', '2026-11-06', '2026-11-20'],
    ['2026-11-20T21:44:59Z', '2026-11-05 16:44:59', '2026-11-05', '2026-11-06', '2026-11-19'],
    ['2026-11-20T21:45:00Z', '2026-11-05 16:45:00', '2026-11-05', '2026-11-06', '2026-11-20'],
    ['2026-11-27T18:45:00Z', '2026-11-12 13:45:00', '2026-11-12', '2026-11-13', '2026-11-27'],
    ['2026-11-20T05:00:00Z', '2026-11-05 00:00:00', '2026-11-05', '2026-11-05', '2026-11-19'],
    ['2026-11-20T14:30:00Z', '2026-11-05 09:30:00', '2026-11-05', '2026-11-05', '2026-11-19'],
    ['2026-11-20T14:30:00.001Z', '2026-11-05 09:30:00', '2026-11-05', '2026-11-06', '2026-11-19'],
    // Over the change of clocks the edge is 15 times 24 hours ago, not the same hour of the wall clock.
    ['2026-11-10T13:45:00Z', '2026-10-26 09:45:00', '2026-10-26', '2026-10-27', '2026-11-09'],
    ['2026-03-16T04:30:00Z', '2026-02-28 23:30:00', '2026-02-28', '2026-03-01', '2026-03-13'],
  ])('at %s begins at %s', (now, edge, clipped, firstWhole, lastSettled) => {
    expect(at(now)).toMatchObject({ edge, clipped, firstWhole, lastSettled });
  });

  test('expires a date when the edge reaches its opening', () => {
    for (const date of ['2026-11-05', '2026-10-26', '2026-03-02', '2026-03-09']) {
      const expires = expiresAt(date);
      expect(computeLookback(expires).firstWhole).toBe(date);
      expect(computeLookback(expires + 1).firstWhole > date, date).toBe(true);
    }
  });

  test('shows the rows of before the opening to be gone, unless three sessions have none', () => {
    const at0800 = Date.parse('2026-11-20T13:00:00Z');
    const explain = (...firstSeconds: number[]) => explainClip('2026-11-05', at0800, firstSeconds);
    expect(explain()).toContain('rows before 2026-11-05 08:00:00');
    expect(explain(34_200, 34_200)).toContain('fewer than three');
    expect(explain(34_200, 34_201, 34_200)).toBeUndefined();
    expect(explain(34_200, 60, 34_200)).toContain('other sessions have such rows');
    // Rows of the evening before leave on the evening before.
    const at2016 = Date.parse('2026-11-20T01:16:00Z');
    expect(explainClip('2026-11-05', at2016, [-13_500, -13_500, -13_500])).toContain('other sessions have such rows');
    expect(explainClip('2026-11-05', at2016, [34_200])).toBeUndefined();
  });

  test('lists the sessions that are over, soonest expiry first, without the clipped date', () => {
    expect(listSettled(at('2026-11-20T22:00:00Z'))).toEqual([
      ...['2026-11-06', '2026-11-09', '2026-11-10', '2026-11-11', '2026-11-12', '2026-11-13'],
      ...['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19', '2026-11-20'],
    ]);
  });

  test('settles a session after its last trades are visible, by the time that the job gives', () => {
    const settled = (date: string, settleSeconds: number) => new Date(settledAt(date, { settleSeconds })).toISOString();
    expect(settled('2026-11-20', 60)).toBe('2026-11-20T21:31:00.000Z');
    expect(settled('2026-11-27', 900)).toBe('2026-11-27T18:45:00.000Z');
    expect(settled('2026-07-01', 900)).toBe('2026-07-01T20:45:00.000Z');
  });
});
