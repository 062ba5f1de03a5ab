/**
 * Resolves statements over the archive in an engine process of this machine, and runs them there. A process has a database
 * with empty tables, in which statements are resolved, and one with the views that they run over. Invariant: what is left
 * of an earlier statement is used again only where it is exactly what this one needs; a process that was replaced has
 * nothing left. A view shows the columns that the statement can name, and the files that it can touch.
 */
import { randomBytes } from 'node:crypto';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/engine-fault.ts';
import { formatSettings, quoteIdentifier } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';
import { listTokens, type SqlToken } from '../guard/canonical-text.ts';
import { toRefusal } from '../guard/refusal.ts';
import type { ArchiveColumn } from './archive-column.ts';
import {
  type AnswerColumn,
  type AnswerFile,
  describeStatement,
  isBinary,
  READ_SETTINGS,
  readAnswerColumns,
} from './output-format.ts';
import { readAll, resolveReads, type TableRead } from './reads.ts';
import { FAMILY, type OpenTable } from './tables.ts';
import { describeProbe } from './top-rows.ts';

/** What an engine process has. */
interface Prepared {
  /** The database that names without one mean. */
  current: string | undefined;
  /** Statements that made the tables and views, by database and name. */
  readonly made: Map<string, string>;
}

/** A view names the path of each date. The caller's statement has a limit of its own, in the guard. */
export const MAX_VIEW_BYTES = 1_000_000_000;
/** The engine's counters of what it reads. They are per process, which runs one statement at a time. */
const EVENTS = {
  rowGroups: 'ParquetReadRowGroups',
  /** Skipped because of statistics or bloom filters. */
  prunedRowGroups: 'ParquetPrunedRowGroups',
  s3Bytes: 'ReadBufferFromS3Bytes',
  files: 'EngineFileLikeReadFiles',
} as const;

/** What the engine read for an answer. */
export type ReadCost = Readonly<Record<keyof typeof EVENTS, number>>;

export class EmbeddedRunner {
  /** With unguessable names: one to resolve statements in, one to run them in. */
  readonly databases: readonly [string, string];
  readonly #states = new WeakMap<object, Prepared>();

  constructor() {
    const suffix = () => randomBytes(12).toString('hex');
    this.databases = [`resolve_${suffix()}`, `archive_${suffix()}`];
  }

  /** Creates the databases in an engine process, once. @throws EngineFault */
  async #prepare(engine: PooledEngine): Promise<Prepared> {
    const known = this.#states.get(engine.state);
    if (known !== undefined) return known;
    // Types without a zone take the zone when a view is made. The date of a file's path is a LowCardinality date while
    // it is parsed.
    const types = "session_timezone = 'UTC', allow_suspicious_low_cardinality_types = 1";
    await engine.command(`SET ${types}, max_query_size = ${MAX_VIEW_BYTES}`);
    // In memory, because the views of an S3 store contain its credentials.
    for (const name of this.databases) await engine.command(`CREATE DATABASE ${name} ENGINE = Memory`);
    const prepared: Prepared = { current: undefined, made: new Map() };
    this.#states.set(engine.state, prepared);
    return prepared;
  }

  /**
   * Finds what the statement reads. The newest manifest lists the columns. If the statement does not resolve with these,
   * it may name a column of older dates, so all manifests are read.
   */
  async resolve(engine: PooledEngine, admitted: string, tables: readonly OpenTable[]): Promise<readonly TableRead[]> {
    const newest = await this.#resolveWith(engine, admitted, tables);
    if (newest !== undefined) return newest;
    for (const table of tables) await table.describeAll();
    return (await this.#resolveWith(engine, admitted, tables)) ?? readAll(tables);
  }

  /**
   * Creates views of the tables that the statement reads, as they are narrowed.
   * @param bound a condition of the only table's rows @throws EngineFault; Fault `DROP_DAMAGED`
   */
  async show(engine: PooledEngine, admitted: string, tables: readonly OpenTable[], bound?: string): Promise<void> {
    const isNamed = listNamed(admitted);
    const describe = (table: OpenTable) =>
      `CREATE VIEW ${quoteIdentifier(table.name)} AS ${table.describeRows(isNamed, bound)}`;
    const views = tables.map((table) => [table.name, table.reads.length > 0 ? describe(table) : undefined] as const);
    await this.#make(engine, this.databases[1], new Map(views));
  }

  /** Writes the answer over narrowed tables. @throws EngineFault; Fault `DROP_DAMAGED` */
  async write(engine: PooledEngine, admitted: string, tables: readonly OpenTable[], file: AnswerFile) {
    const before = await readCost(engine);
    await this.show(engine, admitted, tables);
    const bound = await findBound(engine, admitted, tables, file);
    if (bound !== undefined) await this.show(engine, admitted, tables, bound);
    const columns = isBinary(file.format) ? await readAnswerColumns(engine, admitted) : [];
    await engine.command(describeStatement(admitted, file));
    return { columns, cost: await readCost(engine, before) };
  }

  /** The columns of the answer, by empty tables with the columns of the views. @throws EngineFault if the statement is wrong */
  async describeAnswer(
    engine: PooledEngine,
    admitted: string,
    tables: readonly OpenTable[],
  ): Promise<readonly AnswerColumn[]> {
    const isNamed = listNamed(admitted);
    const read = tables.filter(({ reads }) => reads.length > 0);
    const empty = read.map((table) => describeEmptyTable(table, table.shownColumns(isNamed)));
    await this.#make(engine, this.databases[0], new Map(empty));
    return await readAnswerColumns(engine, admitted);
  }

  /** @returns `undefined` if the engine rejects the statement with the columns that the tables have now */
  async #resolveWith(
    engine: PooledEngine,
    admitted: string,
    tables: readonly OpenTable[],
  ): Promise<readonly TableRead[] | undefined> {
    const readable = tables.map((table) => {
      const columns = table.columns();
      const isDated = columns.some(({ name, readAs }) => name === 'date' && readAs === undefined);
      return { name: table.name, columns: columns.map(({ name }) => name), isDated };
    });
    const empty = tables.map((table) => describeEmptyTable(table, table.columns()));
    await this.#make(engine, this.databases[0], new Map(empty));
    return await resolveReads(engine, admitted, readable);
  }

  /** Makes tables or views by their statements in a database, then the current one; none: there is no such table. */
  async #make(
    engine: PooledEngine,
    database: string,
    statements: ReadonlyMap<string, string | undefined>,
  ): Promise<void> {
    const prepared = await this.#prepare(engine);
    if (prepared.current !== database) {
      prepared.current = undefined;
      await engine.command(`USE ${database}`);
      prepared.current = database;
    }
    for (const [name, statement] of statements) {
      const key = `${database}.${name}`;
      if (prepared.made.get(key) === statement) continue;
      prepared.made.delete(key);
      await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(name)}`);
      if (statement === undefined) continue;
      await engine.command(statement).catch((error: unknown) => {
        // The caller did not write it.
        if (error instanceof EngineFault && toRefusal(error, '') !== error)
          throw new EngineFault(CLICKHOUSE_CODES.LOGICAL_ERROR, error.message, error);
        throw error;
      });
      prepared.made.set(key, statement);
    }
  }
}

/** The condition that the first rows of a table meet, if the answer is these; see `top-rows.ts`. */
async function findBound(
  engine: PooledEngine,
  admitted: string,
  tables: readonly OpenTable[],
  { limits }: AnswerFile,
): Promise<string | undefined> {
  const table = tables.find(({ reads }) => reads[0]?.top !== undefined);
  const top = table?.reads[0]?.top;
  const column = table?.columns().find(({ name }) => name === top?.column);
  const probe = top && column && describeProbe(admitted, top, column);
  if (probe === undefined) return undefined;
  try {
    const settings = formatSettings({ ...READ_SETTINGS, ...limits });
    const [found] = await engine.rows<{ rows: number; bound: string | null }>(`${probe.sql} ${settings}`);
    return found?.rows === top?.count ? probe.describeBound(found?.bound ?? '') : undefined;
  } catch (error) {
    // Then the statement itself fails, and says why.
    if (error instanceof EngineFault && error.clickhouseCode !== 0) return undefined;
    throw error;
  }
}

/** Reads the totals since the process started, less those of `before`. */
async function readCost(engine: PooledEngine, before?: ReadCost): Promise<ReadCost | undefined> {
  const sums = Object.entries(EVENTS).map(
    ([name, event]) =>
      `sumIf(toFloat64(value), event = '${event}') - ${before?.[name as keyof ReadCost] ?? 0} AS ${name}`,
  );
  const [cost] = await engine.rows<ReadCost>(`SELECT ${sums.join(', ')} FROM system.events`);
  return cost;
}

/** An empty table with the same columns, to resolve statements against; it is never read. */
function describeEmptyTable({ name }: OpenTable, columns: readonly ArchiveColumn[]) {
  // Never LowCardinality, so that conditions are not wrapped in conversions.
  const typed = columns.map((column) => `${quoteIdentifier(column.name)} ${column.type}`);
  return [name, `CREATE TABLE ${quoteIdentifier(name)} (${typed.join(', ')}) ENGINE = Null`] as const;
}

/** Words that stand for columns that they do not name. */
const ALL_COLUMNS: readonly string[] = ['COLUMNS', 'NATURAL'];

/**
 * Which columns a statement may read, judged by its tokens: a column can be read only by its name or by a sign for all columns.
 * All columns are without the family, which the API does not have. It knows no scopes, so there may be more of them than are read. @param admitted the guard's text
 */
export function listNamed(admitted: string): (column: string) => boolean {
  const tokens = listTokens(admitted).filter(({ text }) => text.trim() !== '');
  const names = new Set(tokens.map(({ value }) => value));
  const isAll = tokens.some(({ value }, k) => ALL_COLUMNS.includes(value.toUpperCase()) || isAllColumns(tokens, k));
  return (column) => (isAll && column !== FAMILY) || names.has(column);
}

/** Whether the token is a `*` for all columns. After a value it multiplies; in `count(*)` it reads no column. */
function isAllColumns(tokens: readonly SqlToken[], index: number): boolean {
  if (tokens[index]?.text !== '*') return false;
  const before = tokens[index - 1]?.text ?? '';
  if (before === '(') return tokens[index - 2]?.text.toLowerCase() !== 'count';
  return ['SELECT', 'DISTINCT', ',', '.', '['].includes(before);
}
