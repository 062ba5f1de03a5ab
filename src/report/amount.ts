/** Amounts that may be unknown, and arithmetic on them. Invariant: a result of an unknown amount is unknown. Pure. */

/** A sum; null if it cannot be computed: none of its records has a number, or the sum overflows. */
export type Amount = number | null;

/** A number as the engine returns it: `inf`, `-inf` and `nan` are texts. */
export type EngineNumber = number | string | null;

/** Null if the value is not a finite number. */
export function readNumber(value: EngineNumber): Amount {
  return value === null || !Number.isFinite(Number(value)) ? null : Number(value);
}

/**
 * Reads a sum from the engine: a text for NaN and infinities, null for a sum over nothing.
 * @param isWhole whether no record lacks the number, so that a sum over nothing is 0
 */
export function readAmount(sum: EngineNumber | undefined, isWhole: boolean): Amount {
  if (sum === null || sum === undefined) return isWhole ? 0 : null;
  return readNumber(sum);
}

/** Null if the whole is 0 or either amount is unknown. */
export function divide(part: Amount, whole: Amount): Amount {
  if (part === null || whole === null || whole === 0) return null;
  return readNumber(part / whole);
}

/** Null if either amount is unknown, or the whole is not above 0. */
export function shareOf(part: Amount, whole: Amount): Amount {
  return part === null || whole === null || whole <= 0 ? null : part / whole;
}

/** Bullish minus bearish premium; null if either is unknown. */
export function leanOf({ bullish, bearish }: { readonly bullish: Amount; readonly bearish: Amount }): Amount {
  return bullish === null || bearish === null ? null : bullish - bearish;
}

/** Below this share of bullish and bearish premium together, their difference is noise. `docs/formulas.md` has it. */
const BALANCED_SHARE = 0.05;

/** Bullish minus bearish premium, 0 where the difference is noise; null if either is unknown. */
export function clearLeanOf(premium: { readonly bullish: Amount; readonly bearish: Amount }): Amount {
  const lean = leanOf(premium);
  if (lean === null) return null;
  const sided = (premium.bullish ?? 0) + (premium.bearish ?? 0);
  return Math.abs(lean) < BALANCED_SHARE * sided ? 0 : lean;
}
