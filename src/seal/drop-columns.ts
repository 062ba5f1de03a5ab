/** Converts the stage's values to the drop's types: one SQL expression per column. Pure. */

import type { DropType } from '../api-contract/trade.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import { isNullMark } from '../engine/null-mark.ts';
import type { JobColumn } from '../job/job.ts';

/** Maximum digits of milliseconds since the epoch; a time in text is longer. */
const INSTANT_DIGITS = 13;
/**
 * Times are of milliseconds, and stored as microseconds: Iceberg knows no others, and its readers refuse or lose
 * milliseconds (apache/iceberg#18173).
 */
export const TIME_DIGITS = 6;

/** A column of the drop. */
export interface DropColumn {
  readonly name: string;
  readonly type: DropType;
  readonly nullable: boolean;
  /** Whether staged values may be null; testing every value costs time. */
  readonly hasNulls: boolean;
  readonly emptyIsNull: boolean;
  readonly description: string;
}

/**
 * The columns of a drop: the job's, then every extra field of the answers, kept as text.
 * @param withNulls columns that are rarely null, but have a null here
 */
export function listDropColumns(
  columns: readonly JobColumn[],
  extraFields: readonly string[],
  withNulls: readonly string[] = [],
): readonly DropColumn[] {
  return [
    ...columns.map(({ name, type, nullable, oftenNull, description }) => ({
      ...{ name, type, nullable, description },
      hasNulls: oftenNull || withNulls.includes(name),
      emptyIsNull: oftenNull,
    })),
    ...extraFields.map((name) => ({
      ...{ name, type: 'string' as const, nullable: false, hasNulls: false, emptyIsNull: false },
      description: 'Not in the contract; kept as received.',
    })),
  ];
}

/** A column of a SELECT list. */
export function typeColumn(column: DropColumn): string {
  return `${convertColumn(column)} AS ${quoteIdentifier(column.name)}`;
}

/** The typed value of a staged value (see `stage/column-rule.ts`). Column names are qualified with the alias `s`. */
export function convertColumn(column: DropColumn): string {
  const value = `s.${quoteIdentifier(column.name)}`;
  const typed = convertValue(value, column.type);
  if (!column.nullable) return typed;
  return column.hasNulls ? `if(${isNullMark(column, value)}, NULL, ${typed})` : `toNullable(${typed})`;
}

/** The typed value of a staged value other than the null mark. @param value its SQL expression */
export function convertValue(value: string, type: DropType): string {
  switch (type) {
    case 'string':
    case 'double':
      return value;
    case 'int32':
      return `toInt32(${value})`;
    case 'int64':
      return `toInt64(${value})`;
    case 'date':
      return `toDate32(${value})`;
    case 'wall':
      // UTC only inside the engine: the file declares it as not adjusted (see footer.ts).
      return `toDateTime64(if(length(${value}) = 16, concat(${value}, ':00'), ${value}), ${TIME_DIGITS}, 'UTC')`;
    case 'instant':
      return `toDateTime64(if(length(${value}) <= ${INSTANT_DIGITS}, fromUnixTimestamp64Milli(toInt64OrZero(${value}), 'UTC'), parseDateTime64BestEffort(${value}, 3, 'UTC')), ${TIME_DIGITS}, 'UTC')`;
    default:
      return type satisfies never;
  }
}
