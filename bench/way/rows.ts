/**
 * What a JavaScript writer needs before it can write: the pages parsed into one object a row, with the drop's types, and
 * all rows sorted by symbol, time, id. Both JavaScript peers share it, so that only their writing differs.
 */
import { readFile } from 'node:fs/promises';
import { type DropType, TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import type { PageSet } from '../support/pages.ts';

export type Value = string | number | bigint | Date | null;
export type Row = Record<string, Value>;

/** Sort key of the shipped job. */
const SORT = ['symbol', 'time', 'id'] as const;

/** All rows of the pages, as they came. */
export async function readRows(set: PageSet): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { path } of set.pages) {
    const { data } = JSON.parse(await readFile(path, 'utf8')) as { readonly data: readonly Row[] };
    for (const row of data) rows.push(row);
  }
  return rows;
}

/** Sorts in place, before typing: the texts sort in time order. */
export function sortRows(rows: Row[]): void {
  rows.sort((a, b) => {
    for (const name of SORT) {
      const [x, y] = [a[name] ?? '', b[name] ?? ''];
      if (x !== y) return x < y ? -1 : 1;
    }
    return 0;
  });
}

/** Replaces texts by values of the drop's types, in place. */
export function typeRows(rows: readonly Row[]): void {
  const typed = TRADE_COLUMNS.filter(({ drop, wire }) => wire === 'string' && drop !== 'string');
  const dates = new Map<string, Date>();
  for (const row of rows) {
    for (const { name, drop, nullable } of typed) {
      const text = String(row[name]);
      row[name] = nullable && text === '' ? null : convert(text, drop, dates);
    }
  }
}

/** Dates repeat, so that each is made once. */
function convert(text: string, type: DropType, dates: Map<string, Date>): Value {
  if (type === 'int64') return BigInt(text);
  if (type === 'instant') return new Date(Number(text));
  if (type === 'wall') return new Date(`${text.replace(' ', 'T')}Z`);
  const known = dates.get(text);
  if (known) return known;
  const date = new Date(`${text}T00:00:00Z`);
  dates.set(text, date);
  return date;
}
