/**
 * Trades and chains in a folder of this machine. One engine process writes them, into tables whose data lies in folders
 * of their own; then it lets go of the tables, and any number of other processes mount those folders read-only and
 * answer queries side by side. Invariant: nothing writes to the folders while they are mounted (a merge would remove
 * files that others read), and a query can spell neither the database of the tables nor their path.
 */
import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { Dataset, DatasetTables, LoadTarget, StatementRunner } from '../dataset.ts';
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
  /** Folder of the data; created when missing. */
  readonly folder: string;
  readonly order: TradeOrder;
  /** Most rows read for one answer; the index is made fine enough for it. */
  readonly scanLimit: number;
}

/** The database of the process that writes. */
const WRITER_DATABASE = 'flowdrop';

export class LocalData {
  readonly #writer: StatementRunner;
  readonly #folder: string;
  #catalog: Catalog;
  /** Loaded now, and not yet seen by another process. */
  #pending: readonly LoadedSource[] = [];

  /** @throws Fault `DATA_DIR_INVALID` (kind `usage`) when the folder holds data of another shape */
  static async open(writer: StatementRunner, options: LocalDataOptions): Promise<LocalData> {
    const folder = resolve(options.folder);
    const kept = await readCatalog(folder);
    if (kept && kept.order !== options.order) {
      throw new Fault(
        'DATA_DIR_INVALID',
        `the data in ${folder} is sorted by ${kept.order}, and ${options.order} is asked`,
        {
          kind: 'usage',
          hint: `Start with --order ${kept.order}, or choose another --data-dir.`,
        },
      );
    }
    const catalog = kept ?? {
      version: 1,
      order: options.order,
      granularity: granularityFor(options.scanLimit),
      sources: [],
    };
    if (!kept) {
      await assertEmpty(folder);
      // Before the tables: data without a catalog is somebody's loss, not the beginning of a load.
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

  /** Rows of a granule of the index. */
  get granularity(): number {
    return this.#catalog.granularity;
  }

  get rows(): number {
    return this.#sources.reduce((sum, source) => sum + (source.table === 'trades' ? source.rows : 0), 0);
  }

  /** The first date that has trades or a chain. */
  get firstDate(): string | undefined {
    const dates = this.#sources.flatMap((source) => source.dates.map(({ date }) => date));
    return dates.sort()[0];
  }

  /**
   * Loads one source, unless it is there. What an interrupted load left was removed when the folder was opened.
   * @param source `replaces`: sources that this one stands for are removed first
   * @param fill inserts the rows
   * @returns whether it was loaded now
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
      scratch: `${WRITER_DATABASE}.scratch`,
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

  /** Lets the writing process go, once all is loaded. @param earliest first visible date */
  async publish(earliest: string, clock: Clock): Promise<Dataset> {
    for (const { name } of STORED_TABLES) {
      await this.#writer.command(`DETACH TABLE ${WRITER_DATABASE}.${name} PERMANENTLY SYNC`);
    }
    return new LocalDataset(
      this.#listDates(),
      (hidden) => STORED_TABLES.map((table) => this.#createSql(hidden, table, true)),
      {
        earliest,
        clock,
        rows: this.rows,
      },
    );
  }

  /**
   * Looks at the data as another process sees it, and writes into the catalog what is really there: a disk that is full
   * has been seen to take a load without a word and to keep nothing of it.
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

  async #attach(): Promise<void> {
    await this.#writer.command(`CREATE DATABASE IF NOT EXISTS ${WRITER_DATABASE} ENGINE = Atomic`);
    for (const table of STORED_TABLES) {
      const known = await this.#writer.rows<{ detached: number }>(
        `SELECT 1 AS detached FROM system.detached_tables
         WHERE database = '${WRITER_DATABASE}' AND table = ${quoteString(table.name)}`,
      );
      if (known.length > 0) await this.#writer.command(`ATTACH TABLE ${WRITER_DATABASE}.${table.name}`);
      else await this.#writer.command(this.#createSql(WRITER_DATABASE, table, false));
    }
    await this.#removeUnknown();
  }

  /** Removes what an interrupted load or replacement left behind: rows whose source is not in the catalog. */
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

  #createSql(database: string, table: StoredTable, readonly: boolean): string {
    const columns = table.columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
    const disk = `disk(type = 'object_storage', object_storage_type = 'local', metadata_type = 'plain_rewritable',
      path = ${quoteString(`${resolve(this.#folder, table.name)}/`)}${readonly ? ', readonly = 1' : ''})`;
    return `CREATE TABLE IF NOT EXISTS ${database}.${table.name} (${columns.join(', ')}, ${SOURCE_COLUMN} String)
      ENGINE = MergeTree PARTITION BY ${SOURCE_COLUMN} ORDER BY (${listSortColumns(table.name, this.#catalog.order).join(', ')})
      SETTINGS index_granularity = ${this.#catalog.granularity}, disk = ${disk}, table_disk = 1`;
  }
}

function incomplete(folder: string, source: LoadedSource, found: string): Fault {
  return new Fault('DATA_DIR_INVALID', `${folder} should have ${source.rows} rows of ${source.name}, and ${found}`, {
    hint: 'The disk may be full. Make room, remove the folder (or choose another --data-dir) and load again.',
  });
}

/** @throws Fault when there is data of which no catalog tells */
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
