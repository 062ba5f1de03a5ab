/** What the witnesses of the time leave possible, as a table. Runs under wrong clocks are in `test/export/clocks.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import { Clocks, formatApart, MAX_CLOCK_SKEW_MS } from '../../src/plan/clocks.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const RULE = { settleSeconds: 60 };
/** Friday, 18:00 in New York. */
const NOW = Date.parse('2026-11-20T23:00:00Z');
const at = (ownMs: number, serverMs: number | undefined, rowMs?: number) => {
  const server = {
    serverNow: () => NOW + (serverMs ?? 0),
    tellsTime: () => serverMs !== undefined,
    stats: { requests: 1 },
  };
  const clocks = new Clocks({ now: () => NOW + ownMs, sleep: async () => {} }, server, RULE);
  if (rowMs !== undefined) clocks.see(NOW + rowMs);
  return clocks;
};

describe('witnesses of the time', () => {
  it('agree within the skew that clocks have, and a machine without a server goes by itself', () => {
    expect(at(0, MAX_CLOCK_SKEW_MS).conflict()).toBeUndefined();
    expect(at(0, undefined).conflict()).toBeUndefined();
    expect(at(0, MAX_CLOCK_SKEW_MS + 1).conflict()).toContain('2 min ahead of');
    // A row of yesterday contradicts nobody.
    expect(at(0, 0, -DAY).conflict()).toBeUndefined();
  });

  it.each([
    ['both clocks', at(-3 * DAY, -3 * DAY, -HOUR), /the source's clock by 2 d 23 h, this machine's by 2 d 23 h/],
    [
      'the server',
      at(0, -3 * DAY, -HOUR),
      /3 d behind this machine's.*so a clock is slow: the source's clock by 2 d 23 h$/,
    ],
  ])('a row that cannot be visible yet convicts %s of being slow', (_, clocks, conflict) => {
    expect(clocks.conflict()).toMatch(conflict);
  });

  it('a date that the newest row shows to be clipped is contested though both clocks call it whole', () => {
    const { dates, contested } = at(-3 * DAY, -3 * DAY, -HOUR).agreeOnDates();
    // By the clocks the lookback begins on the 2nd, by the row on the 5th.
    expect(dates[0]).toBe('2026-11-06');
    expect(contested.map(({ date }) => date)).toEqual(['2026-11-03', '2026-11-04', '2026-11-05', ...OPEN]);
    expect(contested[0]?.reason).toMatch(/^it has begun to expire according to the newest row/);
  });

  it('contested dates are those of either clock, each with who contests it', () => {
    const { dates, contested, lookback } = at(-DAY, 0).agreeOnDates();
    expect([dates[0], dates.at(-1)]).toEqual(['2026-11-06', '2026-11-19']);
    expect(contested.map(({ date, reason }) => `${date} ${/according to (.*?), which/.exec(reason)?.[1]}`)).toEqual([
      "2026-11-05 the source's clock",
      "2026-11-20 this machine's clock",
    ]);
    // Nothing has expired while a clock sees it whole.
    expect(lookback.firstWhole).toBe('2026-11-05');
  });

  it('a source that forgets nothing has no clipped dates', () => {
    const { contested } = at(0, 3 * DAY).agreeOnDates(false);
    expect(contested.every(({ reason }) => reason.startsWith('it is not over'))).toBe(true);
  });

  it('differences are told in two units', () => {
    const apart = [0, 40_000, 150_000, HOUR - 1000, 5 * HOUR + 1000, 400 * DAY - 1000, DAY + 2 * HOUR];
    expect(apart.map(formatApart)).toEqual(['0 s', '40 s', '2 min 30 s', '1 h', '5 h', '400 d', '1 d 2 h']);
  });
});

/** Sessions that are over by the row alone. */
const OPEN = ['2026-11-18', '2026-11-19', '2026-11-20'];
