/**
 * Hashes of rows, summed by cell: two sets of rows with the same sums are the same rows, in any order. Pure, for
 * sources and stages: both compute them with the same SQL from the texts of the values. A sum wraps at 64 bits and is
 * text, because JSON would round it.
 */
import { type DropType, TRADE_COLUMNS } from '../api-contract/trade.ts';
import { quoteIdentifier } from './literal.ts';

export interface HashedColumn {
  readonly name: string;
  readonly type: DropType;
}

const WORD_BITS = 64;
/** JSON has no such numbers: they arrive as nulls, or as these texts, and are null in a drop. */
export const NO_NUMBERS: readonly string[] = ['nan', '-nan', 'inf', '-inf', 'NaN', 'Infinity', '-Infinity'];

/** Column names of a row's hashes, in an answer that also has the row's values. */
export const ROW_ID_HASH = 'flowdrop_id_hash';
export const ROW_VALUE_HASH = 'flowdrop_value_hash';

/** An aggregate over rows with an `id`: identifies the ids and how often each occurs. */
export function idHashSql(): string {
  return `toString(sum(${rowIdHashSql()}))`;
}

/** An aggregate over rows with an `id`: identifies the values of these columns, row by row. */
export function valueHashSql(columns: readonly HashedColumn[]): string {
  return `toString(sum(${rowValueHashSql(columns)}))`;
}

export function rowIdHashSql(): string {
  return `cityHash64(${textOf('id')})`;
}

/** The hash of one row's values and its id, so that swapping values between rows changes the sum. */
export function rowValueHashSql(columns: readonly HashedColumn[]): string {
  return `cityHash64(${[textOf('id'), ...columns.map(valueText)].join(', ')})`;
}

/** The sum over the rows of two cells together; `undefined` if one of them has no hash. */
export function addHashes(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return undefined;
  return String(BigInt.asUintN(WORD_BITS, BigInt(a) + BigInt(b)));
}

/** The text of a value, the same in source and stage, regardless of the type in the source. */
function valueText({ name, type }: HashedColumn): string {
  switch (type) {
    case 'double':
      return `transform(${textOf(name)}, [${NO_NUMBERS.map((text) => `'${text}'`).join(', ')}], [${NO_NUMBERS.map(() => "''").join(', ')}])`;
    case 'wall': {
      // The separator between date and time, and fractions of a second, differ only in form.
      const text = textOf(name);
      return `concat(substring(${text}, 1, 10), substring(${text}, 12, 8))`;
    }
    case 'date':
    case 'instant':
    case 'int32':
    case 'int64':
    case 'string':
      return textOf(name);
    default:
      return type satisfies never;
  }
}

/** Without one of them a row does not say which trade it is. */
const CONTENT = ['symbol', 'put_call', 'expiration_date', 'strike', 'time', 'price', 'size'];
/** These change when a source loads a trade again. */
const OF_LOAD = new Set(['id', 'updated_timestamp']);

/**
 * SQL of a hash of what a row says of its trade beside its id: rows that vanish and rows that are new with the same content
 * are one trade under another id. Of rows without these columns it covers all columns that a second load does not change.
 * @param columns of the rows
 */
export function tradeContent(columns: readonly string[]): string {
  const isTrade = CONTENT.every((name) => columns.includes(name));
  const names = isTrade ? CONTENT : columns.filter((name) => !OF_LOAD.has(name));
  return `cityHash64(${names.map((name) => (isTrade ? contentOf(name) : textOf(name))).join(', ')})`;
}

/** Blanks around a symbol and a strike of 20.100000000000005 do not make another contract. */
function contentOf(name: string): string {
  if (name === 'strike') return `ifNull(toString(round(${name} * 1000)), '')`;
  return name === 'symbol' ? `ifNull(trimBoth(toString(${name})), '')` : textOf(name);
}

/** Never null. Names of the trade record's own columns need no quotes; other names may. */
function textOf(name: string): string {
  const isPlain = TRADE_COLUMNS.some((column) => column.name === name);
  return `ifNull(toString(${isPlain ? name : quoteIdentifier(name)}), '')`;
}
