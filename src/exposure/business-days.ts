/**
 * Time to expiration in business days. Pure. Weekdays only: exchange holidays count, as in `numpy.busday_count` without
 * holidays, which the published reference for zero gamma uses.
 */

/** Business days per year, as in the reference. */
export const BUSINESS_DAYS_PER_YEAR = 262;

const DAY_MS = 86_400_000;
export const DAYS_PER_WEEK = 7;
export const WEEKDAYS = 5;
/** A Monday in days since 1970-01-01; the first five of every seven days from it are weekdays. */
export const FIRST_MONDAY = 4;

/** Weekdays of `[from, to)`, dates as YYYY-MM-DD; 0 if `to` is not after `from`. */
export function countBusinessDays(from: string, to: string): number {
  return Math.max(0, countWeekdays(to) - countWeekdays(from));
}

/** Years from `date` to an expiration: business days / 262, at least one day. */
export function countYears(date: string, expirationDate: string): number {
  return Math.max(1, countBusinessDays(date, expirationDate)) / BUSINESS_DAYS_PER_YEAR;
}

/** Weekdays from the first Monday of 1970 to `date`, excluding `date`; negative before that Monday. */
export function countWeekdays(date: string): number {
  const days = Date.parse(`${date}T00:00:00Z`) / DAY_MS - FIRST_MONDAY;
  const weeks = Math.floor(days / DAYS_PER_WEEK);
  return weeks * WEEKDAYS + Math.min(days - weeks * DAYS_PER_WEEK, WEEKDAYS);
}
