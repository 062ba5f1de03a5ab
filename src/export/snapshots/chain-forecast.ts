/**
 * How many contracts the strikes of a chain have that were not fetched yet, and so how many of them the next request may ask
 * for. Known are weights by strike, of the last date or of a sample; answers and refusals correct them on the way from the
 * lowest strike to the highest. Pure. Invariant: it only chooses what is asked for; a wrong guess costs requests.
 */
import type { StrikeCount } from './chain-part.ts';

interface ForecastOptions {
  /** Ascending; not empty. */
  readonly weights: readonly StrikeCount[];
  /** `sample`: only their proportions are of use. `counts`: they were the numbers of the last date. */
  readonly kind: 'sample' | 'counts';
  /** Contracts of all the strikes, if the API stated them. */
  readonly total: number | undefined;
}

/** A sample is wrong at some strikes: parts are planned so much smaller. */
const SAMPLE_FILL = 0.9;
/** Neighbours are denser or thinner than the sample in the same way: so much of the last answer's scale counts for the next. */
const NEIGHBOUR = 0.6;
/** Of a chain of unknown size, the share that is asked for first. */
const FIRST_SHARE = 1 / 8;
/** So much larger than planned is a part that was refused, where the API states no number. */
const REFUSED_BY = 1.25;
/** Most of a refused part's strikes that are asked for next. */
const SHRINK = 0.9;

export class ChainForecast {
  readonly #weights: readonly StrikeCount[];
  readonly #kind: 'sample' | 'counts';
  /** Contracts at `#at` and above. */
  #left: number | undefined;
  #at = 0;
  /** Strikes of the last part that was planned, and the most contracts it was to have. */
  #planned = { strikes: 0, size: 0 };
  /** Contracts of all answers so far, and their weight. */
  #seen = { contracts: 0, weight: 0 };
  /** Contracts for one unit of weight, as of the last answer. */
  #lastScale: number | undefined;
  /** Strikes from `#at` on of which only their sum is known: they were too many for one answer. */
  #refused: { readonly end: number; readonly contracts: number; readonly isWhole: boolean } | undefined;

  constructor({ weights, kind, total }: ForecastOptions) {
    this.#weights = weights;
    this.#kind = kind;
    this.#left = total;
  }

  get isOver(): boolean {
    return this.#at >= this.#weights.length;
  }

  /**
   * Plans the next part.
   * @param size contracts that an answer may have; `undefined`: unknown
   * @returns number of its strikes, the strike that follows them, and how many contracts they are expected to have
   */
  plan(size: number | undefined): { strikes: number; above: number | undefined; expected: number | undefined } {
    const rest = this.#weights.slice(this.#at);
    const inside = this.#refused === undefined ? [] : rest.slice(0, this.#refused.end - this.#at);
    const beyond = rest.slice(inside.length);
    const most = size ?? Number.POSITIVE_INFINITY;
    const mean = this.#meanScale(weigh(beyond), most);
    const isLast = this.#left !== undefined && this.#left <= most;
    const insideScale = this.#refused && this.#refused.contracts / weigh(inside);
    const scale = this.#nextScale(mean, insideScale);
    let strikes = 0;
    let own = 0;
    if (isLast) [strikes, own] = [rest.length, this.#left ?? 0];
    else if (scale === undefined || size === undefined) {
      // Nothing is known but proportions.
      const wanted = weigh(rest) * FIRST_SHARE;
      for (; strikes < rest.length && (strikes === 0 || own < wanted); strikes += 1) own += rest[strikes]?.[1] ?? 0;
    } else {
      const expected = rest.map(
        ([, weight], index) => weight * (index < inside.length ? (insideScale ?? scale) : scale),
      );
      const total = (this.#refused?.contracts ?? 0) + weigh(beyond) * (mean ?? scale);
      const parts = Math.ceil(total / (size * (this.#kind === 'sample' ? SAMPLE_FILL : 1)));
      const goal = total / Math.max(1, parts);
      for (const contracts of expected) {
        if (strikes > 0 && (own + contracts / 2 > goal || own + contracts > size)) break;
        own += contracts;
        strikes += 1;
      }
    }
    // What was refused is never asked for again, whatever the figures say.
    if (this.#refused?.isWhole) strikes = Math.max(1, Math.min(strikes, Math.floor(inside.length * SHRINK)));
    this.#planned = { strikes, size: most };
    return { strikes, above: rest[strikes]?.[0], expected: scale === undefined && !isLast ? undefined : own };
  }

  /** @param contracts of the part that was planned last */
  noteAnswer(contracts: number): void {
    const weight = weigh(this.#part());
    this.#seen = { contracts: this.#seen.contracts + contracts, weight: this.#seen.weight + weight };
    this.#lastScale = contracts / weight;
    this.#leave(contracts);
  }

  /** The part that was planned last was too large. @param contracts as the API states them */
  noteRefusal(contracts: number | undefined): void {
    const { strikes, size } = this.#planned;
    const guess = Math.max(REFUSED_BY * (Number.isFinite(size) ? size : 0), weigh(this.#part()));
    this.#refused = { end: this.#at + strikes, contracts: contracts ?? guess, isWhole: true };
  }

  /** Somebody else fetches the part that was planned last. */
  skip(): void {
    this.#leave(this.#refused?.contracts ?? 0);
  }

  #part(): readonly StrikeCount[] {
    return this.#weights.slice(this.#at, this.#at + this.#planned.strikes);
  }

  #leave(contracts: number): void {
    this.#at += this.#planned.strikes;
    if (this.#left !== undefined) this.#left = Math.max(0, this.#left - contracts);
    const { end, contracts: refused } = this.#refused ?? { end: 0, contracts: 0 };
    this.#refused = end > this.#at ? { end, contracts: Math.max(0, refused - contracts), isWhole: false } : undefined;
  }

  /** Contracts for one unit of weight, in all that is left beyond a refused part. */
  #meanScale(beyond: number, size: number): number | undefined {
    if (this.#left !== undefined)
      return Math.max(0, this.#left - (this.#refused?.contracts ?? 0)) / Math.max(1, beyond);
    const refused = this.#weights.slice(this.#at, this.#refused?.end ?? this.#at);
    const contracts = this.#seen.contracts + (this.#refused?.contracts ?? 0);
    const weight = this.#seen.weight + weigh(refused);
    if (this.#kind === 'sample') return weight === 0 ? undefined : contracts / weight;
    // As on the last date, until about one full answer says otherwise.
    return Number.isFinite(size) ? (contracts + size) / (weight + size) : undefined;
  }

  #nextScale(mean: number | undefined, insideScale: number | undefined): number | undefined {
    const near = insideScale ?? this.#lastScale;
    if (mean === undefined || this.#kind === 'counts') return mean;
    return near === undefined || near <= 0 || mean <= 0 ? mean : near ** NEIGHBOUR * mean ** (1 - NEIGHBOUR);
  }
}

function weigh(strikes: readonly StrikeCount[]): number {
  return strikes.reduce((total, [, weight]) => total + weight, 0);
}
