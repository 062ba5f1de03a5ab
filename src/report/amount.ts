/** Amounts that may not be known, and what is made of them. Invariant: what is made of one that is not known is not known. Pure. */

/** A sum; null where it cannot be computed: none of its records has a number, or the sum is beyond what a number holds. */
export type Amount = number | null;

/** Null where one of the two is not known, or the whole is nothing. */
export function shareOf(part: Amount, whole: Amount): Amount {
  return part === null || whole === null || whole <= 0 ? null : part / whole;
}

/** Bullish less bearish premium; null where one of them is not known. */
export function leanOf({ bullish, bearish }: { readonly bullish: Amount; readonly bearish: Amount }): Amount {
  return bullish === null || bearish === null ? null : bullish - bearish;
}
