/**
 * The types of columns: how their values are staged, written to a drop, and staged again from it.
 * Pure SQL, for the stage and the seal. Invariant: sealing a value that was staged from a drop gives the same value; no value
 * that passes the stage's rules is a null mark.
 */
import type { DropType } from '../api-contract/trade.ts';

/** Functions are given the SQL of a value that is not null. */
interface ColumnType {
  /** Dates, times and long integers stay text; text order is the order of times. */
  readonly staged: 'String' | 'Float64' | 'Int64';
  /** A staged value as the drop has it. */
  readonly seal: (value: string) => string;
  /** A drop's value as it is staged. */
  readonly unseal: (value: string) => string;
  /** Some value of the drop's type. */
  readonly some: string;
}

/** Maximum digits of milliseconds since the epoch: until the year 2286, well inside the engine's range of instants. */
export const INSTANT_DIGITS = 13;
/**
 * Times are of milliseconds, and stored as microseconds: Iceberg knows no others, and its readers refuse or lose
 * milliseconds (apache/iceberg#18173).
 */
const TIME_DIGITS = 6;

const same = (value: string) => value;
// Not LowCardinality: building its dictionaries took a quarter of an insert, and the drop encodes its own.
const TEXT = { staged: 'String', seal: same, unseal: (value: string) => `toString(${value})` } as const;
// UTC only inside the engine: the file declares wall-clock times as not adjusted (see seal/footer.ts).
const typeTime = (value: string) => `toDateTime64(${value}, ${TIME_DIGITS}, 'UTC')`;

export const COLUMN_TYPES: Readonly<Record<DropType, ColumnType>> = {
  string: { ...TEXT, unseal: same, some: "''" },
  double: { staged: 'Float64', seal: same, unseal: same, some: '0' },
  int32: {
    staged: 'Int64',
    seal: (value) => `toInt32(${value})`,
    unseal: (value) => `toInt64(${value})`,
    some: '0',
  },
  int64: {
    ...TEXT,
    seal: (value) => `toInt64(${value})`,
    some: '0',
  },
  date: {
    ...TEXT,
    seal: (value) => `toDate32(${value})`,
    some: 'toDate32(0)',
  },
  /** `YYYY-MM-DD HH:MM:SS`, or without seconds, like the start of a grain. */
  wall: {
    ...TEXT,
    seal: (value) => typeTime(`if(length(${value}) = 16, concat(${value}, ':00'), ${value})`),
    unseal: (value) => `substring(toString(${value}), 1, 19)`,
    some: typeTime('0'),
  },
  /** Milliseconds in digits, or a time in UTC with at most three digits of a second; both from 1970 on. */
  instant: {
    ...TEXT,
    seal: (value) => {
      const ms = `fromUnixTimestamp64Milli(toInt64OrZero(${value}), 'UTC')`;
      return typeTime(
        `if(length(${value}) <= ${INSTANT_DIGITS}, ${ms}, parseDateTime64BestEffort(${value}, 3, 'UTC'))`,
      );
    },
    unseal: (value) => `toString(toUnixTimestamp64Milli(${value}))`,
    some: typeTime('0'),
  },
};

/**
 * A null as it is staged, an SQL literal: a value that no row can have, in a non-nullable column, because a nullable column
 * takes the engine a seventh more time to insert and merge.
 * @param emptyIsNull whether the contract defines empty text as null; for columns that are not text it always is
 */
export function nullMark(type: DropType, emptyIsNull: boolean): string {
  const { staged } = COLUMN_TYPES[type];
  if (staged === 'Float64') return 'nan';
  // Below every 32-bit integer.
  if (staged === 'Int64') return '-9223372036854775808';
  // A byte that never occurs in UTF-8.
  return type === 'string' && !emptyIsNull ? "unhex('FF')" : "''";
}

/** Whether a staged value is the mark. @param value its SQL expression */
export function isNullMark(type: DropType, emptyIsNull: boolean, value: string): string {
  return type === 'double' ? `isNaN(${value})` : `${value} = ${nullMark(type, emptyIsNull)}`;
}
