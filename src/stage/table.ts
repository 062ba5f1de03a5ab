/**
 * The stage's table: its name, columns and what they refuse. Pure text. Invariant: what the engine would quietly turn into
 * another value (a null, an absent field, an integer that does not fit) makes the whole insert fail.
 */
import { createHash } from 'node:crypto';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job, JobColumn } from '../job/job.ts';

/** Column of the stage that names the window a row came with; never part of a drop. */
export const WINDOW_COLUMN = '_window';

/** Tokens kept for deduplication: more than the windows a day can have. */
const DEDUPLICATION_WINDOW = 1_000_000;

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
  const columns = job.source.columns.map(
    (column) => `${quoteIdentifier(column.name)} ${stageType(column)} ${onAbsent(column)}`,
  );
  const integers = job.source.columns.filter((column) => column.type === 'int32');
  const range = integers.map(({ name }) => `${quoteIdentifier(name)} BETWEEN -2147483648 AND 2147483647`).join(' AND ');
  const constraint = integers.length === 0 ? [] : [`CONSTRAINT fits_int32 CHECK ${range}`];
  const sort = job.drop.sort.map(quoteIdentifier).join(', ');
  // The token is the window: what the engine uses to recognise a repeated insert is also what it writes into each row.
  const ledger = `${WINDOW_COLUMN} LowCardinality(String) DEFAULT getSetting('insert_deduplication_token')`;
  return `CREATE TABLE IF NOT EXISTS ${quoteIdentifier(name)} (${[...columns, ledger, ...constraint].join(', ')}) ENGINE = MergeTree ORDER BY (${sort}) SETTINGS allow_nullable_key = 1, non_replicated_deduplication_window = ${DEDUPLICATION_WINDOW}`;
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
