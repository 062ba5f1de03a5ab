/** Ticks of schedules as instants, also where clocks are changed. What is started then is in `loop.test.ts`. */
import { createTask } from 'node-cron';
import { describe, expect, it } from 'vitest';
import { createTicks } from '../../src/plan/ticks.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
const at = (text: string) => Date.parse(text);
const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString().slice(0, 16));

/** All ticks in `(from, to]`, oldest first. */
function list(cron: string, from: string, to: string, timezone = 'America/New_York') {
  const ticks = createTicks({ cron, timezone });
  const found: (string | undefined)[] = [];
  for (let ms = ticks.newest(at(from), at(to)); ms !== undefined; ms = ticks.newest(at(from), ms - 1)) {
    found.unshift(iso(ms));
  }
  return found;
}

describe('the ticks of a schedule', () => {
  it('are found backwards, in its time zone, the end included and the beginning not', () => {
    const ticks = createTicks({ cron: '30 17 * * 1-5', timezone: 'America/New_York' });
    const friday = at('2026-11-20T22:30:00Z');
    expect(iso(ticks.newest(friday - DAY, friday + DAY))).toBe('2026-11-20T22:30');
    expect(ticks.newest(friday, friday + 2 * DAY)).toBeUndefined();
    expect(iso(ticks.newest(0, friday, (ms) => ms < friday))).toBe('2026-11-19T22:30');
  });

  it('come when the clock has jumped where spring leaves their time out', () => {
    // Half an hour, from 02:00 to 02:30.
    expect(list('15 2 * * *', '2026-10-03T00:00:00Z', '2026-10-04T00:00:00Z', 'Australia/Lord_Howe')).toEqual([
      '2026-10-03T15:30',
    ]);
  });

  it('are not doubled by the jump where they come again within it', () => {
    expect(list('*/15 * * * *', '2027-03-14T06:29:00Z', '2027-03-14T07:20:00Z')).toEqual([
      ...['2027-03-14T06:30', '2027-03-14T06:45', '2027-03-14T07:00', '2027-03-14T07:15'],
    ]);
    expect(list('30 * * * *', '2027-03-14T06:00:00Z', '2027-03-14T09:00:00Z')).toEqual([
      ...['2027-03-14T06:30', '2027-03-14T07:30', '2027-03-14T08:30'],
    ]);
  });
});

it.each(['30 17 * * 1-5', '*/7 3,5 1-10 * *', '0 0 13 * 5', '*/15 * * 2,11 *', '5 4 * * 0,7', '0 22 1,15 * 1'])(
  'every minute of a fortnight is a tick of %s where node-cron says so, and else is none',
  (cron) => {
    const task = createTask(cron, () => undefined, { timezone: 'America/New_York' });
    // A fortnight in which no clock is changed: with those node-cron differs.
    const [from, to] = [at('2026-11-05T00:00:00Z'), at('2026-11-19T00:00:00Z')];
    const matching: (string | undefined)[] = [];
    for (let ms = from + MINUTE; ms <= to; ms += MINUTE) if (task.match(new Date(ms))) matching.push(iso(ms));
    expect(list(cron, '2026-11-05T00:00:00Z', '2026-11-19T00:00:00Z')).toEqual(matching);
  },
);

it.each([
  ['30 17 * * 1-5', '2026-11-20T22:30:00Z', '2026-11-23T22:30'],
  ['30 2 * * 1', '2027-03-11T12:00:00Z', '2027-03-15T06:30'],
])('the next tick of %s after %s is %s, also a minute later', (cron, now, next) => {
  const ticks = createTicks({ cron, timezone: 'America/New_York' });
  expect([0, MINUTE].map((ms) => iso(ticks.next(at(now) + ms)))).toEqual([next, next]);
});
