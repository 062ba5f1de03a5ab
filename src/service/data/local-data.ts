/**
 * Trades and chains in a folder of this machine. One engine process writes them into tables, each with its data in its
 * own folder. It then detaches the tables, and any number of other processes mount those folders read-only and answer
 * queries in parallel. Invariant: nothing writes to the folders while they are mounted (a merge would remove files that
 * other processes read), and a query can name neither the tables' database nor their path.
 */
import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { DatasetTables, LoadTarget, StatementRunner } from '../dataset.ts';
import { type Catalog, type LoadedSource, readCatalog, writeCatalog } from './catalog.ts';
import { LocalDataset } from './local-dataset.ts';
import {
  granularityFor,
  listSortColumns,
  SOURCE_COLUMN,
  STORED_TABLES,
  type StoredTable,
  type TradeOrder,
} from './stored-tables.ts';

interface LocalDataOptions {
  /** Data folder; created if missing. */
  readonly folder: string;
  readonly order: TradeOrder;
  /** Maximum rows read for one answer; it sets how fine the index is. */
  readonly scanLimit: number;
}

/** Database of the writing process. */
const WRITER_DATABASE = 'flowdrop';

export class LocalData {
  readonly #writer: StatementRunner;
  readonly #folder: string;
  #catalog: Catalog;
  /** Loaded in this run, but not yet confirmed by another process. */
  #pending: readonly LoadedSource[] = [];

  /** @throws Fault `DATA_DIR_INVALID` (kind `usage`) when the folder holds data with another layout */
  static async open(writer: StatementRunner, options: LocalDataOptions): Promise<LocalData> {
    const folder = resolve(options.folder);
    const kept = await readCatalog(folder);
    if (kept && kept.order !== options.order) {
      throw new Fault('DATA_DIR_INVALID', `the data in ${folder} is sorted by ${kept.order}, not by ${options.order}`, {
        kind: 'usage',
        hint: `Start with --order ${kept.order}, or choose another --data-dir.`,
      });
    }
    const catalog = kept ?? {
      version: 1,
      order: options.order,
      granularity: granularityFor(options.scanLimit),
      sources: [],
    };
    if (!kept) {
      await assertEmpty(folder);
      // Written before the tables exist. Data without a catalog is then always a damaged folder, never an unfinished
      // load.
      await writeCatalog(folder, catalog);
    }
    const data = new LocalData(writer, folder, catalog);
    await data.#attach();
    return data;
  }

  private constructor(writer: StatementRunner, folder: string, catalog: Catalog) {
    this.#writer = writer;
    this.#folder = folder;
    this.#catalog = catalog;
  }

  /** Rows per granule of the index. */
  get granularity(): number {
    return this.#catalog.granularity;
  }

  get rows(): number {
    return this.#sources.reduce((sum, source) => sum + (source.table === 'trades' ? source.rows : 0), 0);
  }

  /** The first date with trades or a chain. */
  get firstDate(): string | undefined {
    const dates = this.#sources.flatMap((source) => source.dates.map(({ date }) => date));
    return dates.sort()[0];
  }

  /**
   * Loads one source, unless it is already loaded. Opening the folder has removed the rest of any interrupted load.
   * @param fill inserts the rows
   * @param replaces selects the sources that this one replaces; they are removed first
   * @returns whether the source was loaded now
   */
  async load(
    source: { readonly id: string; readonly name: string; readonly table: LoadedSource['table'] },
    fill: (target: LoadTarget) => Promise<void>,
    replaces: (other: LoadedSource) => boolean = () => false,
  ): Promise<boolean> {
    const { id, name, table } = source;
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
    const [counted] = await this.#writer.rows<{ rows: number }>(
      `SELECT count() AS rows FROM ${quoted} WHERE ${SOURCE_COLUMN} = ${quoteString(id)}`,
    );
    const firstTime = table === 'trades' ? 'min(time)' : "''";
    const dates = await this.#writer.rows<LoadedSource['dates'][number]>(
      `SELECT date, ${firstTime} AS first_time FROM ${quoted} WHERE ${SOURCE_COLUMN} = ${quoteString(id)}
       GROUP BY date ORDER BY date`,
    );
    this.#pending = [...this.#pending, { id, name, table, rows: counted?.rows ?? 0, dates: [...dates] }];
    return true;
  }

  /** Detaches the tables from the writing process when everything is loaded. @param earliest first visible date */
  async publish(earliest: string, clock: Clock): Promise<LocalDataset> {
    for (const { name } of STORED_TABLES) {
      await this.#writer.command(`DETACH TABLE ${WRITER_DATABASE}.${name} SYNC`);
    }
    return new LocalDataset(
      this.#listDates(),
      (hidden) =>
        STORED_TABLES.map(
          (table) => `CREATE TABLE IF NOT EXISTS ${hidden}.${table.name} ${this.#definitionSql(table, true)}`,
        ),
      {
        earliest,
        clock,
        rows: this.rows,
      },
    );
  }

  /**
   * Reads the data from another process and then adds the new sources to the catalog. Without this check, a full disk
   * can lose a load silently; this has happened.
   * @param reader an engine that has mounted the data
   * @throws Fault `DATA_DIR_INVALID` when rows are missing
   */
  async confirm(reader: StatementRunner, tables: DatasetTables): Promise<void> {
    for (const { name } of STORED_TABLES) {
      const found = await reader.rows<{ id: string; rows: number }>(
        `SELECT ${SOURCE_COLUMN} AS id, count() AS rows FROM ${tables[name]} GROUP BY id`,
      );
      const rows = new Map(found.map((source) => [source.id, source.rows]));
      for (const source of this.#sources.filter(({ table }) => table === name)) {
        const present = rows.get(source.id) ?? 0;
        if (present !== source.rows) throw incomplete(this.#folder, source, `${present} can be read`);
      }
    }
    for (const source of this.#pending) {
      const where = `${SOURCE_COLUMN} = ${quoteString(source.id)}`;
      await reader
        .rows(`SELECT sum(cityHash64(*)) AS hash FROM ${tables[source.table]} WHERE ${where}`)
        .catch((cause: unknown) => {
          throw incomplete(this.#folder, source, describeError(cause));
        });
    }
    await this.#keep([...this.#catalog.sources, ...this.#pending]);
    this.#pending = [];
  }

  get #sources(): readonly LoadedSource[] {
    return [...this.#catalog.sources, ...this.#pending];
  }

  /** The database remembers nothing: the tables are those of the folder as it lies now, wherever it was before. */
  async #attach(): Promise<void> {
    await this.#writer.command(`CREATE DATABASE IF NOT EXISTS ${WRITER_DATABASE} ENGINE = Memory`);
    for (const table of STORED_TABLES) {
      const name = `${WRITER_DATABASE}.${table.name} UUID ${quoteString(randomUUID())}`;
      await this.#writer.command(`ATTACH TABLE ${name} ${this.#definitionSql(table, false)}`);
    }
    await this.#removeUnknown();
  }

  /** Removes rows whose source is not in the catalog, left by an interrupted load or replacement. */
  async #removeUnknown(): Promise<void> {
    const known = new Set(this.#catalog.sources.map(({ id }) => id));
    for (const { name } of STORED_TABLES) {
      const found = await this.#writer.rows<{ source: string }>(
        `SELECT DISTINCT partition AS source FROM system.parts
         WHERE database = '${WRITER_DATABASE}' AND table = ${quoteString(name)} AND active`,
      );
      for (const { source } of found) if (!known.has(source)) await this.#drop(name, source);
    }
  }

  async #drop(table: LoadedSource['table'], source: string): Promise<void> {
    await this.#writer.command(`ALTER TABLE ${WRITER_DATABASE}.${table} DROP PARTITION ${quoteString(source)}`);
  }

  async #keep(sources: readonly LoadedSource[]): Promise<void> {
    this.#catalog = { ...this.#catalog, sources: [...sources] };
    await writeCatalog(this.#folder, this.#catalog);
  }

  #listDates(): readonly LoadedSource['dates'][number][] {
    const first = new Map<string, string>();
    for (const { dates } of this.#sources.filter((source) => source.table === 'trades')) {
      for (const { date, first_time } of dates) {
        const known = first.get(date);
        if (known === undefined || first_time < known) first.set(date, first_time);
      }
    }
    return [...first]
      .map(([date, first_time]) => ({ date, first_time }))
      .sort((one, other) => (one.date < other.date ? -1 : 1));
  }

  #definitionSql(table: StoredTable, readonly: boolean): string {
    const columns = table.columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
    const disk = `disk(type = 'object_storage', object_storage_type = 'local', metadata_type = 'plain_rewritable',
      path = ${quoteString(`${resolve(this.#folder, table.name)}/`)}${readonly ? ', readonly = 1' : ''})`;
    return `(${columns.join(', ')}, ${SOURCE_COLUMN} String)
      ENGINE = MergeTree PARTITION BY ${SOURCE_COLUMN} ORDER BY (${listSortColumns(table.name, this.#catalog.order).join(', ')})
      SETTINGS index_granularity = ${this.#catalog.granularity}, disk = ${disk}, table_disk = 1`;
  }
}

function incomplete(folder: string, source: LoadedSource, found: string): Fault {
  return new Fault('DATA_DIR_INVALID', `${folder} should have ${source.rows} rows of ${source.name}, and ${found}`, {
    hint: 'The disk may be full. Make room, remove the folder (or choose another --data-dir) and load again.',
  });
}

/** @throws Fault when the folder has data without a catalog */
async function assertEmpty(folder: string): Promise<void> {
  for (const { name } of STORED_TABLES) {
    const found = await readdir(join(folder, name)).catch(() => []);
    if (found.length === 0) continue;
    throw new Fault('DATA_DIR_INVALID', `${join(folder, name)} has data, and ${folder} has no catalog.json`, {
      kind: 'usage',
      hint: 'Choose another --data-dir, or remove this one and load again.',
    });
  }
}
