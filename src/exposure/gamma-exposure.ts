/**
 * Gamma exposure (GEX) of a chain, in dollars per 1% move of the underlying, and zero gamma: the price of the underlying at
 * which a chain's net exposure changes its sign, when each contract's gamma is recomputed at each price with its own implied
 * volatility held fixed. Pure.
 *
 * Per contract `gamma x OI x 100 x S^2 x 0.01`: the dollars of the underlying that dealers must trade per 1% move to
 * stay hedged, under the naive assumption that dealers are long the calls (+) and short the puts (-). The signs follow
 * SqueezeMetrics' white paper "Gamma Exposure". Invariant: call sums are at least 0 and put sums at most 0: a gamma
 * that is unknown, or not above 0 (which no long option has), counts as 0.
 *
 * Zero gamma is by S. Perfiliev, "How to Calculate Gamma Exposure (GEX) and Zero Gamma Level": 60 prices from 0.8 S to 1.2 S,
 * Black-Scholes gamma with r = q = 0, T = business days / 262 (0 taken as 1), linear interpolation between two
 * neighboring prices whose signs differ. Perfiliev takes the first such pair; we take the nearest to the spot. Excluded: expired contracts, and those without an implied volatility or
 * open interest.
 */

/** Sums of contracts: dollars per 1% move, calls at least 0, puts at most 0; and open interest, contracts. */
interface GammaSums {
  call_gex: number;
  put_gex: number;
  net_gex: number;
  call_oi: number;
  put_oi: number;
}

/**
 * Sums the exposure of `contracts` at the price `spot`, dollars, with the gammas that they carry, in the words of the
 * market-structure endpoint. Expired contracts count with their own gamma, which is 0 on exchange pages.
 * @returns the sums of all, by strike and by expiration, ascending; the walls are the strikes with the largest call GEX and
 *   with the most negative put GEX (the lowest of equals), null where there is none
 */
export function sumGammaExposure(spot: number, contracts: readonly OptionContract[]) {
  const dollars = SHARES_PER_CONTRACT * spot * spot * MOVE;
  const total = sumContracts(contracts, dollars);
  const gex_by_strike = groupContracts(contracts, ({ strike }) => strike).map(([strike, group]) => ({
    strike,
    ...sumContracts(group, dollars),
  }));
  const gex_by_expiration = groupContracts(contracts, ({ expirationDate }) => expirationDate).map(([date, group]) => {
    const { call_gex, put_gex, net_gex } = sumContracts(group, dollars);
    return { expiration_date: date, call_gex, put_gex, net_gex };
  });
  return {
    call_gex: total.call_gex,
    put_gex: total.put_gex,
    net_gex: total.net_gex,
    call_wall: findWall(gex_by_strike, ({ call_gex }) => call_gex),
    put_wall: findWall(gex_by_strike, ({ put_gex }) => -put_gex),
    gex_by_strike,
    gex_by_expiration,
  };
}

function groupContracts<Key extends number | string>(
  contracts: readonly OptionContract[],
  keyOf: (contract: OptionContract) => Key,
): readonly (readonly [Key, readonly OptionContract[]])[] {
  const groups = new Map<Key, OptionContract[]>();
  for (const contract of contracts) {
    const key = keyOf(contract);
    const group = groups.get(key);
    if (group) group.push(contract);
    else groups.set(key, [contract]);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function sumContracts(contracts: readonly OptionContract[], dollars: number): GammaSums {
  const sums = { call_gex: 0, put_gex: 0, net_gex: 0, call_oi: 0, put_oi: 0 };
  for (const { putCall, gamma, openInterest } of contracts) {
    const gex = (gamma !== null && gamma > 0 ? gamma : 0) * openInterest * dollars;
    if (putCall === 'CALL') {
      sums.call_gex += gex;
      sums.call_oi += openInterest;
    } else {
      sums.put_gex -= gex;
      sums.put_oi += openInterest;
    }
  }
  return { ...sums, net_gex: sums.call_gex + sums.put_gex };
}

/** The strike with the largest size above 0; null if there is none. */
function findWall<Strike extends { readonly strike: number }>(
  strikes: readonly Strike[],
  size: (strike: Strike) => number,
): number | null {
  let wall: number | null = null;
  let largest = 0;
  for (const strike of strikes) {
    if (size(strike) <= largest) continue;
    largest = size(strike);
    wall = strike.strike;
  }
  return wall;
}

/** One listed series: a root, an expiration, a strike, and call or put. */
export interface OptionContract {
  readonly putCall: 'CALL' | 'PUT';
  /** Dollars. */
  readonly strike: number;
  /** YYYY-MM-DD. */
  readonly expirationDate: string;
  /** Implied volatility, annualized, 1 = 100%; null or 0 if unknown. */
  readonly iv: number | null;
  /** Change of delta per dollar of the underlying; null or 0 if unknown. */
  readonly gamma: number | null;
  /** Contracts. */
  readonly openInterest: number;
}

/** Shares of the underlying per contract (OCC, standard contracts). */
export const SHARES_PER_CONTRACT = 100;

/** Exposures are stated for a 1% move of the underlying. */
export const MOVE = 0.01;

const LEVELS = 60;
const LOWEST = 0.8;
const HIGHEST = 1.2;

/** The prices of a profile as multiples of the spot, ascending. */
export const PRICE_LEVELS: readonly number[] = Array.from(
  { length: LEVELS },
  (_, level) => LOWEST + ((HIGHEST - LOWEST) * level) / (LEVELS - 1),
);

/**
 * The prices of the range at which net exposure changes its sign, interpolated, dollars: the nearest to the spot first. A price
 * at which it is exactly 0 has no sign and is skipped.
 *
 * With `a = 1 / (sigma sqrt(T))`, a contract's exposure at the price P is
 * `n(d1) / (P sigma sqrt(T)) x OI x 100 x P^2 x 0.01 = OI x a x P x n(a ln P + b)`, `b = 1 / (2a) - a ln K`,
 * which costs one exponential per contract and price. Factors that all prices share have no part in the sign.
 * @param spot price of the underlying, dollars, above 0
 * @param date date of the chain, YYYY-MM-DD, from which time to expiration is counted
 */
export function listZeroGammas(spot: number, date: string, contracts: Iterable<OptionContract>): readonly number[] {
  const terms = listTerms(date, contracts);
  const found: number[] = [];
  let last: readonly [price: number, net: number] | undefined;
  for (const level of PRICE_LEVELS) {
    const price = spot * level;
    const net = sumTerms(terms, Math.log(price)) * price;
    if (net === 0) continue;
    if (last && last[1] < 0 !== net < 0) found.push(last[0] + ((price - last[0]) * last[1]) / (last[1] - net));
    last = [price, net];
  }
  return found.sort((a, b) => Math.abs(a - spot) - Math.abs(b - spot) || a - b);
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
