/**
 * Parts of an option chain that is too large for one answer: calls and puts, then halves of the strikes. Pure. Invariant:
 * each contract lies in exactly one half of a part, because strikes are whole thousandths of a dollar (as the option symbol
 * writes them). The halves are the same in every run, so that staged ones are found again.
 */
import type { ChainFilter } from '../../source/snapshot.ts';

export interface ChainPart {
  readonly symbol: string;
  readonly filter: ChainFilter;
}

/** Largest strike that an option symbol can write, thousandths. */
const MAX_STRIKE = 99_999_999;

/** The two halves, or `undefined` when the part is a single strike: the endpoint has no narrower filter. */
export function splitPart({ symbol, filter }: ChainPart): readonly ChainPart[] | undefined {
  if (filter.putCall === undefined) {
    return (['CALL', 'PUT'] as const).map((putCall) => ({ symbol, filter: { ...filter, putCall } }));
  }
  const { strikeMin: low = 0, strikeMax: high = MAX_STRIKE } = filter;
  if (low >= high) return undefined;
  // Strikes are spread by ratio rather than by difference; the lowest are worth cents.
  const middle = Math.min(high - 1, Math.max(low, Math.floor(Math.sqrt(Math.max(1, low) * high))));
  return [
    { symbol, filter: { ...filter, strikeMax: middle } },
    { symbol, filter: { ...filter, strikeMin: middle + 1 } },
  ];
}

/** Stable text of a part: `SPX`, `SPX CALL`, `SPX CALL ..4500`, `SPX CALL 4500.001..5000`. It begins with the symbol. */
export function formatPart({ symbol, filter }: ChainPart): string {
  const { putCall, strikeMin, strikeMax } = filter;
  const dollars = (strike: number | undefined) => (strike === undefined ? '' : String(strike / 1000));
  const range =
    strikeMin === undefined && strikeMax === undefined ? '' : `${dollars(strikeMin)}..${dollars(strikeMax)}`;
  return [symbol, putCall, range].filter(Boolean).join(' ');
}

/** Whether `name`, the text of a part, is what `whole` was split into. */
export function isWithin(name: string, whole: ChainPart): boolean {
  const [symbol, putCall, range = '..'] = name.split(' ');
  const { filter } = whole;
  if (symbol !== whole.symbol || name === formatPart(whole)) return false;
  if (filter.putCall === undefined) return putCall !== undefined;
  const [low, high] = range
    .split('..')
    .map((dollars) => (dollars === '' ? undefined : Math.round(Number(dollars) * 1000)));
  return (
    putCall === filter.putCall &&
    (filter.strikeMin ?? 0) <= (low ?? 0) &&
    (filter.strikeMax ?? MAX_STRIKE) >= (high ?? MAX_STRIKE)
  );
}
