/**
 * What a row says of its trade beside its id: contract, time, price and size. Rows that vanish and rows that are new with
 * the same content are one trade under another id. Pure text.
 */
import { quoteIdentifier } from './literal.ts';

/** Without one of them a row does not say which trade it is. */
const CONTENT = ['symbol', 'put_call', 'expiration_date', 'strike', 'time', 'price', 'size'];
/** These change when a source loads a trade again. */
const OF_LOAD = new Set(['id', 'updated_timestamp']);

/**
 * SQL of a hash. Of rows without these columns it covers all columns that a second load does not change.
 * @param columns of the rows
 */
export function tradeContent(columns: readonly string[]): string {
  const isTrade = CONTENT.every((name) => columns.includes(name));
  const names = isTrade ? CONTENT : columns.filter((name) => !OF_LOAD.has(name));
  return `cityHash64(${names.map((name) => textOf(name, isTrade)).join(', ')})`;
}

/** Blanks around a symbol and a strike of 20.100000000000005 do not make another contract. */
function textOf(name: string, isTrade: boolean): string {
  const value = quoteIdentifier(name);
  if (isTrade && name === 'strike') return `ifNull(toString(round(${value} * 1000)), '')`;
  return isTrade && name === 'symbol' ? `ifNull(trimBoth(toString(${value})), '')` : `ifNull(toString(${value}), '')`;
}
