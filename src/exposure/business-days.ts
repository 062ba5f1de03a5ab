/**
 * Time to expiration in business days. Pure. Weekdays only: exchange holidays count, as in `numpy.busday_count` without
 * holidays, by which the published reference of zero gamma was computed.
 */

/** Business days of a year, as the reference counts them. */
const BUSINESS_DAYS_PER_YEAR = 262;

const DAY_MS = 86_400_000;
const DAYS_PER_WEEK = 7;
const WEEKDAYS = 5;
/** A Monday, so that the first five days of every seven since are weekdays. */
const EPOCH_MONDAY_MS = Date.UTC(1970, 0, 5);

/** Weekdays of `[from, to)`, dates as YYYY-MM-DD; 0 when `to` is not after `from`. */
export function countBusinessDays(from: string, to: string): number {
  return Math.max(0, countSinceEpoch(to) - countSinceEpoch(from));
}

/** Years from `date` to an expiration: business days / 262, where an expiration within the day still has one day. */
export function countYears(date: string, expirationDate: string): number {
  return Math.max(1, countBusinessDays(date, expirationDate)) / BUSINESS_DAYS_PER_YEAR;
}

/** Weekdays from the epoch to `date`, which is not counted; negative before the epoch. */
function countSinceEpoch(date: string): number {
  const days = (Date.parse(`${date}T00:00:00Z`) - EPOCH_MONDAY_MS) / DAY_MS;
  const weeks = Math.floor(days / DAYS_PER_WEEK);
  return weeks * WEEKDAYS + Math.min(days - weeks * DAYS_PER_WEEK, WEEKDAYS);
}
