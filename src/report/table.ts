/**
 * What a table of the report is: columns that are defined once, for the files that leave with the mail, the pages of the
 * PDF, and the mail's HTML and text. Invariant: a cell of a file is what the model has, unrounded, and null is "not known";
 * what people read is printed of the same value.
 */
import { formatDecimal, formatDollars } from '../core/units.ts';
import type { Unit } from './numbers.ts';
import { cleanLabel, formatShortCount, NONE } from './text/label.ts';

export type Cell = string | number | boolean | null;

/**
 * What a column holds. `date` is `YYYY-MM-DD`; `count` a whole number; `price` dollars per share, also of a strike;
 * `fraction` a part of one; `measure` a number whose unit is in the row's cell `unit`.
 */
export type ColumnKind = 'text' | 'date' | 'count' | 'dollars' | 'price' | 'fraction' | 'ratio' | 'flag' | 'measure';

/** Of the numbers. */
export const KIND_OF = {
  dollars: 'dollars',
  net: 'dollars',
  count: 'count',
  share: 'fraction',
  ratio: 'ratio',
} as const satisfies Readonly<Record<Unit, ColumnKind>>;

export interface Column {
  /** `snake_case`, as in a drop. */
  readonly name: string;
  readonly kind: ColumnKind;
  /** Over the column where people read it; null: the column is only in the files for programs. */
  readonly heading: string | null;
}

export interface AttachedTable {
  /** Part of a file's name: `biggest-trades`. */
  readonly name: string;
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
}

/** A column and how its value is read from a row of the model. */
export interface ColumnReader<Row> extends Column {
  readonly read: (row: Row) => Cell;
  /** As the mail shows it, where its kind does not say. */
  readonly print?: ((row: Row) => string) | undefined;
}

/** A column that both people and programs read. */
export function shown<Row>(
  heading: string,
  name: string,
  kind: ColumnKind,
  read: (row: Row) => Cell,
  print?: (row: Row) => string,
): ColumnReader<Row> {
  return { name, kind, heading, read, print };
}

/** A column for programs, which would crowd a page. */
export function kept<Row>(name: string, kind: ColumnKind, read: (row: Row) => Cell): ColumnReader<Row> {
  return { name, kind, heading: null, read };
}

/** A column of the mail alone. */
export interface MailColumn<Row> {
  readonly name: string;
  readonly print: (row: Row) => string;
}

/** How HTML shows a column: on wide screens only, in bold, in the colour of a side, or in that of the row's `tone`. */
type Style = 'wide' | 'bold' | 'bullish' | 'bearish' | 'tone';

/** A table as the mail shows it: which columns, in which order, under which heads. */
export interface MailTable<Row> {
  readonly columns: readonly (ColumnReader<Row> | MailColumn<Row>)[];
  readonly html: readonly (readonly [name: string, head: string, ...styles: readonly Style[]])[];
  /** Widths in letters. */
  readonly text: readonly (readonly [name: string, head: string, width: number])[];
}

/** The texts of a row, by the names of their columns. */
export type MailRow = Readonly<Record<string, string>>;

export function printRows<Row>({ columns }: Pick<MailTable<Row>, 'columns'>, rows: readonly Row[]): readonly MailRow[] {
  return rows.map((row) => Object.fromEntries(columns.map((column) => [column.name, printCell(column, row)])));
}

function printCell<Row>(column: ColumnReader<Row> | MailColumn<Row>, row: Row): string {
  if (column.print !== undefined) return column.print(row);
  if (!('read' in column)) return '';
  const cell = column.read(row);
  if (typeof cell === 'string') return cleanLabel(cell);
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no';
  if (column.kind === 'dollars') return formatDollars(cell);
  if (column.kind === 'count') return formatShortCount(cell);
  return cell === null ? NONE : formatDecimal(cell);
}

/** Every table begins with the trading date, so that the files of several days can be put together. */
export function buildTable<Row>(
  of: { readonly name: string; readonly title: string; readonly date: string },
  rows: readonly Row[],
  readers: readonly ColumnReader<Row>[],
): AttachedTable {
  return {
    name: of.name,
    title: of.title,
    columns: [
      { name: 'date', kind: 'date', heading: null },
      ...readers.map(({ name, kind, heading }) => ({ name, kind, heading })),
    ],
    rows: rows.map((row) => [of.date, ...readers.map(({ read }) => read(row))]),
  };
}
