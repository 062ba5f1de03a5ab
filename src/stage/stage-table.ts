/**
 * The stage's table: its name and columns, how a page is read into them, and the check that every row must pass. Pure
 * text. For the rules of a single column see `column-rule.ts`.
 */
import { createHash } from 'node:crypto';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job, JobColumn } from '../job/job.ts';
import {
  askedText,
  isPlainRow,
  judgedRead,
  judgedValue,
  plainRead,
  plainValue,
  type RuleContext,
  stageType,
} from './column-rule.ts';

/** Column of the stage that names the window of a row; never part of a drop. */
export const WINDOW_COLUMN = '_window';

const TABLE_SETTINGS = [
  'allow_nullable_key = 1',
  // The engine's default, merging two or three small parts at a time, writes every row more often. With 32, sealing 10
  // million rows took 1.1 GB, because every remaining part has its buffers.
  'min_parts_to_merge_at_once = 8',
  // All columns of a part in one file: creating a file per column and part took a fifth of the time of a day.
  'min_bytes_for_wide_part = 1000000000000',
  // A merge holds a granule of each of its parts and a block of its output. With 8,192 rows each, merging took a third
  // more memory than the rest of an export.
  'index_granularity = 1024',
  'merge_max_block_size = 1024',
].join(', ');

const PREFIX = 'stage__';

/**
 * Name of the table of a date. Pages of another query, other columns or another source do not belong to it, so the name
 * contains a hash of all of these.
 * @param origin address of the source
 */
export function stageTableName(job: Job, date: string, origin: string): string {
  const identity = JSON.stringify([origin, job.source, job.drop.dataset, job.drop.sort]);
  const fingerprint = createHash('sha256').update(identity).digest('hex').slice(0, 12);
  return `${stageTablePrefix(date)}${fingerprint}`;
}

/** Prefix of the names of all tables of a date; without a date, of all stages. */
export function stageTablePrefix(date = ''): string {
  return date === '' ? PREFIX : `${PREFIX}${date.replaceAll('-', '_')}__`;
}

/** Parses the date from the name of a stage's table. */
export function parseStageDate(name: string): string {
  return name.slice(PREFIX.length, PREFIX.length + 'YYYY-MM-DD'.length).replaceAll('_', '-');
}

export function createTableSql(name: string, job: Job): string {
  const columns = job.source.columns.map((column) => `${quoteIdentifier(column.name)} ${stageType(column)}`);
  const sort = job.drop.sort.map(quoteIdentifier).join(', ');
  const ledger = `${WINDOW_COLUMN} LowCardinality(String)`;
  return `CREATE TABLE IF NOT EXISTS ${quoteIdentifier(name)} (${[...columns, ledger].join(', ')}) ENGINE = MergeTree ORDER BY (${sort}) SETTINGS ${TABLE_SETTINGS}`;
}

/** How to read and stage the rows of a page. */
export interface PageReading {
  /** The columns as `file()` takes them. */
  readonly structure: string;
  /** Expressions for the staged values of a row. @param window expression with the text of its window */
  readonly values: (window: string) => readonly string[];
  /** SQL that must be true for each row; `undefined`: no check. */
  readonly check: string | undefined;
}

/** The kind of rows: a page as the source sent it, or rows that were judged one by one. */
export type PageKind = 'plain' | 'judged';

/** @param extraFields kept as text if a row has them */
export function readPage(kind: PageKind, context: RuleContext, extraFields: readonly string[]): PageReading {
  const { columns } = context.job.source;
  const [readSql, valueSql] = kind === 'plain' ? [plainRead, plainValue] : [judgedRead, judgedValue];
  const extra = extraFields.map(quoteIdentifier);
  return {
    structure: [
      ...columns.map((column) => `${quoteIdentifier(column.name)} ${askedFor(column, context) ?? readSql(column)}`),
      ...extra.map((name) => `${name} String`),
    ].join(', '),
    values: (window) => [
      ...columns.map((column) => askedValue(column, context, window) ?? valueSql(column, quoteIdentifier(column.name))),
      ...extra,
    ],
    check: kind === 'plain' ? isPlainRow(context) : undefined,
  };
}

/** A snapshot's row may omit the requested date and symbol; the text of its window begins with the symbol. */
function askedFor(column: JobColumn, context: RuleContext): string | undefined {
  const text = askedText(column, context);
  return text === undefined ? undefined : `String DEFAULT ${quoteString(text)}`;
}

function askedValue({ name }: JobColumn, { job }: RuleContext, window: string): string | undefined {
  if (job.source.kind !== 'snapshots' || name !== 'symbol') return undefined;
  const value = quoteIdentifier(name);
  return `if(${value} = '', splitByChar(' ', ${window})[1], ${value})`;
}
