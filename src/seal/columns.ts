/** From the stage's text to the drop's types: one SQL expression a column. Pure. Source of the types: DESIGN, "In the store". */
import { quoteIdentifier } from '../engine/literal.ts';
import type { JobColumn } from '../job/job.ts';
import type { DropType } from '../wire/trade.ts';

/** A column as it is in the drop. */
export interface DropColumn {
  readonly name: string;
  readonly type: DropType;
  readonly nullable: boolean;
  readonly description: string;
}

/** The columns of a drop: the job's, then every field that the answers brought beside them, kept as text. */
export function listDropColumns(columns: readonly JobColumn[], extraFields: readonly string[]): readonly DropColumn[] {
  return [
    ...columns.map(({ name, type, nullable, description }) => ({ name, type, nullable, description })),
    ...extraFields.map((name) => ({
      name,
      type: 'string' as const,
      nullable: false,
      description: 'Not in the contract; kept as it came.',
    })),
  ];
}

/** A column of a SELECT list. Strict: a text that is not of the type makes the statement fail. */
export function typeColumn(column: DropColumn): string {
  return `${convertColumn(column)} AS ${quoteIdentifier(column.name)}`;
}

/** The typed value. Column names are qualified with the alias `s`. */
export function convertColumn(column: DropColumn): string {
  const value = `s.${quoteIdentifier(column.name)}`;
  const typed = convert(value, column.type);
  // Numbers are staged as numbers; everything else is text, and a conversion of the empty text would fail.
  return column.nullable && column.type !== 'double' ? `if(${value} = '', NULL, ${typed})` : typed;
}

function convert(value: string, type: DropType): string {
  switch (type) {
    case 'string':
      return `toString(${value})`;
    case 'int32':
      return `accurateCast(${value}, 'Int32')`;
    case 'double':
      return value;
    case 'int64':
      return `toInt64(${value})`;
    case 'date':
      return strictDate(`toString(${value})`);
    case 'wall':
      // Labelled UTC only inside the engine: the file says that it is not adjusted (see footer.ts).
      return `parseDateTime64BestEffort(if(length(${value}) = 16, concat(${value}, ':00'), ${value}), 3, 'UTC')`;
    case 'instant':
      return `if(match(${value}, '^[0-9]+$'), fromUnixTimestamp64Milli(toInt64OrZero(${value}), 'UTC'), parseDateTime64BestEffort(${value}, 3, 'UTC'))`;
    default:
      return type satisfies never;
  }
}

/** `toDate32` alone takes 30 February for 2 March, and any text that begins with digits. */
function strictDate(text: string): string {
  const date = `toDate32(${text})`;
  return `addDays(${date}, throwIf(toString(${date}) != substring(${text}, 1, 10), 'not a date that exists'))`;
}
