/**
 * A table of the report as data, the same for every format that leaves with the mail: rows of raw values, and for each
 * column what kind of value it holds. Invariant: a cell is what the model has, unrounded; null is "not known".
 */

import type { Unit } from '../numbers.ts';

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
}

/** A column that both people and programs read. */
export function shown<Row>(
  heading: string,
  name: string,
  kind: ColumnKind,
  read: (row: Row) => Cell,
): ColumnReader<Row> {
  return { name, kind, heading, read };
}

/** A column for programs, which would crowd a page. */
export function kept<Row>(name: string, kind: ColumnKind, read: (row: Row) => Cell): ColumnReader<Row> {
  return { name, kind, heading: null, read };
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
