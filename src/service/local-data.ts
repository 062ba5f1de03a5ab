/**
 * Trades and chains in a folder of this machine. One engine process writes them, into tables whose data lies in folders
 * of their own; then it lets go of the tables, and any number of other processes mount those folders read-only and
 * answer queries side by side. Invariant: nothing writes to the folders while they are mounted (a merge would remove
 * files that others read), and a query can spell neither the database of the tables nor their path.
 */
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { systemClock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';
import { type Catalog, type LoadedSource, readCatalog, writeCatalog } from './catalog.ts';
import type { Dataset, LoadTarget, StatementRunner } from './dataset.ts';
import {
  granularityFor,
  listSortColumns,
  SOURCE_COLUMN,
  STORED_TABLES,
  type StoredTable,
  type TradeOrder,
} from './stored-tables.ts';
import { listViewStatements } from './views.ts';

export interface LocalDataOptions {
  /** Folder of the data; created when missing. */
  readonly folder: string;
  readonly order: TradeOrder;
  /** Most rows read for one answer; the index is made fine enough for it. */
  readonly scanLimit: number;
}

/** The database of the process that writes. */
const WRITER_DATABASE = 'flowdrop';

/** The views follow the service's clock when it has moved against the engine's by more than this. */
const CLOCK_TOLERANCE_MS = 500;

export class LocalData {
  readonly #writer: StatementRunner;
  readonly #folder: string;
  #catalog: Catalog;

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

  get rows(): number {
    return this.#catalog.sources.reduce((sum, source) => sum + (source.table === 'trades' ? source.rows : 0), 0);
  }

  /** The first date that has trades or a chain. */
  get firstDate(): string | undefined {
    const dates = this.#catalog.sources.flatMap((source) => source.dates.map(({ date }) => date));
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
    if (this.#catalog.sources.some((other) => other.id === id)) return false;
    const replaced = this.#catalog.sources.filter(replaces);
    const quoted = `${WRITER_DATABASE}.${table}`;
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
    await this.#keep([...this.#catalog.sources, { id, name, table, rows: counted?.rows ?? 0, dates: [...dates] }]);
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
    for (const { dates } of this.#catalog.sources.filter((source) => source.table === 'trades')) {
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
      ENGINE = MergeTree PARTITION BY ${SOURCE_COLUMN} ORDER BY (${listSortColumns(table, this.#catalog.order).join(', ')})
      SETTINGS index_granularity = ${this.#catalog.granularity}, disk = ${disk}, table_disk = 1`;
  }
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

/** The loaded data as a process sees it that has mounted the folders. */
class LocalDataset implements Dataset {
  readonly tables;
  readonly databases: readonly string[];
  readonly rows: number;
  readonly earliest: string;
  readonly #clock: Clock;
  readonly #dates: readonly LoadedSource['dates'][number][];
  readonly #mountStatements: (hidden: string) => readonly string[];
  /** Of each process that is ready: the clock's offset that its views have. */
  readonly #offsets = new WeakMap<object, number>();

  constructor(
    dates: readonly LoadedSource['dates'][number][],
    mountStatements: (hidden: string) => readonly string[],
    given: { readonly earliest: string; readonly clock: Clock; readonly rows: number },
  ) {
    const hidden = `trades_${randomBytes(12).toString('hex')}`;
    this.databases = [hidden, `service_${randomBytes(12).toString('hex')}`];
    this.tables = { trades: `${hidden}.trades`, chains: `${hidden}.chains`, dates: `${hidden}.dates` };
    this.rows = given.rows;
    this.earliest = given.earliest;
    this.#clock = given.clock;
    this.#dates = dates;
    this.#mountStatements = mountStatements;
  }

  async prepare(engine: PooledEngine): Promise<void> {
    const offsetMs = Math.round(this.#clock.now() - systemClock.now());
    const known = this.#offsets.get(engine.state);
    if (known !== undefined && Math.abs(known - offsetMs) <= CLOCK_TOLERANCE_MS) return;
    if (known === undefined) await this.#mount(engine);
    const source = { trades: this.tables.trades, dates: this.tables.dates, earliest: this.earliest, offsetMs };
    for (const statement of listViewStatements(source)) await engine.command(statement);
    this.#offsets.set(engine.state, offsetMs);
  }

  async #mount(engine: PooledEngine): Promise<void> {
    const [hidden = '', visible = ''] = this.databases;
    await engine.command(`CREATE DATABASE ${hidden} ENGINE = Atomic`);
    for (const statement of this.#mountStatements(hidden)) await engine.command(statement);
    await engine.command(`CREATE TABLE ${this.tables.dates} (date String, first_time String) ENGINE = Memory`);
    const values = this.#dates.map(({ date, first_time }) => `(${quoteString(date)}, ${quoteString(first_time)})`);
    if (values.length > 0) await engine.command(`INSERT INTO ${this.tables.dates} VALUES ${values.join(', ')}`);
    // Unqualified names resolve here. In the default database of the embedded engine they would be file names.
    await engine.command(`CREATE DATABASE ${visible} ENGINE = Atomic`);
    await engine.command(`USE ${visible}`);
  }
}
