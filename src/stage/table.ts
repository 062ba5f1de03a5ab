/**
 * The stage's table: its name, columns and what they refuse. Pure text. Invariant: what the engine would quietly turn into
 * another value (a null, an absent field, an integer that does not fit) makes the whole insert fail.
 */
import { createHash } from 'node:crypto';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job, JobColumn } from '../job/job.ts';

/** Column of the stage that names the window a row came with; never part of a drop. */
export const WINDOW_COLUMN = '_window';

const TABLE_SETTINGS = [
  'allow_nullable_key = 1',
  // Merging two or three small parts at a time, as the engine would, writes every row more often; with 32, sealing 10
  // million rows took 1.1 GB, because every part that is left has its buffers.
  'min_parts_to_merge_at_once = 8',
  // All columns of a part in one file: making a file for every column of every part took a fifth of the time of a day.
  'min_bytes_for_wide_part = 1000000000000',
  // A merge holds a granule of each of its parts and a block of what it makes: with 8,192 rows each, merging took a third
  // more memory than all the rest of an export.
  'index_granularity = 1024',
  'merge_max_block_size = 1024',
].join(', ');

const PREFIX = 'stage__';

/**
 * Name of the table of a date: pages of another query, other columns or another source do not belong to it, so all of
 * these are part of the name.
 * @param origin address of the source
 */
export function stageTableName(job: Job, date: string, origin: string): string {
  const identity = JSON.stringify([origin, job.source, job.drop.dataset, job.drop.sort]);
  const fingerprint = createHash('sha256').update(identity).digest('hex').slice(0, 12);
  return `${stageTablePrefix(date)}${fingerprint}`;
}

/** What the names of all tables of a date begin with; without a date, of all stages. */
export function stageTablePrefix(date = ''): string {
  return date === '' ? PREFIX : `${PREFIX}${date.replaceAll('-', '_')}__`;
}

/** The date of a stage's table. */
export function parseStageDate(name: string): string {
  return name.slice(PREFIX.length, PREFIX.length + 'YYYY-MM-DD'.length).replaceAll('_', '-');
}

export function createTableSql(name: string, job: Job): string {
  const columns = job.source.columns.map((column) => `${quoteIdentifier(column.name)} ${stageType(column)}`);
  const integers = job.source.columns.filter((column) => column.type === 'int32');
  const range = integers.map(({ name }) => `${quoteIdentifier(name)} BETWEEN -2147483648 AND 2147483647`).join(' AND ');
  const constraint = integers.length === 0 ? [] : [`CONSTRAINT fits_int32 CHECK ${range}`];
  const sort = job.drop.sort.map(quoteIdentifier).join(', ');
  const ledger = `${WINDOW_COLUMN} LowCardinality(String)`;
  return `CREATE TABLE IF NOT EXISTS ${quoteIdentifier(name)} (${[...columns, ledger, ...constraint].join(', ')}) ENGINE = MergeTree ORDER BY (${sort}) SETTINGS ${TABLE_SETTINGS}`;
}

/** The columns of a page as the engine reads them; `extraFields` are kept as text where a row has them. */
export function buildPageStructure(job: Job, date: string, extraFields: readonly string[]): string {
  const columns = job.source.columns.map(
    (column) =>
      `${quoteIdentifier(column.name)} ${stageType(column)} ${askedFor(column, date, job) ?? onAbsent(column)}`,
  );
  return [...columns, ...extraFields.map((name) => `${quoteIdentifier(name)} String`)].join(', ');
}

/** A row of a snapshot need not repeat what was asked for: the date, and the symbol, which its window begins with. */
function askedFor({ name }: JobColumn, date: string, job: Job): string | undefined {
  if (job.source.kind !== 'snapshots') return undefined;
  if (name === 'date') return `DEFAULT ${quoteString(date)}`;
  return name === 'symbol' ? "DEFAULT ''" : undefined;
}

/** What a row of a page is staged as. @param window expression with the text of its window */
export function buildPageValues(job: Job, extraFields: readonly string[], window: string): readonly string[] {
  return [...job.source.columns.map(({ name }) => name), ...extraFields].map((name) => {
    const value = quoteIdentifier(name);
    if (job.source.kind !== 'snapshots' || name !== 'symbol') return value;
    return `if(${value} = '', splitByChar(' ', ${window})[1], ${value})`;
  });
}

/** A null, and a field that a row leaves out, take the column's default: for what may not be null that is a refusal. */
function onAbsent({ name, nullable, type }: JobColumn): string {
  if (nullable) return type === 'double' ? 'DEFAULT NULL' : "DEFAULT ''";
  return `DEFAULT throwIf(materialize(true), ${quoteString(`"${name}" is null or absent`)})`;
}

/**
 * Integers wide, because the engine reads one that does not fit as another number; dates and times as the text they
 * came as, which sorts in time order.
 */
function stageType(column: JobColumn): string {
  switch (column.type) {
    case 'int32':
      return 'Int64';
    case 'double':
      return column.nullable ? 'Nullable(Float64)' : 'Float64';
    case 'int64':
    case 'instant':
    case 'wall':
      return 'String';
    case 'date':
    case 'string':
      // Not LowCardinality: building its dictionaries took a quarter of an insert, and the drop encodes its own.
      return 'String';
    default:
      return column.type satisfies never;
  }
}
