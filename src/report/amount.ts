/** Amounts that may not be known, and what is made of them. Invariant: what is made of one that is not known is not known. Pure. */

/** A sum; null where it cannot be computed: none of its records has a number, or the sum is beyond what a number holds. */
export type Amount = number | null;

/** A number as the engine writes it: `inf`, `-inf` and `nan` are texts. */
export type EngineNumber = number | string | null;

/** Null for what is no finite number. */
export function readNumber(value: EngineNumber): Amount {
  return value === null || !Number.isFinite(Number(value)) ? null : Number(value);
}

/**
 * A sum as the engine gives it: a text for NaN and infinities, null for a sum over nothing.
 * @param isWhole whether no record lacks the number, so that a sum over nothing is 0
 */
export function readAmount(sum: EngineNumber | undefined, isWhole: boolean): Amount {
  if (sum === null || sum === undefined) return isWhole ? 0 : null;
  return readNumber(sum);
}

/** Null for a ratio to nothing, and where one of the two is not known. */
export function divide(part: Amount, whole: Amount): Amount {
  if (part === null || whole === null || whole === 0) return null;
  return readNumber(part / whole);
}

/** Null where one of the two is not known, or the whole is nothing. */
export function shareOf(part: Amount, whole: Amount): Amount {
  return part === null || whole === null || whole <= 0 ? null : part / whole;
}

/** Bullish less bearish premium; null where one of them is not known. */
export function leanOf({ bullish, bearish }: { readonly bullish: Amount; readonly bearish: Amount }): Amount {
  return bullish === null || bearish === null ? null : bullish - bearish;
}
