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

/** How the mail shows a column, where that is not its heading, nor what its kind says. */
export interface InMail<Row> {
  readonly mailHeading?: string;
  /** In plain text. */
  readonly textHeading?: string;
  readonly print?: (row: Row) => string;
}

/** A column and how its value is read from a row of the model. */
export interface ColumnReader<Row> extends Column, InMail<Row> {
  readonly read: (row: Row) => Cell;
}

/** A column that both people and programs read. */
export function shown<Row>(
  heading: string,
  name: string,
  kind: ColumnKind,
  read: (row: Row) => Cell,
  inMail: InMail<Row> = {},
): ColumnReader<Row> {
  return { name, kind, heading, read, ...inMail };
}

/** A column for programs, which would crowd a page. */
export function kept<Row>(name: string, kind: ColumnKind, read: (row: Row) => Cell): ColumnReader<Row> {
  return { name, kind, heading: null, read };
}

/** A column of the mail alone. */
export interface MailColumn<Row> extends InMail<Row> {
  readonly name: string;
  readonly heading: string;
  readonly print: (row: Row) => string;
}

/** A table as the mail shows it: which columns, in which order. */
export interface MailTable<Row> {
  readonly columns: readonly (ColumnReader<Row> | MailColumn<Row>)[];
  /** Styles: `wide` (not on a phone), `bold`, in the colour of a side, or in that of the row's `tone`. */
  readonly html: Readonly<Record<string, string>>;
  /** Widths in letters. */
  readonly text: Readonly<Record<string, number>>;
}

/** The texts of a row, by the names of their columns. */
export type MailRow = Readonly<Record<string, string>>;

export function printRows<Row>({ columns }: MailTable<Row>, rows: readonly Row[]): readonly MailRow[] {
  return rows.map((row) => Object.fromEntries(columns.map((column) => [column.name, printCell(column, row)])));
}

function printCell<Row>(column: ColumnReader<Row> | MailColumn<Row>, row: Row): string {
  if (!('read' in column) || column.print !== undefined) return column.print?.(row) ?? '';
  const cell = column.read(row);
  if (typeof cell === 'string') return cleanLabel(cell);
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no';
  if (column.kind === 'dollars') return formatDollars(cell);
  if (column.kind === 'count') return formatShortCount(cell);
  return cell === null ? NONE : formatDecimal(cell);
}

/** Which columns `table.mjml` and `table.txt` draw, with their heads. */
export function layOut<Row>({ columns, html, text }: MailTable<Row>) {
  const columnOf = (name: string) => columns.find((column) => column.name === name);
  const headOf = (name: string) => columnOf(name)?.mailHeading ?? columnOf(name)?.heading ?? '';
  return {
    html: Object.entries(html).map(([name, styles]) => ({ name, head: headOf(name), styles: styles.split(' ') })),
    text: Object.entries(text).map(([name, width]) => ({
      name,
      head: columnOf(name)?.textHeading ?? headOf(name),
      width,
    })),
  };
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
