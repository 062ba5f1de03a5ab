/**
 * Gamma exposure (GEX) of a chain, in dollars per 1% move of the underlying. Pure.
 *
 * Per contract `gamma x OI x 100 x S^2 x 0.01`: the dollars of the underlying that dealers must trade per 1% move to
 * stay hedged, under the naive assumption that dealers are long the calls (+) and short the puts (-). The signs follow
 * SqueezeMetrics' white paper "Gamma Exposure". Invariant: call sums are at least 0 and put sums at most 0: a gamma
 * that is unknown, or not above 0 (which no long option has), counts as 0.
 */

/** Dollars per 1% move: calls at least 0, puts at most 0, net their sum. */
export interface GammaSums {
  readonly callGex: number;
  readonly putGex: number;
  readonly netGex: number;
}

interface StrikeExposure extends GammaSums {
  readonly strike: number;
  /** Open interest at the strike, contracts. */
  readonly callOpenInterest: number;
  readonly putOpenInterest: number;
}

interface ExpirationExposure extends GammaSums {
  readonly expirationDate: string;
}

export interface GammaExposure extends GammaSums {
  /** One entry per strike of the chain, ascending. */
  readonly strikes: readonly StrikeExposure[];
  /** One entry per expiration of the chain, ascending. */
  readonly expirations: readonly ExpirationExposure[];
  /** Strike with the largest call GEX (the lowest of equals); null if no call has any. */
  readonly callWall: number | null;
  /** Strike with the most negative put GEX (the lowest of equals); null if no put has any. */
  readonly putWall: number | null;
}

interface Tally {
  call: number;
  put: number;
  callOpenInterest: number;
  putOpenInterest: number;
}

/**
 * Sums the exposure of `contracts` at the price `spot`, dollars, with the gammas that they carry. Expired contracts
 * count with their own gamma, which is 0 on exchange pages.
 */
export function sumGammaExposure(spot: number, contracts: Iterable<OptionContract>): GammaExposure {
  const dollars = SHARES_PER_CONTRACT * spot * spot * MOVE;
  const byStrike = new Map<number, Tally>();
  const byExpiration = new Map<string, Tally>();
  const total = createTally();
  for (const contract of contracts) {
    const gamma = contract.gamma !== null && contract.gamma > 0 ? contract.gamma : 0;
    const weight = gamma * contract.openInterest * dollars;
    add(total, contract, weight);
    add(readTally(byStrike, contract.strike), contract, weight);
    add(readTally(byExpiration, contract.expirationDate), contract, weight);
  }
  const strikes = [...byStrike]
    .sort(([a], [b]) => a - b)
    .map(([strike, tally]) => ({
      strike,
      ...readSums(tally),
      callOpenInterest: tally.callOpenInterest,
      putOpenInterest: tally.putOpenInterest,
    }));
  const expirations = [...byExpiration]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([expirationDate, tally]) => ({ expirationDate, ...readSums(tally) }));
  return {
    ...readSums(total),
    strikes,
    expirations,
    callWall: findWall(strikes, ({ callGex }) => callGex),
    putWall: findWall(strikes, ({ putGex }) => -putGex),
  };
}

function add(tally: Tally, { putCall, openInterest }: OptionContract, weight: number): void {
  if (putCall === 'CALL') {
    tally.call += weight;
    tally.callOpenInterest += openInterest;
  } else {
    tally.put += weight;
    tally.putOpenInterest += openInterest;
  }
}

/** The strike with the largest size above 0; null if there is none. */
function findWall(strikes: readonly StrikeExposure[], size: (strike: StrikeExposure) => number): number | null {
  let wall: number | null = null;
  let largest = 0;
  for (const strike of strikes) {
    if (size(strike) <= largest) continue;
    largest = size(strike);
    wall = strike.strike;
  }
  return wall;
}

function readSums({ call, put }: Tally): GammaSums {
  // `0 - put` rather than `-put`, which would be a negative zero.
  return { callGex: call, putGex: 0 - put, netGex: call - put };
}

function readTally<Key>(tallies: Map<Key, Tally>, key: Key): Tally {
  const found = tallies.get(key);
  if (found) return found;
  const created = createTally();
  tallies.set(key, created);
  return created;
}

function createTally(): Tally {
  return { call: 0, put: 0, callOpenInterest: 0, putOpenInterest: 0 };
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
