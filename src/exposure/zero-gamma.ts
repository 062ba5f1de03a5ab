/**
 * Zero gamma: the price of the underlying at which a chain's net gamma exposure changes its sign, when each contract's
 * gamma is recomputed at each price with its own implied volatility held fixed. Pure.
 *
 * Method of S. Perfiliev, "How to Calculate Gamma Exposure (GEX) and Zero Gamma Level": 60 prices from 0.8 S to 1.2 S,
 * Black-Scholes gamma with r = q = 0, T = business days / 262 (0 taken as 1), linear interpolation between the first
 * two neighboring prices whose signs differ. Excluded: expired contracts, and those without an implied volatility or
 * open interest.
 */
import { MOVE, type OptionContract, SHARES_PER_CONTRACT } from './gamma-exposure.ts';

/** Height of the standard normal density at 0. */
const NORMAL_PEAK = 1 / Math.sqrt(2 * Math.PI);
const LEVELS = 60;
const LOWEST = 0.8;
const HIGHEST = 1.2;

/** The prices of a profile as multiples of the spot, ascending. */
export const PRICE_LEVELS: readonly number[] = Array.from(
  { length: LEVELS },
  (_, level) => LOWEST + ((HIGHEST - LOWEST) * level) / (LEVELS - 1),
);

/** Net exposure by price of the underlying. */
interface GammaProfile {
  /** Prices of the underlying, ascending, dollars. */
  readonly prices: Float64Array;
  /** Net exposure at each price, dollars per 1% move. */
  readonly netGex: Float64Array;
}

/**
 * The lowest price of the range at which net exposure changes its sign, dollars; null if it does not.
 * @param spot price of the underlying, dollars, above 0
 * @param date date of the chain, YYYY-MM-DD, from which time to expiration is counted
 */
export function computeZeroGamma(spot: number, date: string, contracts: Iterable<OptionContract>): number | null {
  return findSignChange(buildGammaProfile(spot, date, contracts));
}

/**
 * With `a = 1 / (sigma sqrt(T))`, a contract's exposure at the price P is
 * `n(d1) / (P sigma sqrt(T)) x OI x 100 x P^2 x 0.01 = OI x a x P x n(a ln P + b)`, `b = 1 / (2a) - a ln K`,
 * which costs one exponential per contract and price. Memory: a few numbers per contract.
 */
export function buildGammaProfile(spot: number, date: string, contracts: Iterable<OptionContract>): GammaProfile {
  const terms = listTerms(date, contracts);
  const prices = Float64Array.from(PRICE_LEVELS, (level) => spot * level);
  const dollars = NORMAL_PEAK * SHARES_PER_CONTRACT * MOVE;
  return { prices, netGex: prices.map((price) => sumTerms(terms, Math.log(price)) * price * dollars) };
}

/**
 * Where the profile first changes its sign, interpolated; a price at which it is exactly 0 has no sign and is skipped.
 */
export function findSignChange({ prices, netGex }: GammaProfile): number | null {
  let last: readonly [price: number, net: number] | undefined;
  for (const [level, net] of netGex.entries()) {
    const price = prices[level];
    if (price === undefined || net === 0) continue;
    if (last && last[1] < 0 !== net < 0) return last[0] + ((price - last[0]) * last[1]) / (last[1] - net);
    last = [price, net];
  }
  return null;
}

/** Three numbers per contract, in this order: signed weight `OI x a`, slope `a`, offset `b`. */
const NUMBERS_PER_TERM = 3;

function listTerms(date: string, contracts: Iterable<OptionContract>): Float64Array {
  // A chain has many contracts of few expirations.
  const years = new Map<string, number>();
  const terms: number[] = [];
  for (const { putCall, strike, expirationDate, iv, openInterest } of contracts) {
    if (iv === null || !(iv > 0 && openInterest > 0 && strike > 0) || expirationDate < date) continue;
    const left = years.get(expirationDate) ?? countYears(date, expirationDate);
    years.set(expirationDate, left);
    const slope = 1 / (iv * Math.sqrt(left));
    const weight = (putCall === 'CALL' ? openInterest : -openInterest) * slope;
    terms.push(weight, slope, 1 / (2 * slope) - slope * Math.log(strike));
  }
  return Float64Array.from(terms);
}

function sumTerms(terms: Float64Array, logPrice: number): number {
  let sum = 0;
  for (let at = 0; at < terms.length; at += NUMBERS_PER_TERM) {
    // The indexes are inside the array; the fallbacks only satisfy the compiler.
    const d1 = (terms[at + 1] ?? 0) * logPrice + (terms[at + 2] ?? 0);
    sum += (terms[at] ?? 0) * Math.exp(-(d1 * d1) / 2);
  }
  return sum;
}

/** Business days per year, as in the reference. */
export const BUSINESS_DAYS_PER_YEAR = 262;

const DAY_MS = 86_400_000;
export const DAYS_PER_WEEK = 7;
export const WEEKDAYS = 5;
/** A Monday in days since 1970-01-01; the first five of every seven days from it are weekdays. */
const FIRST_MONDAY = 4;

/** Weekdays of `[from, to)`, dates as YYYY-MM-DD; 0 if `to` is not after `from`. */
function countBusinessDays(from: string, to: string): number {
  return Math.max(0, countWeekdays(to) - countWeekdays(from));
}

/** Years from `date` to an expiration: business days / 262, at least one day. */
function countYears(date: string, expirationDate: string): number {
  return Math.max(1, countBusinessDays(date, expirationDate)) / BUSINESS_DAYS_PER_YEAR;
}

/** Weekdays from the first Monday of 1970 to `date`, excluding `date`; negative before that Monday. */
export function countWeekdays(date: string): number {
  const days = Date.parse(`${date}T00:00:00Z`) / DAY_MS - FIRST_MONDAY;
  const weeks = Math.floor(days / DAYS_PER_WEEK);
  return weeks * WEEKDAYS + Math.min(days - weeks * DAYS_PER_WEEK, WEEKDAYS);
}
