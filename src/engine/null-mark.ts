/**
 * How nulls are staged: as a value that no row can have, in a non-nullable column, because a nullable column takes the
 * engine a seventh more time to insert and merge. Pure SQL, for the stage that writes the marks and the seal that reads
 * them. Invariant: no value that passes the stage's rules is one of these marks.
 */
import type { DropType } from '../api-contract/trade.ts';

/** The facts that decide a column's null mark. */
interface NullColumn {
  readonly type: DropType;
  /** Whether the contract defines empty text as null; for columns that are not text it always is. */
  readonly emptyIsNull: boolean;
}

/** Below every 32-bit integer. */
const NO_INTEGER = '-9223372036854775808';
/** A byte that never occurs in UTF-8. */
const NO_TEXT = "unhex('FF')";

/** The mark as an SQL literal. */
export function nullMark({ type, emptyIsNull }: NullColumn): string {
  switch (type) {
    case 'double':
      return 'nan';
    case 'int32':
      return NO_INTEGER;
    case 'string':
      return emptyIsNull ? "''" : NO_TEXT;
    case 'int64':
    case 'date':
    case 'wall':
    case 'instant':
      return "''";
    default:
      return type satisfies never;
  }
}

/** Whether a staged value is the mark. @param value its SQL expression */
export function isNullMark(column: NullColumn, value: string): string {
  return column.type === 'double' ? `isNaN(${value})` : `${value} = ${nullMark(column)}`;
}
