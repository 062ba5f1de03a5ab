/**
 * The API's two tables over the files of drops: their columns, and the SQL that converts a drop's types back into the
 * API's types. Invariant: plain columns stay plain, so that conditions on them reach the statistics and bloom filters
 * of the files. The date comes from the file's path, so that conditions on it select files. Pure.
 */

import { answerType } from '../api-contract/engine-type.ts';
import { TABLES } from '../api-contract/published-limits.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../api-contract/trade.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { SealedDrop, SealedFiles } from './drop-files.ts';
import { describeBounds, type TimeBounds } from './time-bounds.ts';

/** The API's tables, and the dataset under its own name, as users of the archive expect. */
export function listTables(dataset: string): readonly string[] {
  return [...new Set([...TABLES, dataset])];
}

/** Whether a table has the newest sealed date only. */
export function isLatestOnly(table: string): boolean {
  return table === TABLES[1];
}

/** A column: how it is read from the files, and how it is answered. */
interface ArchiveColumn {
  readonly name: string;
  /** Type used to read the column; `undefined` for the date, which is not read. */
  readonly readAs: string | undefined;
  /** Expression over the column read. */
  readonly value: string;
}

/** Extracts the date from the file's path. */
const PATH_DATE = `extract(_path, '/session=([0-9-]{10})/[^/]+$')`;
/** The columns of the files of `manifests`: those of the contract in its order, then extra columns of the answers. */
export function listColumns(manifests: readonly Manifest[]): readonly ArchiveColumn[] {
  const found = new Map(manifests.flatMap(({ schema }) => schema.map((column) => [column.name, column.type] as const)));
  // The path gives the date, whether or not the files contain it.
  const known = TRADE_COLUMNS.filter(({ name }) => name === 'date' || found.has(name)).map(readContractColumn);
  const names = new Set<string>(TRADE_COLUMNS.map(({ name }) => name));
  const extra = [...found].filter(([name]) => !names.has(name)).map(([name, type]) => readExtraColumn(name, type));
  return [...known, ...extra];
}

/** The columns among `names` that some files lack, with the dates of these files. */
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

/** An empty table with the same columns, to resolve statements against; it is never read. */
export function describeEmptyTable(name: string, manifests: readonly Manifest[]): string {
  const contract = TRADE_COLUMNS.map((column) => column.name);
  const names = new Set([...contract, ...listColumns(manifests).map((column) => column.name)]);
  // Plain String even if the answer has LowCardinality, so that conditions are not wrapped in conversions.
  const typed = [...names].map((column) => `${quoteIdentifier(column)} ${resolvedType(column)}`);
  return `CREATE TABLE ${quoteIdentifier(name)} (${typed.join(', ')}) ENGINE = Null`;
}

/**
 * The statement that creates a view of the archive.
 * @param drops the only drops that the view shows
 * @param time bounds that every read of the statement has anyway: as conditions on the files' times, they can prune
 */
export function describeView(
  name: string,
  files: SealedFiles,
  columns: readonly ArchiveColumn[],
  drops: readonly SealedDrop[],
  time: TimeBounds,
): string {
  const structure = columns
    .filter(({ readAs }) => readAs !== undefined)
    .map(({ name: column, readAs }) => `${quoteIdentifier(column)} ${readAs}`);
  const values = columns.map((column) =>
    column.value === quoteIdentifier(column.name) ? column.value : `${column.value} AS ${quoteIdentifier(column.name)}`,
  );
  const hasTime = columns.some((column) => column.name === 'time');
  const source = drops.length > 0 ? files.tableSql(structure.join(', ')) : `null(${quoteString(structure.join(', '))})`;
  const path = drops.length > 0 ? PATH_DATE : "''";
  // Not IN: its set is not built yet when the engine chooses files.
  const chosen = `has([${drops.map((drop) => quoteString(files.pathOf(drop))).join(', ')}], _path)`;
  const conditions = drops.length > 0 ? [chosen, ...(hasTime ? describeBounds(time) : [])] : ['1'];
  return `CREATE VIEW ${quoteIdentifier(name)} AS SELECT ${values.join(', ')} FROM (
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
      // A failed model gives NaN, which arrives and is stored as null. Convert it back.
      return column.nullable
        ? { name, readAs: 'Nullable(Float64)', value: `ifNull(${quoted}, nan)` }
        : { name, readAs: 'Float64', value: quoted };
    case 'date':
      if (name === 'date') return { name, readAs: undefined, value: category('path_date_of_drop') };
      return { name, ...readText('Date32', category) };
    case 'int64':
      return { name, ...readText('Int64', category) };
    case 'wall':
      return { name, readAs: "DateTime64(6, 'UTC')", value: `substring(toString(${quoted}), 1, 19)` };
    case 'instant':
      return {
        name,
        readAs: "DateTime64(6, 'UTC')",
        value: `toString(toUnixTimestamp64Milli(${quoted}))`,
      };
    default:
      return column.drop satisfies never;
  }

  /** A null in the drop is an empty text in the API's answer. */
  function readText(type: string, wrap: (value: string) => string): Pick<ArchiveColumn, 'readAs' | 'value'> {
    const value = `toString(${quoted})`;
    // Nullable also for columns that a file lacks.
    return { readAs: `Nullable(${type})`, value: wrap(`ifNull(${value}, '')`) };
  }
}

/** `type` is the manifest's name. Extra columns of the answers are text; a job's own SQL may declare other types. */
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
