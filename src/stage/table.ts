/**
 * The stage's table: its name, columns and what they refuse. Pure text. Invariant: what the engine would quietly turn into
 * another value (a null, an absent field, an integer that does not fit) makes the whole insert fail.
 */
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job, JobColumn } from '../job/job.ts';

/** Column of the stage that names the window a row came with; never part of a drop. */
export const WINDOW_COLUMN = '_window';

/** Tokens kept for deduplication: more than the windows a day can have. */
const DEDUPLICATION_WINDOW = 1_000_000;

export function stageTableName(dataset: string, date: string): string {
  return `stage_${dataset.replaceAll('-', '_')}__${date.replaceAll('-', '_')}`;
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
  return `CREATE TABLE IF NOT EXISTS ${quoteIdentifier(name)} (${[...columns, ledger, ...constraint].join(', ')}) ENGINE = MergeTree ORDER BY (${sort}) SETTINGS non_replicated_deduplication_window = ${DEDUPLICATION_WINDOW}`;
}

/** A null, and a field that a row leaves out, take the column's default: for what may not be null that is a refusal. */
function onAbsent({ name, nullable }: JobColumn): string {
  return nullable ? "DEFAULT ''" : `DEFAULT throwIf(materialize(true), ${quoteString(`"${name}" is null or absent`)})`;
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
      return 'Float64';
    case 'int64':
    case 'instant':
    case 'wall':
      return 'String';
    case 'date':
      return 'LowCardinality(String)';
    case 'string':
      return column.lowCardinality ? 'LowCardinality(String)' : 'String';
    default:
      return column.type satisfies never;
  }
}
