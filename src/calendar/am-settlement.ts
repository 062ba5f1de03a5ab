/**
 * Option series that settle at the opening of their expiration date (AM settlement). They trade for the last time on the
 * business day before, so on the date itself they have no gamma, and no trade of it is theirs. Their siblings that settle
 * at the close (SPXW, NDXP, RUTW, XSP, MRUT) live to it. Sources: Cboe, specifications of SPX, RUT, DJX and VIX options;
 * Nasdaq, specification of NDX options. Pure.
 */
import { isHoliday, nthWeekday } from './holidays.ts';
import { addDays, weekday } from './wall-clock.ts';

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
