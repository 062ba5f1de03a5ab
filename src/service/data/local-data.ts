/**
 * Trades and chains in a folder of this machine. One engine process writes them into tables, each with its data in its
 * own folder. It then detaches the tables, and any number of other processes mount those folders read-only and answer
 * queries in parallel: tables in a database with a random name that no query may contain, and the views in another one,
 * the current database. Invariants: nothing writes to the folders while they are mounted (a merge would remove files that
 * other processes read); a query can name neither the tables' database nor their path; each engine mounts the data
 * once, and its views follow the service's clock; the data contains only sources of the catalog, for the rest of an
 * interrupted load is removed before the next load.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import {
  EARLIEST_DATE,
  EXCHANGE_TIME_ZONE,
  LOOKBACK_DAYS,
  MINIMUM_DATA_DELAY_MINUTES,
  TABLES,
} from '../../api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../api-contract/trade.ts';
import { readFileIfExists, writeWholeFile } from '../../core/atomic-file.ts';
import { type Clock, systemClock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { formatSettings, quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { PooledEngine } from '../../engine/pool.ts';
import type { AdmittedStatement, Dataset, LoadTarget, SnapshotDataset, StatementRunner } from '../backend.ts';
import type { ServiceOptions } from '../options.ts';
import { granularityFor, listSortColumns, STORED_TABLES, type StoredTable } from './tables.ts';

/** The catalog of the folder: which sources were loaded completely, and how the tables are built. */
const catalogSchema = z.object({
  version: z.literal(1),
  order: z.enum(['time', 'symbol']),
  /** Rows per granule of the index. */
  granularity: z.number().int().positive(),
  sources: z.array(
    z.object({
      /** Id of the source, e.g. `sha256:...` of a file; also the partition of its rows. */
      id: z.string(),
      /** For people: the file's name or the generated date. */
      name: z.string(),
      table: z.enum(['trades', 'chains']),
      rows: z.number().int(),
      /** Dates of the source, each with the time of its first trade. */
      dates: z.array(z.object({ date: z.string(), first_time: z.string() })),
    }),
  ),
});
type Catalog = z.infer<typeof catalogSchema>;
type Source = Catalog['sources'][number];

const CATALOG_FILE = 'catalog.json';
/** Database of the writing process. */
const WRITER_DATABASE = 'flowdrop';
/** Id of the load that a row belongs to; each load is its own partition, so an interrupted load can be removed. */
const SOURCE_COLUMN = 'source_of_load';
/** Recreate the views when the offset between service clock and engine clock has changed by more than this. */
const CLOCK_TOLERANCE_MS = 500;
const [ALL_TRADES, LATEST_TRADES] = TABLES;

type DataOptions = Pick<ServiceOptions, 'earliest' | 'order' | 'scanLimit'>;

export class LocalData implements Dataset, SnapshotDataset {
  readonly delayMs = 0;
  readonly lookbackDays = LOOKBACK_DAYS;
  readonly databases;
  readonly tables;
  readonly #writer: StatementRunner;
  readonly #folder: string;
  readonly #options: DataOptions;
  readonly #clock: Clock;
  #catalog: Catalog;
  /** Loaded in this run, but not yet confirmed by another process. */
  #pending: readonly Source[] = [];
  /** For each prepared process, the clock offset in its views. */
  readonly #offsets = new WeakMap<object, number>();

  /**
   * @param folder created if missing
   * @throws Fault `DATA_DIR_INVALID` (kind `usage`) when the folder holds data with another layout
   */
  static async open(writer: StatementRunner, folder: string, options: DataOptions, clock: Clock): Promise<LocalData> {
    const catalog = await openCatalog(resolve(folder), options);
    const data = new LocalData(writer, resolve(folder), options, clock, catalog);
    await data.#attach();
    return data;
  }

  private constructor(writer: StatementRunner, folder: string, options: DataOptions, clock: Clock, catalog: Catalog) {
    const hidden = `trades_${randomBytes(12).toString('hex')}`;
    this.databases = [hidden, `service_${randomBytes(12).toString('hex')}`] as const;
    this.tables = { trades: `${hidden}.trades`, chains: `${hidden}.chains`, dates: `${hidden}.dates` };
    this.#writer = writer;
    this.#folder = folder;
    this.#options = options;
    this.#clock = clock;
    this.#catalog = catalog;
  }

  /** Rows per granule of the index. */
  get granularity(): number {
    return this.#catalog.granularity;
  }

  get rows(): number {
    return this.#sources.reduce((sum, source) => sum + (source.table === 'trades' ? source.rows : 0), 0);
  }

  /** By default EARLIEST_DATE, or the first loaded date if earlier, so that older trades and chains are visible. */
  get earliest(): string {
    const dates = this.#sources.flatMap((source) => source.dates.map(({ date }) => date));
    return this.#options.earliest ?? [EARLIEST_DATE, ...dates].sort()[0] ?? EARLIEST_DATE;
  }

  /**
   * Loads one source, unless it is already loaded. Opening the folder has removed the rest of any interrupted load.
   * @param fill inserts the rows
   * @param replaces selects the sources that this one replaces; they are removed first
   * @returns whether the source was loaded now
   */
  async load(
    source: Pick<Source, 'id' | 'name' | 'table'>,
    fill: (target: LoadTarget) => Promise<void>,
    replaces: (other: Source) => boolean = () => false,
  ): Promise<boolean> {
    const { id, table } = source;
    if (this.#sources.some((other) => other.id === id)) return false;
    const replaced = this.#sources.filter(replaces);
    const quoted = `${WRITER_DATABASE}.${table}`;
    this.#pending = this.#pending.filter((other) => !replaced.includes(other));
    await this.#keep(this.#catalog.sources.filter((other) => !replaced.includes(other)));
    for (const gone of replaced) await this.#drop(gone.table, gone.id);
    await fill({
      engine: this.#writer,
      scratch: 'default.scratch',
      insertSql: (select) => `INSERT INTO ${quoted} SELECT *, ${quoteString(id)} FROM (${select})`,
    });
    const firstTime = table === 'trades' ? 'min(time)' : "''";
    const found = await this.#writer.rows<{ date: string; first_time: string; rows: number }>(
      `SELECT date, ${firstTime} AS first_time, count() AS rows FROM ${quoted}
       WHERE ${SOURCE_COLUMN} = ${quoteString(id)} GROUP BY date ORDER BY date`,
    );
    const rows = found.reduce((sum, date) => sum + date.rows, 0);
    const dates = found.map(({ date, first_time }) => ({ date, first_time }));
    this.#pending = [...this.#pending, { ...source, rows, dates }];
    return true;
  }

  /** Detaches the tables from the writing process when everything is loaded. */
  async detach(): Promise<void> {
    for (const { name } of STORED_TABLES) {
      await this.#writer.command(`DETACH TABLE ${WRITER_DATABASE}.${name} SYNC`);
    }
  }

  /**
   * Reads the data from another process and then adds the new sources to the catalog. Without this check, a full disk
   * can lose a load silently; this has happened.
   * @param reader an engine that has mounted the data
   * @throws Fault `DATA_DIR_INVALID` when rows are missing
   */
  async confirm(reader: StatementRunner): Promise<void> {
    for (const { name } of STORED_TABLES) {
      const found = await reader.rows<{ id: string; rows: number }>(
        `SELECT ${SOURCE_COLUMN} AS id, count() AS rows FROM ${this.tables[name]} GROUP BY id`,
      );
      const rows = new Map(found.map((source) => [source.id, source.rows]));
      for (const source of this.#sources.filter(({ table }) => table === name)) {
        const present = rows.get(source.id) ?? 0;
        if (present !== source.rows) throw this.#incomplete(source, `${present} can be read`);
      }
    }
    for (const source of this.#pending) {
      const where = `${SOURCE_COLUMN} = ${quoteString(source.id)}`;
      await reader
        .rows(`SELECT sum(cityHash64(*)) AS hash FROM ${this.tables[source.table]} WHERE ${where}`)
        .catch((cause: unknown) => {
          throw this.#incomplete(source, describeError(cause));
        });
    }
    await this.#keep(this.#sources);
    this.#pending = [];
  }

  async stream(
    engine: PooledEngine,
    { text, settings, format }: AdmittedStatement,
  ): Promise<AsyncIterable<Uint8Array>> {
    await this.prepare(engine);
    return await engine.stream(`${text} ${formatSettings(settings)}`, format);
  }

  async prepare(engine: PooledEngine): Promise<void> {
    const offsetMs = Math.round(this.#clock.now() - systemClock.now());
    const known = this.#offsets.get(engine.state);
    if (known !== undefined && Math.abs(known - offsetMs) <= CLOCK_TOLERANCE_MS) return;
    if (known === undefined) await this.#mount(engine);
    for (const statement of this.#listViews(offsetMs)) await engine.command(statement);
    this.#offsets.set(engine.state, offsetMs);
  }

  get #sources(): readonly Source[] {
    return [...this.#catalog.sources, ...this.#pending];
  }

  /** The database remembers nothing: the tables are those of the folder as it lies now, wherever it was before. */
  async #attach(): Promise<void> {
    await this.#writer.command(`CREATE DATABASE IF NOT EXISTS ${WRITER_DATABASE} ENGINE = Memory`);
    for (const table of STORED_TABLES) {
      const name = `${WRITER_DATABASE}.${table.name} UUID ${quoteString(randomUUID())}`;
      await this.#writer.command(`ATTACH TABLE ${name} ${this.#definitionSql(table, false)}`);
    }
    // Rows whose source is not in the catalog were left by an interrupted load or replacement.
    const known = new Set(this.#catalog.sources.map(({ id }) => id));
    for (const { name } of STORED_TABLES) {
      const found = await this.#writer.rows<{ source: string }>(
        `SELECT DISTINCT partition AS source FROM system.parts
         WHERE database = '${WRITER_DATABASE}' AND table = ${quoteString(name)} AND active`,
      );
      for (const { source } of found) if (!known.has(source)) await this.#drop(name, source);
    }
  }

  async #mount(engine: PooledEngine): Promise<void> {
    const [hidden, visible] = this.databases;
    await engine.command(`CREATE DATABASE ${hidden} ENGINE = Atomic`);
    for (const table of STORED_TABLES) {
      await engine.command(`CREATE TABLE ${this.tables[table.name]} ${this.#definitionSql(table, true)}`);
    }
    await engine.command(`CREATE TABLE ${this.tables.dates} (date String, first_time String) ENGINE = Memory`);
    const values = this.#sources
      .filter((source) => source.table === 'trades')
      .flatMap(({ dates }) => dates)
      .map(({ date, first_time }) => `(${quoteString(date)}, ${quoteString(first_time)})`);
    if (values.length > 0) {
      await engine.command(
        `INSERT INTO ${this.tables.dates} SELECT date, min(first_time)
         FROM values('date String, first_time String', ${values.join(', ')}) GROUP BY date`,
      );
    }
    // Unqualified names resolve here. In the default database of the embedded engine they would be file names.
    await engine.command(`CREATE DATABASE ${visible} ENGINE = Atomic`);
    await engine.command(`USE ${visible}`);
  }

  /**
   * Statements that create or replace the views in the current database.
   * @param offsetMs the service's clock minus the engine's
   */
  #listViews(offsetMs: number): readonly string[] {
    const columns = TRADE_COLUMNS.map((column) => quoteIdentifier(column.name)).join(', ');
    const newest = boundSql(offsetMs, `toIntervalMinute(${MINIMUM_DATA_DELAY_MINUTES})`);
    const oldest = boundSql(offsetMs, `toIntervalDay(${LOOKBACK_DAYS})`);
    const latest = (value: string) => `(SELECT max(${value}) FROM ${this.tables.dates} WHERE first_time <= ${newest})`;
    return [
      `CREATE OR REPLACE VIEW ${ALL_TRADES} AS SELECT ${columns} FROM ${this.tables.trades}
       WHERE time <= ${newest} AND time >= ${oldest} AND date >= ${quoteString(this.earliest)}`,
      // The date filter decides; the time filter only lets the primary key skip other dates.
      `CREATE OR REPLACE VIEW ${LATEST_TRADES} AS SELECT ${columns} FROM ${ALL_TRADES}
       WHERE date = ${latest('date')} AND time >= ${latest('first_time')}`,
    ];
  }

  async #drop(table: Source['table'], source: string): Promise<void> {
    await this.#writer.command(`ALTER TABLE ${WRITER_DATABASE}.${table} DROP PARTITION ${quoteString(source)}`);
  }

  async #keep(sources: readonly Source[]): Promise<void> {
    this.#catalog = { ...this.#catalog, sources: [...sources] };
    await writeCatalog(this.#folder, this.#catalog);
  }

  #definitionSql(table: StoredTable, readonly: boolean): string {
    const columns = table.columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
    const disk = `disk(type = 'object_storage', object_storage_type = 'local', metadata_type = 'plain_rewritable',
      path = ${quoteString(`${join(this.#folder, table.name)}/`)}${readonly ? ', readonly = 1' : ''})`;
    return `(${columns.join(', ')}, ${SOURCE_COLUMN} String)
      ENGINE = MergeTree PARTITION BY ${SOURCE_COLUMN} ORDER BY (${listSortColumns(table.name, this.#catalog.order).join(', ')})
      SETTINGS index_granularity = ${this.#catalog.granularity}, disk = ${disk}, table_disk = 1`;
  }

  #incomplete(source: Source, found: string): Fault {
    const message = `${this.#folder} should have ${source.rows} rows of ${source.name}, and ${found}`;
    return new Fault('DATA_DIR_INVALID', message, {
      hint: 'The disk may be full. Make room, remove the folder (or choose another --data-dir) and load again.',
    });
  }
}

/** SQL of the exchange's wall clock, `ago` before the service's present. */
function boundSql(offsetMs: number, ago: string): string {
  const present = `now64(3) + toIntervalMillisecond(${offsetMs})`;
  return `formatDateTime(toTimeZone(${present} - ${ago}, ${quoteString(EXCHANGE_TIME_ZONE)}), '%F %T')`;
}

/** The catalog of the folder, or a new one for a folder without data. @throws Fault `DATA_DIR_INVALID` (kind `usage`) */
async function openCatalog(folder: string, { order, scanLimit }: DataOptions): Promise<Catalog> {
  const path = join(folder, CATALOG_FILE);
  const text = await readFileIfExists(path);
  if (text !== undefined) {
    const kept = parseCatalog(path, text);
    if (kept.order === order) return kept;
    const message = `the data in ${folder} is sorted by ${kept.order}, not by ${order}`;
    throw invalidFolder(message, `Start with --order ${kept.order}, or choose another --data-dir.`);
  }
  for (const { name } of STORED_TABLES) {
    const found = await readdir(join(folder, name)).catch(() => []);
    if (found.length > 0) throw invalidFolder(`${join(folder, name)} has data, and ${folder} has no ${CATALOG_FILE}`);
  }
  const catalog: Catalog = { version: 1, order, granularity: granularityFor(scanLimit), sources: [] };
  // Written before the tables exist. Data without a catalog is then always a damaged folder, never an unfinished load.
  await writeCatalog(folder, catalog);
  return catalog;
}

function parseCatalog(path: string, text: string): Catalog {
  try {
    return catalogSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw invalidFolder(`${path} is not a catalog of version 1: ${describeError(cause)}`);
  }
}

async function writeCatalog(folder: string, catalog: Catalog): Promise<void> {
  await writeWholeFile(join(folder, CATALOG_FILE), `${JSON.stringify(catalog, null, 2)}\n`);
}

function invalidFolder(message: string, hint = 'Choose another --data-dir, or remove this one and load again.'): Fault {
  return new Fault('DATA_DIR_INVALID', message, { kind: 'usage', hint });
}
