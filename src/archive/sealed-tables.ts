/**
 * The tables of the archive: under which names statements read datasets, and the SQL that makes the views. Invariant: a
 * table is a view of whole, sealed dates of one dataset. The date comes from the file's path, so that conditions on it
 * select files. Pure.
 */
import { TABLES } from '../api-contract/published-limits.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { type ArchiveColumn, PATH_DATE } from './archive-column.ts';
import type { SealedFile, SealedFiles } from './drop-files.ts';
import { describeBounds, type TimeBounds } from './reads.ts';

export interface ArchiveTable {
  readonly name: string;
  /** `undefined`: of the API's tables, if no dataset was chosen; see `Archive`. */
  readonly dataset: string | undefined;
  /** All sealed dates, the newest one, or the summaries of all. */
  readonly rows: 'all' | 'newest' | 'summary';
  /** Whether it is one of the API's tables, which have single trades. */
  readonly isApi: boolean;
}

const SUMMARY_SUFFIX = '_summary';

/**
 * Every name that a statement may read: each dataset, once more with `_` for `-` and `.`, so that it needs no quotes; its
 * summaries; and the API's tables. A name that means two datasets is left out, as is a name with a dot, which would
 * be a table of another database.
 * @param trades dataset behind the API's tables, if it was chosen
 */
export function listTables(datasets: readonly string[], trades: string | undefined): readonly ArchiveTable[] {
  const tables = new Map<string, ArchiveTable>();
  const add = (table: ArchiveTable) => {
    if (!tables.has(table.name) && !table.name.includes('.')) tables.set(table.name, table);
  };
  for (const dataset of datasets) add({ name: dataset, dataset, rows: 'all', isApi: false });
  const plain = datasets.map((dataset) => ({ dataset, name: dataset.replaceAll(/[-.]/g, '_') }));
  const unique = plain.filter(({ name }) => plain.filter((other) => other.name === name).length === 1);
  for (const { dataset, name } of unique) add({ name, dataset, rows: 'all', isApi: false });
  for (const { dataset, name } of unique)
    add({ name: `${name}${SUMMARY_SUFFIX}`, dataset, rows: 'summary', isApi: false });
  const [all, newest] = TABLES;
  // The API's names are its own, whatever a dataset is called.
  tables.set(all, { name: all, dataset: trades, rows: 'all', isApi: true });
  tables.set(newest, { name: newest, dataset: trades, rows: 'newest', isApi: true });
  return [...tables.values()];
}

/** An empty table with the same columns, to resolve statements against; it is never read. */
export function describeEmptyTable(name: string, columns: readonly ArchiveColumn[]): string {
  // Never LowCardinality, so that conditions are not wrapped in conversions.
  const typed = columns.map((column) => `${quoteIdentifier(column.name)} ${column.type}`);
  return `CREATE TABLE ${quoteIdentifier(name)} (${typed.join(', ')}) ENGINE = Null`;
}

export interface View {
  readonly name: string;
  readonly files: SealedFiles;
  readonly columns: readonly ArchiveColumn[];
  /** The only files that the view shows. */
  readonly shown: readonly SealedFile[];
  /** Bounds that every read of the statement has anyway: as conditions on the files' times, they can prune. */
  readonly time: TimeBounds;
  /** Conditions that every row must meet. */
  readonly conditions?: readonly string[] | undefined;
}

/** The statement that creates a view of the archive. */
export function describeView(view: View): string {
  return `CREATE VIEW ${quoteIdentifier(view.name)} AS ${describeRows(view)}`;
}

/** The rows that a view shows, as a SELECT. */
export function describeRows({ files, columns, shown, time, conditions = [] }: View): string {
  const isEmpty = shown.length === 0;
  const read = columns.filter(({ readAs }) => readAs !== undefined);
  const structure = read.map(({ name: column, readAs }) => `${quoteIdentifier(column)} ${readAs}`).join(', ');
  const values = columns.map((column) =>
    column.value === quoteIdentifier(column.name) ? column.value : `${column.value} AS ${quoteIdentifier(column.name)}`,
  );
  const hasTime = read.some((column) => column.name === 'time' && column.readAs?.includes('DateTime64'));
  const source = isEmpty ? `null(${quoteString(structure)})` : files.tableSql(structure, shown);
  const date = isEmpty ? "''" : `extract(_path, '/session=([0-9-]{10})/[^/]+$')`;
  // The engine chooses files by it, and then looks the path up once a block: `has` compared texts in every row, and took
  // 24 times as long for a sum over 36 dates. Of the bare `_path`, S3 would ask for each object instead of listing them.
  const paths = shown.map((file) => quoteString(files.pathOf(file)));
  const chosen = isEmpty ? '1' : `toString(_path) IN (${paths.join(', ')})`;
  const where = [chosen, ...(hasTime ? describeBounds(time) : []), ...conditions].join(' AND ');
  return `SELECT ${values.join(', ')} FROM (
    SELECT *, ${date} AS ${PATH_DATE} FROM ${source}
    WHERE ${where})`;
}
