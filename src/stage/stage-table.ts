/**
 * The stage's table: its name and columns, how a plain page is read into them, and the check that every row of it must pass.
 * For the rules of a single column see `column-rule.ts`, for other pages `odd-page.ts`.
 */
import { createHash } from 'node:crypto';
import { COLUMN_TYPES, nullMark } from '../engine/column-types.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job, JobColumn } from '../job/job.ts';
import { askedText, INT32, isAnyText, matches, plainPattern, type RuleContext } from './column-rule.ts';

/** A stage's rows as the functions over them take it; `stage.ts` has the rest. */
export interface StagedTable {
  readonly engine: Engine;
  readonly job: Job;
  readonly date: string;
  /** Quoted name. */
  readonly table: string;
  /** Folder for files that the engine reads. */
  readonly spool: string;
}

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
  return `${prefixOf(date)}${fingerprint}`;
}

/** Prefix of the names of all tables of a date. */
function prefixOf(date: string): string {
  return `${PREFIX}${date.replaceAll('-', '_')}__`;
}

export function createTableSql(name: string, job: Job): string {
  const columns = job.source.columns.map(
    (column) => `${quoteIdentifier(column.name)} ${COLUMN_TYPES[column.type].staged}`,
  );
  const sort = job.drop.sort.map(quoteIdentifier).join(', ');
  const ledger = `${WINDOW_COLUMN} LowCardinality(String)`;
  return `CREATE TABLE IF NOT EXISTS ${quoteIdentifier(name)} (${[...columns, ledger].join(', ')}) ENGINE = MergeTree ORDER BY (${sort}) SETTINGS ${TABLE_SETTINGS}`;
}

/**
 * SQL that stages the rows of plain pages, or nothing of them if a row does not fit.
 * @param table quoted name @param extraFields kept as text if a row has them
 * @param path of the files with the rows, one a line @param window expression with the text of a row's window
 */
export function insertPages(
  table: string,
  context: RuleContext,
  extraFields: readonly string[],
  path: string,
  window: string,
): string {
  const columns = context.job.source.columns.map((column) => {
    const name = quoteIdentifier(column.name);
    const asked = askedText(column, context);
    if (asked === undefined) return { name, ...readPlainColumn(column) };
    // The text of the window of a snapshot's part begins with the symbol.
    const value = asked === '' ? `if(${name} = '', splitByChar(' ', ${window})[1], ${name})` : name;
    return { name, read: `String DEFAULT ${quoteString(asked)}`, value };
  });
  const extra = extraFields.map(quoteIdentifier).map((name) => ({ name, read: 'String', value: name }));
  const all = [...columns, ...extra];
  const structure = all.map(({ name, read }) => `${name} ${read}`).join(', ');
  return `INSERT INTO ${table} (${[...all.map(({ name }) => name), WINDOW_COLUMN].join(', ')}) SELECT ${[...all.map(({ value }) => value), window].join(', ')} FROM file(${quoteString(path)}, JSONEachRow, ${quoteString(structure)}) WHERE throwIf(NOT (${isPlainRow(context)}), 'a row does not fit its columns') = 0`;
}

/**
 * Integers are read as floating-point numbers: as an integer type, the engine would change a number that does not fit, and
 * read an empty text as 0.
 */
export function readType({ type }: JobColumn): 'String' | 'Float64' {
  return COLUMN_TYPES[type].staged === 'String' ? 'String' : 'Float64';
}

/** How a column of a plain page is read, as `file()` takes it, and the SQL of its staged value. */
function readPlainColumn(column: JobColumn) {
  const { name, type, oftenNull } = column;
  const read = readType(column);
  const value = type === 'int32' ? `toInt64(${quoteIdentifier(name)})` : quoteIdentifier(name);
  if (oftenNull && type === 'double') {
    return { read: `Nullable(${read})`, value: `ifNull(${value}, ${nullMark(type, oftenNull)})` };
  }
  const refusal = `throwIf(materialize(true), ${quoteString(`"${name}" is null or absent`)})`;
  return { read: `${read} DEFAULT ${oftenNull && read === 'String' ? "''" : refusal}`, value };
}

/**
 * SQL that is true if all values of a row of a plain page can be staged unchanged. Columns of one type are checked
 * together, because the engine needs as long to plan a condition of a hundred parts as to compute it.
 */
function isPlainRow(context: RuleContext): string {
  const { columns } = context.job.source;
  const doubles = columns
    .filter(({ type }) => type === 'double')
    .map(({ name, oftenNull }) => (oftenNull ? `assumeNotNull(${quoteIdentifier(name)})` : quoteIdentifier(name)));
  const integers = columns.filter(({ type }) => type === 'int32').map(({ name }) => quoteIdentifier(name));
  const formed = columns.filter((column) => readType(column) === 'String' && !isAnyText(column, context));
  const bytes = formed.map(({ name }) => quoteIdentifier(name)).join(`, '","', `);
  return [
    // A non-finite value makes the sum non-finite. An overflow of large numbers does too, but only costs the slow path.
    ...(doubles.length > 0 ? [`isFinite(${doubles.join(' + ')})`] : []),
    ...(integers.length > 0
      ? [`arrayAll(x -> x BETWEEN ${INT32.least} AND ${INT32.most} AND toInt64(x) = x, [${integers.join(', ')}])`]
      : []),
    ...(formed.length > 0
      ? [matches(`concat('"', ${bytes}, '"')`, `^${formed.map((column) => plainPattern(column, context)).join(',')}$`)]
      : []),
    'true',
  ].join(' AND ');
}

/** Dates that have a stage, ascending: all of them, or only those with rows. */
export async function listStages(engine: Engine, { withRows = false } = {}): Promise<readonly string[]> {
  const tables = await listStageTables(engine, PREFIX, withRows ? 1 : 0);
  const dates = tables.map((name) => name.slice(PREFIX.length, PREFIX.length + 'YYYY-MM-DD'.length));
  return [...new Set(dates.map((date) => date.replaceAll('_', '-')))].sort();
}

/** Drops the tables of a date. @param kept but these @returns the names of all that there were */
export async function discardStages(engine: Engine, date: string, kept: readonly string[] = []) {
  const names = await listStageTables(engine, prefixOf(date));
  for (const name of names.filter((one) => !kept.includes(one))) {
    await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(name)} SYNC`);
  }
  return names;
}

/** @param prefix of the table names */
export async function listStageTables(engine: Engine, prefix: string, minRows = 0): Promise<readonly string[]> {
  const filled = minRows === 0 ? '' : ` AND ifNull(total_rows, 0) >= ${minRows}`;
  const tables = await engine.rows<{ name: string }>(
    `SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, ${quoteString(prefix)})${filled} ORDER BY name`,
  );
  return tables.map(({ name }) => name);
}
