/**
 * Trading days and the exchange's clock, against what was published: "NYSE Group Announces ... Holiday and Early Closings
 * Calendar" of 2021-12-27 (2022 to 2024), 2024-11-08 (2025 to 2027) and 2025-12-23 (2026 to 2028), and NYSE's holiday
 * schedule of 2013 (2014, 2015). The options exchanges, Cboe among them, keep the same days: "1:00 p.m. (1:15 p.m. for
 * eligible options)". How dates become plans is tested in `test/plan`, the operator's override in `override.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import {
  isEarlyClose,
  isHoliday,
  isSettledAtOpen,
  monthlyExpiration,
  nameHoliday,
} from '../../src/calendar/holidays.ts';
import {
  closeSecond,
  isHalfDay,
  isSession,
  listSessions,
  previousSessions,
  sessionCloseSecond,
} from '../../src/calendar/session.ts';
import {
  addDays,
  formatSecond,
  formatWallClock,
  formatWallDate,
  isDate,
  parseWallClock,
  weekday,
} from '../../src/calendar/wall-clock.ts';

/** Full closings, month-day; 2025-01-09 was the national day of mourning for President Carter, announced ten days before. */
const CLOSED: Readonly<Record<number, readonly string[]>> = {
  2014: ['01-01', '01-20', '02-17', '04-18', '05-26', '07-04', '09-01', '11-27', '12-25'],
  2015: ['01-01', '01-19', '02-16', '04-03', '05-25', '07-03', '09-07', '11-26', '12-25'],
  2022: ['01-17', '02-21', '04-15', '05-30', '06-20', '07-04', '09-05', '11-24', '12-26'],
  2023: ['01-02', '01-16', '02-20', '04-07', '05-29', '06-19', '07-04', '09-04', '11-23', '12-25'],
  2024: ['01-01', '01-15', '02-19', '03-29', '05-27', '06-19', '07-04', '09-02', '11-28', '12-25'],
  2025: ['01-01', '01-09', '01-20', '02-17', '04-18', '05-26', '06-19', '07-04', '09-01', '11-27', '12-25'],
  2026: ['01-01', '01-19', '02-16', '04-03', '05-25', '06-19', '07-03', '09-07', '11-26', '12-25'],
  2027: ['01-01', '01-18', '02-15', '03-26', '05-31', '06-18', '07-05', '09-06', '11-25', '12-24'],
  2028: ['01-17', '02-21', '04-14', '05-29', '06-19', '07-04', '09-04', '11-23', '12-25'],
};

/** Closings at 13:00. */
const EARLY: Readonly<Record<number, readonly string[]>> = {
  2014: ['07-03', '11-28', '12-24'],
  2015: ['11-27', '12-24'],
  2022: ['11-25'],
  2023: ['07-03', '11-24'],
  2024: ['07-03', '11-29', '12-24'],
  2025: ['07-03', '11-28', '12-24'],
  2026: ['11-27', '12-24'],
  2027: ['11-26'],
  2028: ['07-03', '11-24'],
};

function listDays(year: number): readonly string[] {
  const dates: string[] = [];
  for (let date = `${year}-01-01`; date.startsWith(String(year)); date = addDays(date, 1)) dates.push(date);
  return dates;
}
const isWeekday = (date: string) => weekday(date) !== 0 && weekday(date) !== 6;

describe.each(Object.keys(CLOSED).map(Number))('the year %i', (year) => {
  const short = (date: string) => date.slice(5);

  test(`closes in ${year} on the published holidays and no others`, () => {
    expect(listDays(year).filter(isWeekday).filter(isHoliday).map(short)).toEqual(CLOSED[year]);
  });

  test(`closes early in ${year} on the published days and no others`, () => {
    expect(listDays(year).filter(isEarlyClose).map(short)).toEqual(EARLY[year]);
  });

  test(`has in ${year} a session on every other weekday`, () => {
    const closed = new Set(CLOSED[year]);
    const open = listDays(year).filter((date) => isWeekday(date) && !closed.has(short(date)));
    expect(listSessions(`${year}-01-01`, `${year}-12-31`)).toEqual(open);
  });
});

test.each([
  { date: '2026-11-25', half: false, equity: '16:00:00', index: '16:15:00' },
  { date: '2026-11-27', half: true, equity: '13:00:00', index: '13:15:00' },
  { date: '2024-07-03', half: true, equity: '13:00:00', index: '13:15:00' },
  { date: '2026-07-02', half: false, equity: '16:00:00', index: '16:15:00' },
])('on $date options of stocks close at $equity, those of indices at $index', ({ date, half, equity, index }) => {
  expect(isHalfDay(date)).toBe(half);
  expect(formatSecond(closeSecond(date, 'equity'))).toBe(equity);
  expect(formatSecond(closeSecond(date, 'index'))).toBe(index);
  // The last trades print then.
  expect(sessionCloseSecond(date)).toBe(closeSecond(date, 'index'));
});

test('days of mourning and of storms had no session, although no rule says so', () => {
  const days = ['2001-09-11', '2004-06-11', '2007-01-02', '2012-10-29', '2012-10-30', '2018-12-05', '2025-01-09'];
  expect(days.filter((date) => isSession(date) || isHalfDay(date))).toEqual([]);
});

test('previous sessions step over holidays and weekends and end with the date itself when it is one', () => {
  expect(previousSessions('2026-11-27', 3)).toEqual(['2026-11-24', '2026-11-25', '2026-11-27']);
  expect(previousSessions('2026-11-29', 2)).toEqual(['2026-11-25', '2026-11-27']);
  expect(previousSessions('2028-01-03', 2)).toEqual(['2027-12-31', '2028-01-03']);
  expect(previousSessions('2026-11-29', 0)).toEqual([]);
});

test('a range of sessions that ends before it begins is empty', () => {
  expect(listSessions('2026-11-27', '2026-11-20')).toEqual([]);
});

describe('the wall clock', () => {
  test.each([
    ['2026-11-19T14:30:00Z', '2026-11-19 09:30:00'],
    ['2026-07-01T13:30:00Z', '2026-07-01 09:30:00'],
    ['2026-03-08T06:59:59Z', '2026-03-08 01:59:59'],
    ['2026-03-08T07:00:00Z', '2026-03-08 03:00:00'],
    ['2026-11-01T05:30:00Z', '2026-11-01 01:30:00'],
    ['2026-11-01T06:30:00Z', '2026-11-01 01:30:00'],
    ['2026-11-01T07:00:00Z', '2026-11-01 02:00:00'],
    ['2026-01-01T05:00:00Z', '2026-01-01 00:00:00'],
    ['2026-01-01T04:59:59.999Z', '2025-12-31 23:59:59'],
  ])('shows at %s %s', (instant, wall) => {
    expect(formatWallClock(Date.parse(instant))).toBe(wall);
    expect(formatWallDate(Date.parse(instant))).toBe(wall.slice(0, 10));
  });

  test('reads back every half hour of the year that comes once', () => {
    const twice = new Set(['2026-11-01 01:00:00', '2026-11-01 01:30:00']);
    for (let at = Date.parse('2026-01-01T05:00:00Z'); at < Date.parse('2027-01-01T05:00:00Z'); at += 1_800_000) {
      const wall = formatWallClock(at);
      if (twice.has(wall)) continue;
      const second = Number(wall.slice(11, 13)) * 3600 + Number(wall.slice(14, 16)) * 60;
      expect(parseWallClock(wall.slice(0, 10), second), wall).toBe(at);
    }
  });

  test('takes a time skipped in spring for one as long after the jump, and the earlier of two equal ones in autumn', () => {
    expect(new Date(parseWallClock('2026-03-08', 2.5 * 3600)).toISOString()).toBe('2026-03-08T07:30:00.000Z');
    expect(new Date(parseWallClock('2026-11-01', 1.5 * 3600)).toISOString()).toBe('2026-11-01T05:30:00.000Z');
  });
});

test('a date is written YYYY-MM-DD, and exists', () => {
  expect(['2026-11-19', '2028-02-29'].filter(isDate)).toHaveLength(2);
  const others = ['2026-02-29', '2026-13-01', '2026-00-10', '2026-11-31', '2026-1-1', '2026-11-19 ', '20261119'];
  expect([...others, '', 'yesterday'].filter(isDate)).toEqual([]);
});

test('a closed weekday has the name of its holiday, also where it is observed on another day', () => {
  const names = ['2026-11-26', '2027-07-05', '2026-04-03', '2025-01-09', '2026-11-27'].map(nameHoliday);
  expect(names).toEqual(['Thanksgiving Day', 'Independence Day', 'Good Friday', 'Unscheduled closure', undefined]);
});

// Cboe and Nasdaq, specifications of their index options; Cboe's expiration calendars of 2022, 2025 and 2026.
describe('settlement at the opening', () => {
  test.each([
    ['2026-11-02', '2026-11-20'],
    ['2026-06-30', '2026-06-18'],
    ['2025-04-01', '2025-04-17'],
    ['2022-04-14', '2022-04-14'],
  ])('of the month of %s is on %s', (date, expected) => {
    expect(monthlyExpiration(date)).toBe(expected);
  });

  test('is of monthly index series, and of all on VIX', () => {
    const settled = (date: string) =>
      ['SPX', 'NDX', 'RUT', 'DJX', 'VIX', 'VIXW', 'SPXW', 'NDXP', 'RUTW', 'XSP', 'MRUT', 'SPY'].filter((root) =>
        isSettledAtOpen(root, date),
      );
    expect(settled('2026-11-20')).toEqual(['SPX', 'NDX', 'RUT', 'DJX', 'VIX', 'VIXW']);
    expect(settled('2026-11-18')).toEqual(['VIX', 'VIXW']);
  });
});
