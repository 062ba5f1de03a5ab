/**
 * Tables of the report: columns that are defined once for the attached files, the page and the PDF. Invariant: a cell of a file is the model's value, unrounded, and null means unknown; the text for people is
 * formatted from the same value.
 */
import { nameCode } from '../api-contract/record-type.ts';
import { formatDate } from '../core/date-text.ts';
import { formatCount, formatDecimal, formatDollars, formatPercent, MINUS } from '../core/units.ts';
import type { Unit } from './numbers.ts';
import { cleanLabel, NONE, nameBucket, nameContract } from './text/label.ts';

export type Cell = string | number | boolean | null;

/**
 * The kind of a column's values. `code`: one of `record-type.ts`, for people by its name; `contract`: as `formatContract` writes it;
 * `date`: `YYYY-MM-DD`; `count`: a whole number; `price`: dollars per share, also for a
 * strike; `fraction`: a part of one; `points`: a difference of fractions; `bucket`: a part of the day; `measure`: a number whose unit is in the row's cell `unit`; `change`: a difference of two of these.
 */
export type ColumnKind =
  | 'text'
  | 'code'
  | 'contract'
  | 'bucket'
  | 'date'
  | 'count'
  | 'dollars'
  | 'price'
  | 'fraction'
  | 'points'
  | 'ratio'
  | 'flag'
  | 'measure'
  | 'change';

/** The column kind of each unit. */
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
  /** Heading for people; null: the column is only in the files for programs, because it would crowd a page. */
  readonly heading: string | null;
}

export interface AttachedTable {
  /** Part of the file's name: `biggest-trades`. */
  readonly name: string;
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
}

/** A column with the function that reads its value from a row of the model. */
export interface ColumnReader<Row> extends Column {
  readonly read: (row: Row) => Cell;
}

/** The row that a list of columns reads. */
export type RowOf<Columns extends readonly ColumnReader<never>[]> = Columns[number]['read'] extends (
  row: infer Row,
) => Cell
  ? Row
  : never;

type ValueOf<Kind extends ColumnKind> = Kind extends (typeof TEXTS)[number]
  ? string
  : Kind extends 'flag'
    ? boolean
    : number;

/** A column with a member of the row under its own name. @param heading as in `Column` */
export function field<Key extends string, Kind extends ColumnKind>(
  heading: string | null,
  key: Key,
  kind: Kind,
  name: string = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
): ColumnReader<Readonly<Record<Key, ValueOf<Kind>>>> {
  return { name, kind, heading, read: (row) => row[key] };
}

/** The same of a member that may be unknown. */
export function maybe<Key extends string, Kind extends ColumnKind>(
  ...of: Parameters<typeof field<Key, Kind>>
): ColumnReader<Readonly<Record<Key, ValueOf<Kind> | null>>> {
  return { ...field(...of), read: (row) => row[of[1]] };
}

/** A column with what is computed of a row. @param heading as in `Column` */
export function shown<Row>(
  heading: string | null,
  name: string,
  kind: ColumnKind,
  read: (row: Row) => Cell,
): ColumnReader<Row> {
  return { name, kind, heading, read };
}

/** Every table starts with the trading date, so that files of several days can be concatenated. */
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

const TEXTS = ['text', 'code', 'contract', 'bucket', 'date'] as const satisfies readonly ColumnKind[];

/** Whether a column is aligned left: it has no numbers. */
export function isText(column: Column | undefined): boolean {
  return column !== undefined && [...TEXTS, 'flag'].includes(column.kind);
}

/** A table as people read it: the columns with a heading, without columns that say nothing and rows of zeros, and each cell as a text. */
export function printTable(table: AttachedTable): {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly string[])[];
  /** The values behind the texts. */
  readonly cells: readonly (readonly Cell[])[];
} {
  const unit = table.columns.findIndex(({ name }) => name === 'unit');
  const columns = table.columns.flatMap((column, index) =>
    column.heading === null || saysNothing(table, index) ? [] : [{ ...column, index }],
  );
  const measures = columns.filter(({ kind }) => kind === 'measure');
  const isZero = (row: readonly Cell[]) =>
    measures.some(({ index }) => row[index] === 0) && measures.every(({ index }) => isNothing(row[index]));
  const shownRows = table.rows.filter((row) => !isZero(row));
  return {
    columns,
    cells: shownRows.map((row) => columns.map(({ index }) => row[index] ?? null)),
    rows: shownRows.map((row) =>
      columns.map(({ kind, index }) => formatCell(row[index] ?? null, kind, row[unit] ?? null)),
    ),
  };
}

/** A column whose cells are all empty, unknown or zero. */
function saysNothing({ rows }: AttachedTable, index: number): boolean {
  return rows.every((row) => isNothing(row[index]));
}

function isNothing(value: Cell | undefined): boolean {
  return value === null || value === undefined || value === 0 || value === '';
}

function writeText(text: string, kind: ColumnKind): string {
  if (kind === 'code') return nameCode(text);
  if (kind === 'contract') return nameContract(text);
  if (kind === 'bucket') return nameBucket(text);
  return kind === 'date' ? formatDate(text) : text;
}

/** @param unit for a `measure` and a `change`: the kind used to format the number */
function formatCell(cell: Cell, kind: ColumnKind, unit: Cell): string {
  if (cell === null) return NONE;
  if (typeof cell === 'string') return cleanLabel(writeText(cell, kind));
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no';
  if (kind === 'change') {
    const text = formatCell(cell, 'measure', unit === 'fraction' ? 'points' : unit);
    // What is printed as zero has no sign.
    if (!/[1-9]/.test(text)) return text.replace(MINUS, '');
    return cell > 0 ? `+${text}` : text;
  }
  const shape = kind === 'measure' ? unit : kind;
  if (shape === 'dollars') return formatDollars(cell);
  if (shape === 'fraction') return formatPercent(cell);
  if (shape === 'points') return `${formatDecimal(cell * 100, 1)} pt`;
  if (shape === 'count') return formatCount(cell);
  return formatDecimal(cell, Number.isInteger(cell) && shape === 'price' ? 0 : 2);
}
