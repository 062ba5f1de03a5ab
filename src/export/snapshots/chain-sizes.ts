/**
 * How large an option chain's answer may be, and how its contracts are spread over the strikes, as far as is known: from
 * answers and refusals of this date and, in the learnt limits, of the last. Invariant: it only chooses what is asked for.
 * What is wrong or out of date costs requests, never a contract.
 */
import type { ApiLimits } from '../../state/limits.ts';
import { type ChainPart, countStrikes, type StrikeCount } from './chain-part.ts';

/** Of the stated limit, so that a few new contracts still fit. */
const FILL = 0.97;
/** An answer so much larger than any that passed is tried, unless one not much larger was refused. */
const GROWTH = 1.4;
const CLOSE = 1.15;
/** Strikes kept of a chain; neighbours beyond them are kept together. */
const MAX_STRIKES = 1024;

export class ChainSizes {
  readonly #limits: ApiLimits;
  readonly #refused: ChainPart[] = [];
  #largest = 0;
  /** Contracts that a refused part of this date was expected to have, the fewest; 0: none was. */
  #doubted = 0;

  constructor(limits: ApiLimits) {
    this.#limits = limits;
  }

  /** Contracts that an answer certainly may have; `undefined` before any answer. */
  get safe(): number | undefined {
    const { stated, passed } = this.#limits.chainSizes;
    return stated === null ? passed || undefined : Math.max(1, Math.floor(stated * FILL));
  }

  /** Contracts worth trying: a little more than the largest that passed, where the limit is unknown. */
  get trial(): number | undefined {
    const { stated, passed, refused: known } = this.#limits.chainSizes;
    if (stated !== null || passed === 0) return this.safe;
    const refused = this.#doubted > passed ? Math.min(known ?? this.#doubted, this.#doubted) : known;
    const most = refused === null ? passed * GROWTH : Math.min(passed * GROWTH, (passed + refused) / 2);
    return refused !== null && refused < passed * CLOSE ? passed : Math.floor(most);
  }

  /** Whether so many contracts were refused before. */
  isTooLarge(contracts: number): boolean {
    const { stated, refused } = this.#limits.chainSizes;
    return stated === null ? refused !== null && contracts >= refused : contracts > stated;
  }

  /** Contracts by strike as of the last date; empty if the chain was never too large. */
  strikesOf(symbol: string): readonly StrikeCount[] {
    return this.#limits.chainStrikes[symbol] ?? [];
  }

  notePassed(contracts: number): void {
    this.#largest = Math.max(this.#largest, contracts);
    const sizes = this.#limits.chainSizes;
    const stated = sizes.stated !== null && contracts > sizes.stated ? null : sizes.stated;
    this.#limits.chainSizes = { ...sizes, stated, passed: Math.max(sizes.passed, contracts) };
  }

  /**
   * @param reason the API's words; the specification shows none, so numbers in them are only a hint
   * @param expected contracts that the part was expected to have
   * @returns the number of contracts that the part has by these words
   */
  noteRefused(part: ChainPart, reason: string, expected: number | undefined): number | undefined {
    this.#refused.push(part);
    if (expected !== undefined) this.#doubted = Math.min(this.#doubted || expected, expected);
    const said = /\b422\b(.*)$/s.exec(reason)?.[1]?.match(/\d{1,3}(?:,\d{3})+|\d+/g) ?? [];
    const numbers = said.map((text) => Number(text.replaceAll(',', '')));
    const [stated, matches] = [Math.min(...numbers), Math.max(...numbers)];
    if (numbers.length !== 2 || stated < 2 || matches <= stated || stated < this.#largest) return undefined;
    const { passed } = this.#limits.chainSizes;
    this.#limits.chainSizes = { stated, passed: Math.min(passed, stated), refused: stated + 1 };
    return matches;
  }

  /** Learns from the whole date. @param found contracts by strike, ascending, of each symbol */
  learn(found: ReadonlyMap<string, readonly StrikeCount[]>): void {
    const strikes = { ...this.#limits.chainStrikes };
    for (const [symbol, counts] of found) {
      const isTooLarge = this.#refused.some((part) => part.symbol === symbol);
      if (isTooLarge || symbol in strikes) strikes[symbol] = compress(counts);
    }
    this.#limits.chainStrikes = strikes;
    const sizes = this.#limits.chainSizes;
    if (sizes.stated !== null) return;
    const refused = this.#refused
      .map((part) => sum(countStrikes(found.get(part.symbol) ?? [], part)))
      .filter((contracts) => contracts > this.#largest)
      .reduce((least, contracts) => Math.min(least, Math.ceil(contracts)), Number.POSITIVE_INFINITY);
    if (refused === Number.POSITIVE_INFINITY) return;
    // Fewer than once passed: the limit was lowered.
    const passed = refused <= sizes.passed ? this.#largest : sizes.passed;
    this.#limits.chainSizes = { ...sizes, passed, refused: Math.min(refused, sizes.refused ?? refused) };
  }
}

export function sum(counts: readonly StrikeCount[]): number {
  return counts.reduce((total, [, contracts]) => total + contracts, 0);
}

function compress(counts: readonly StrikeCount[]): readonly StrikeCount[] {
  const step = Math.ceil(counts.length / MAX_STRIKES);
  return counts.flatMap(([strike], index): readonly StrikeCount[] =>
    index % step === 0 ? [[strike, sum(counts.slice(index, index + step))]] : [],
  );
}
