/** Converts the stage's values to the drop's types: one SQL expression per column. Pure. */
import type { DropType } from '../api-contract/trade.ts';
import { COLUMN_TYPES, isNullMark } from '../engine/column-types.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import type { JobColumn } from '../job/job.ts';

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

/** The typed value of a staged value. Column names are qualified with the alias `s`. */
export function convertColumn({ name, type, nullable, hasNulls, emptyIsNull }: DropColumn): string {
  const value = `s.${quoteIdentifier(name)}`;
  const typed = COLUMN_TYPES[type].seal(value);
  if (!nullable) return typed;
  return hasNulls ? `if(${isNullMark(type, emptyIsNull, value)}, NULL, ${typed})` : `toNullable(${typed})`;
}
