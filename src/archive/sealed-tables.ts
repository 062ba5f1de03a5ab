/**
 * The API's two tables over the files of drops: which columns they have, and the SQL that turns a drop's types back into
 * those that the API answers with. Invariant: plain columns stay plain, so that conditions on them reach the statistics
 * and bloom filters of the files; the date is taken from the file's path, so that conditions on it choose files. Pure.
 */

import { answerType } from '../api-contract/engine-type.ts';
import { TABLES } from '../api-contract/published-limits.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../api-contract/trade.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { SealedFiles } from './drop-files.ts';
import { describeBounds, type TimeBounds } from './time-bounds.ts';

export type TradeTable = (typeof TABLES)[number];
export const TRADE_TABLES: readonly TradeTable[] = TABLES;

/** A column of the files as it is read, and as it is answered. */
interface ArchiveColumn {
  readonly name: string;
  /** Type that the engine reads it as; `undefined` for the date, which is not read. */
  readonly readAs: string | undefined;
  /** Expression over the column read. */
  readonly value: string;
}

/** Where the file's path says its date. */
const PATH_DATE = `extract(_path, '/date=([0-9-]{10})/[^/]+$')`;
/** The columns of the files of `manifests`: those of the contract in its order, then what the answers brought beside them. */
export function listColumns(manifests: readonly Manifest[]): readonly ArchiveColumn[] {
  const found = new Map(manifests.flatMap(({ schema }) => schema.map((column) => [column.name, column.type] as const)));
  // The date is known from the path, whatever the files have.
  const known = TRADE_COLUMNS.filter(({ name }) => name === 'date' || found.has(name)).map(readContractColumn);
  const names = new Set<string>(TRADE_COLUMNS.map(({ name }) => name));
  const extra = [...found].filter(([name]) => !names.has(name)).map(([name, type]) => readExtraColumn(name, type));
  return [...known, ...extra];
}

/** Of the columns `names`, those that some of the files lack, with their dates. */
export function listLacking(
  names: readonly string[],
  manifests: readonly Manifest[],
): ReadonlyMap<string, readonly string[]> {
  const lacking = names.map((name) => {
    const dates = manifests.filter(({ schema }) => !schema.some((column) => column.name === name));
    return [name, dates.map(({ date }) => date)] as const;
  });
  return new Map(lacking.filter(([name, dates]) => name !== 'date' && dates.length > 0));
}

/** An empty table of the same columns, to resolve statements against: it is never read. */
export function describeEmptyTable(name: string, manifests: readonly Manifest[]): string {
  const contract = TRADE_COLUMNS.map((column) => column.name);
  const names = new Set([...contract, ...listColumns(manifests).map((column) => column.name)]);
  // Plain text, where the answer has LowCardinality: so that conditions on it are not wrapped in conversions.
  const typed = [...names].map((column) => `${quoteIdentifier(column)} ${resolvedType(column)}`);
  return `CREATE TABLE ${name} (${typed.join(', ')}) ENGINE = Null`;
}

/**
 * The statement that makes a table of the archive.
 * @param dates the only ones that it shows
 * @param time bounds that every reading of the statement has anyway: given to the files as times, they can prune
 */
export function describeView(
  name: string,
  files: SealedFiles,
  columns: readonly ArchiveColumn[],
  dates: readonly string[],
  time: TimeBounds,
): string {
  const structure = columns
    .filter(({ readAs }) => readAs !== undefined)
    .map(({ name: column, readAs }) => `${quoteIdentifier(column)} ${readAs}`);
  const values = columns.map((column) =>
    column.value === quoteIdentifier(column.name) ? column.value : `${column.value} AS ${quoteIdentifier(column.name)}`,
  );
  const hasTime = columns.some((column) => column.name === 'time');
  const source = dates.length > 0 ? files.tableSql(structure.join(', ')) : `null(${quoteString(structure.join(', '))})`;
  const path = dates.length > 0 ? PATH_DATE : "''";
  // Not IN: its set is not there yet when the files are chosen.
  const chosen = `has([${dates.map((date) => quoteString(files.pathOf(date))).join(', ')}], _path)`;
  const conditions = dates.length > 0 ? [chosen, ...(hasTime ? describeBounds(time) : [])] : ['1'];
  return `CREATE VIEW ${name} AS SELECT ${values.join(', ')} FROM (
    SELECT *, ${path} AS path_date_of_drop FROM ${source}
    WHERE ${conditions.join(' AND ')})`;
}

function readContractColumn(column: TradeColumn): ArchiveColumn {
  const { name } = column;
  const quoted = quoteIdentifier(name);
  const category = (value: string) =>
    answerType(column).startsWith('LowCardinality') ? `toLowCardinality(${value})` : value;
  switch (column.drop) {
    case 'string':
      return { name, readAs: answerType(column), value: quoted };
    case 'int32':
      return { name, readAs: 'Int32', value: quoted };
    case 'double':
      // A model that fails gives NaN, which travels as null: this is the way back.
      return column.nullable
        ? { name, readAs: 'Nullable(Float64)', value: `ifNull(${quoted}, nan)` }
        : { name, readAs: 'Float64', value: quoted };
    case 'date':
      if (name === 'date') return { name, readAs: undefined, value: category('path_date_of_drop') };
      return { name, ...readText('Date32', category) };
    case 'int64':
      return { name, ...readText('Int64', category) };
    case 'wall':
      return { name, readAs: "DateTime64(3, 'UTC')", value: `substring(toString(${quoted}), 1, 19)` };
    case 'instant':
      return {
        name,
        readAs: "DateTime64(3, 'UTC')",
        value: `toString(toUnixTimestamp64Milli(${quoted}))`,
      };
    default:
      return column.drop satisfies never;
  }

  /** What is nothing in the drop is an empty text on the wire. */
  function readText(type: string, wrap: (value: string) => string): Pick<ArchiveColumn, 'readAs' | 'value'> {
    const value = `toString(${quoted})`;
    // Missing files' columns are nothing as well.
    return { readAs: `Nullable(${type})`, value: wrap(`ifNull(${value}, '')`) };
  }
}

/** Types as the manifest names them: what the answers brought is text; own SQL may have declared more. */
function readExtraColumn(name: string, type: string): ArchiveColumn {
  const quoted = quoteIdentifier(name);
  if (type === 'INT32') return { name, readAs: 'Int32', value: quoted };
  if (type === 'INT64') return { name, readAs: 'Int64', value: quoted };
  if (type === 'DOUBLE') return { name, readAs: 'Nullable(Float64)', value: `ifNull(${quoted}, nan)` };
  if (type === 'INT32/DATE') return { name, readAs: 'Nullable(Date32)', value: `ifNull(toString(${quoted}), '')` };
  if (type.startsWith('INT64/TIMESTAMP')) {
    return { name, readAs: "Nullable(DateTime64(3, 'UTC'))", value: `ifNull(toString(${quoted}), '')` };
  }
  return { name, readAs: 'String', value: quoted };
}

function resolvedType(name: string): string {
  const column = TRADE_COLUMNS.find((known) => known.name === name);
  return column && column.wire !== 'string' ? answerType(column) : 'String';
}
