/**
 * Full holidays and early closes of the U.S. options exchanges, by rule. Source: NYSE "Holidays & Trading Hours" (rule
 * 7.2), which the options exchanges follow; the early closes follow the rules since 2013. Unscheduled closures are
 * listed; closures announced after this release belong in an override (`override.ts`). Pure.
 *
 * Also the option series that settle at the opening of their expiration date (AM settlement). They trade for the last time
 * on the business day before, so on the date itself they have no gamma, and no trade of it is theirs. Their siblings that
 * settle at the close (SPXW, NDXP, RUTW, XSP, MRUT) live to it. Sources: Cboe, specifications of SPX, RUT, DJX and VIX
 * options; Nasdaq, specification of NDX options.
 */
import { addDays, weekday } from './wall-clock.ts';

/** Days closed by proclamation or disaster rather than by rule. */
const UNSCHEDULED_CLOSURES: ReadonlySet<string> = new Set([
  '2001-09-11',
  '2001-09-12',
  '2001-09-13',
  '2001-09-14',
  '2004-06-11',
  '2007-01-02',
  '2012-10-29',
  '2012-10-30',
  '2018-12-05',
  '2025-01-09',
]);

/** First year in which Juneteenth closed the exchanges. */
const JUNETEENTH_SINCE = 2022;

const SUNDAY = 0;
const MONDAY = 1;
const THURSDAY = 4;
const SATURDAY = 6;

/** Whether the exchanges are closed on a weekday. */
export function isHoliday(date: string): boolean {
  return nameHoliday(date) !== undefined;
}

/** Why the exchanges are closed on a weekday; `undefined` if they are open. */
export function nameHoliday(date: string): string | undefined {
  const name = holidaysOf(Number(date.slice(0, 4))).find(([, day]) => day === date)?.[0];
  return name ?? (UNSCHEDULED_CLOSURES.has(date) ? 'Unscheduled closure' : undefined);
}

/** Whether regular trading ends at 13:00: 3 July, the day after Thanksgiving, Christmas Eve. */
export function isEarlyClose(date: string): boolean {
  const day = weekday(date);
  if (day === SUNDAY || day === SATURDAY || isHoliday(date)) return false;
  const year = Number(date.slice(0, 4));
  const beforeFriday = day >= MONDAY && day <= THURSDAY;
  if (date === addDays(nthWeekday(year, 11, THURSDAY, 4), 1)) return true;
  return beforeFriday && (date === `${year}-07-03` || date === `${year}-12-24`);
}

/** Holidays by year, computed once: a calendar on a page asks for hundreds of dates. */
const computed = new Map<number, ReturnType<typeof listHolidays>>();

function holidaysOf(year: number): ReturnType<typeof listHolidays> {
  const holidays = computed.get(year) ?? listHolidays(year);
  computed.set(year, holidays);
  return holidays;
}

function listHolidays(year: number): readonly (readonly [name: string, date: string])[] {
  const newYear = `${year}-01-01`;
  return [
    // New Year's Day on a Saturday is not observed: the Friday before closes the old year's books.
    ...(weekday(newYear) === SATURDAY ? [] : [["New Year's Day", observe(newYear)] as const]),
    ['Martin Luther King Jr. Day', nthWeekday(year, 1, MONDAY, 3)],
    ["Washington's Birthday", nthWeekday(year, 2, MONDAY, 3)],
    ['Good Friday', addDays(easterSunday(year), -2)],
    ['Memorial Day', lastMonday(year, 5)],
    ...(year >= JUNETEENTH_SINCE ? [['Juneteenth', observe(`${year}-06-19`)] as const] : []),
    ['Independence Day', observe(`${year}-07-04`)],
    ['Labor Day', nthWeekday(year, 9, MONDAY, 1)],
    ['Thanksgiving Day', nthWeekday(year, 11, THURSDAY, 4)],
    ['Christmas Day', observe(`${year}-12-25`)],
  ];
}

/** Saturday holidays close the Friday before, Sunday holidays the Monday after. */
function observe(date: string): string {
  const day = weekday(date);
  if (day === SATURDAY) return addDays(date, -1);
  return day === SUNDAY ? addDays(date, 1) : date;
}

function nthWeekday(year: number, month: number, day: number, nth: number): string {
  const first = `${year}-${String(month).padStart(2, '0')}-01`;
  return addDays(first, ((day - weekday(first) + 7) % 7) + (nth - 1) * 7);
}

function lastMonday(year: number, month: number): string {
  const last = addDays(`${year}-${String(month + 1).padStart(2, '0')}-01`, -1);
  return addDays(last, -((weekday(last) - MONDAY + 7) % 7));
}

/** Easter Sunday by the anonymous Gregorian computus (Meeus, Astronomical Algorithms, ch. 8). */
function easterSunday(year: number): string {
  const a = year % 19;
  const b = Math.floor(year / 100);
  const c = year % 100;
  const d = Math.floor(b / 4);
  const e = b % 4;
  const f = Math.floor((b + 8) / 25);
  const g = Math.floor((b - f + 1) / 3);
  const h = (19 * a + b - d - g + 15) % 30;
  const i = Math.floor(c / 4);
  const k = c % 4;
  const l = (32 + 2 * e + 2 * i - h - k) % 7;
  const m = Math.floor((a + 11 * h + 22 * l) / 451);
  const month = Math.floor((h + l - 7 * m + 114) / 31);
  const day = ((h + l - 7 * m + 114) % 31) + 1;
  return `${year}-${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}`;
}

/** Roots whose series all settle at the opening; the symbol of both is VIX. */
export const ALWAYS_SETTLED_AT_OPEN: readonly string[] = ['VIX', 'VIXW'];
/** Roots whose series settle at the opening of their monthly expiration date. */
export const MONTHLY_SETTLED_AT_OPEN: readonly string[] = ['SPX', 'NDX', 'RUT', 'DJX'];

const FRIDAY = 5;
const MONTHS = 12;

/** The third Friday of the month of `date`, or the business day before if that is a holiday. */
export function monthlyExpiration(date: string): string {
  let day = nthWeekday(Number(date.slice(0, 4)), Number(date.slice(5, 7)), FRIDAY, 3);
  while (isHoliday(day)) day = addDays(day, -1);
  return day;
}

/** Monthly expiration dates of `[from, to]`, years, that are not a Friday. */
export function listEarlyExpirations(from: number, to: number): readonly string[] {
  return Array.from({ length: (to - from + 1) * MONTHS }, (_, month) => {
    const year = from + Math.floor(month / MONTHS);
    return monthlyExpiration(`${year}-${String((month % MONTHS) + 1).padStart(2, '0')}-01`);
  }).filter((day) => weekday(day) !== FRIDAY);
}

/** Whether a series of this root that expires on `date` settles at its opening. */
export function isSettledAtOpen(root: string, date: string): boolean {
  if (ALWAYS_SETTLED_AT_OPEN.includes(root)) return true;
  return MONTHLY_SETTLED_AT_OPEN.includes(root) && date === monthlyExpiration(date);
}
