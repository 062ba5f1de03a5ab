/**
 * The embedded backend: trades and chains in a folder of this machine. One engine process writes them into tables, each
 * with its data in its own folder, and later parses queries. It then detaches the tables, and any number of other processes
 * mount those folders read-only and answer queries in parallel: tables in a database with a random name that no query may
 * contain, and the views in another one, the current database. Invariants: nothing writes to the folders while they are
 * mounted (a merge would remove files that other processes read); a query can name neither the tables' database nor their
 * path; each engine mounts the data once, and its views follow the service's clock; the data contains only sources of the
 * catalog, for the rest of an interrupted load is removed before the next load.
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
import { hashFile, readFileIfExists, tryParseJson, writeWholeFile } from '../../core/atomic-file.ts';
import { systemClock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { PooledEngine } from '../../engine/pool.ts';
import { type Backend, type BackendParts, type LoadTarget, runOn, type StatementRunner } from '../backend.ts';
import { generateSession, listClosedSessions, planRows } from '../generate/generate.ts';
import type { ServiceOptions } from '../options.ts';
import { loadChainFile } from './chain-file.ts';
import { findDataFile, type InputFile, loadTradeFile } from './data-file.ts';
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
      /** Dates of the source, each with the times of its first and last trade. */
      dates: z.array(z.object({ date: z.string(), first_time: z.string(), last_time: z.string() })),
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

/** @throws Fault `DATA_INVALID`, `DATA_UNREADABLE`, `DATA_DIR_INVALID` (kind `usage`) */
export async function openLocalBackend(options: ServiceOptions, parts: BackendParts): Promise<Backend> {
  const { clock, log } = parts;
  const folder = options.dataDir ?? join(parts.folder, 'data');
  const path = resolve(folder);
  const parser = await parts.startEngines(join(folder, 'writer'), 1, { keep: true });
  const writer = runOn(parser);
  const catalog = await openCatalog(path, options);
  /** Loaded in this run, but not yet confirmed by another process. */
  let pending: readonly Source[] = [];
  const hidden = `trades_${randomBytes(12).toString('hex')}`;
  const visible = `service_${randomBytes(12).toString('hex')}`;
  const tables = { trades: `${hidden}.trades`, chains: `${hidden}.chains`, dates: `${hidden}.dates` };
  /** For each prepared process, the clock offset in its views. */
  const offsets = new WeakMap<object, number>();
  await attach();
  const { granularity } = catalog;
  if (granularity > granularityFor(options.scanLimit)) {
    log.warn(
      { event: 'index-too-coarse', folder, granularityRows: granularity },
      'the stored index is too coarse for this --scan-limit',
    );
  }
  await fill();
  // The writing process lets go of the tables when everything is loaded.
  for (const { name } of STORED_TABLES) await writer.command(`DETACH TABLE ${WRITER_DATABASE}.${name} SYNC`);
  const found = listSources().flatMap(({ dates }) => dates.map(({ date }) => date));
  /** By default EARLIEST_DATE, or the first loaded date if earlier, so that older trades and chains are visible. */
  const earliest = options.earliest ?? [EARLIEST_DATE, ...found].sort()[0] ?? EARLIEST_DATE;
  const size = options.concurrency;
  const pool = await parts.startEngines(join(parts.folder, 'workers'), size, { prepare });
  // Mount the data in each process now, so that the first caller does not wait for it.
  const signal = new AbortController().signal;
  const owners = Array.from({ length: size }, (_, number) => `start ${number}`);
  await Promise.all(owners.map((owner) => pool.use({ owner, signal }, async () => {})));
  await confirm(runOn(pool));
  return {
    pool,
    parser,
    databases: [hidden, visible],
    rows: catalog.sources.reduce((sum, source) => sum + (source.table === 'trades' ? source.rows : 0), 0),
    lookbackDays: LOOKBACK_DAYS,
    snapshots: { tables, delayMs: 0, earliest },
  };

  async function fill(): Promise<void> {
    for (const file of options.data) {
      const isNew = await loadFile('trades', await findDataFile(file, true), loadTradeFile);
      log.info({ event: 'loaded', file, isNew }, `loaded ${file}`);
    }
    for (const chain of options.chain) {
      const isNew = await loadFile('chains', await findDataFile(chain), loadChainFile);
      log.info({ event: 'loaded', chain, isNew }, `loaded ${chain}`);
    }
    const { seed } = options;
    for (const date of listClosedSessions(clock.now(), options.generateSessions)) {
      const { rows, others } = planRows(date, seed, options.generateRows);
      const place = `generated:${date}:`;
      const source = { id: `${place}${rows}+${others}:${seed}`, name: date, table: 'trades' } as const;
      // Replace another generation of the same date: two markets on one date would mix.
      const isNew = await load(
        source,
        (target) => generateSession({ date, rows, seed, others }, target),
        (other) => other.id.startsWith(place),
      );
      log.info({ event: 'generated', date, rows, isNew }, `generated ${date}`);
    }
  }

  async function loadFile(table: Source['table'], file: InputFile, insert: typeof loadTradeFile): Promise<boolean> {
    const source = { id: `sha256:${await hashFile(file.path)}`, name: file.name, table };
    return await load(source, (target) => insert(file, target));
  }

  /**
   * Loads one source, unless it is already loaded. Opening the folder has removed the rest of any interrupted load.
   * @param insert inserts the rows
   * @param replaces selects the sources that this one replaces; they are removed first
   * @returns whether the source was loaded now
   */
  async function load(
    source: Pick<Source, 'id' | 'name' | 'table'>,
    insert: (target: LoadTarget) => Promise<void>,
    replaces: (other: Source) => boolean = () => false,
  ): Promise<boolean> {
    const { id, table } = source;
    if (listSources().some((other) => other.id === id)) return false;
    const replaced = listSources().filter(replaces);
    const quoted = `${WRITER_DATABASE}.${table}`;
    pending = pending.filter((other) => !replaced.includes(other));
    await keep(catalog.sources.filter((other) => !replaced.includes(other)));
    for (const gone of replaced) await drop(gone.table, gone.id);
    await insert({
      engine: writer,
      insertSql: (select) => `INSERT INTO ${quoted} SELECT *, ${quoteString(id)} FROM (${select})`,
    });
    const time = table === 'trades' ? 'time' : "''";
    const inserted = await writer.rows<Source['dates'][number] & { readonly rows: number }>(
      `SELECT date, min(${time}) AS first_time, max(${time}) AS last_time, count() AS rows FROM ${quoted}
       WHERE ${SOURCE_COLUMN} = ${quoteString(id)} GROUP BY date ORDER BY date`,
    );
    const rows = inserted.reduce((sum, date) => sum + date.rows, 0);
    const dates = inserted.map(({ rows: _, ...date }) => date);
    pending = [...pending, { ...source, rows, dates }];
    return true;
  }

  /**
   * Reads the data from another process and then adds the new sources to the catalog. Without this check, a full disk
   * can lose a load silently; this has happened.
   * @param reader an engine that has mounted the data
   * @throws Fault `DATA_DIR_INVALID` when rows are missing
   */
  async function confirm(reader: StatementRunner): Promise<void> {
    for (const { name } of STORED_TABLES) {
      const present = await reader.rows<{ id: string; rows: number }>(
        `SELECT ${SOURCE_COLUMN} AS id, count() AS rows FROM ${tables[name]} GROUP BY id`,
      );
      const rows = new Map(present.map((source) => [source.id, source.rows]));
      for (const source of listSources().filter(({ table }) => table === name)) {
        const read = rows.get(source.id) ?? 0;
        if (read !== source.rows) throw incomplete(source, `${read} can be read`);
      }
    }
    for (const source of pending) {
      const where = `${SOURCE_COLUMN} = ${quoteString(source.id)}`;
      await reader
        .rows(`SELECT sum(cityHash64(*)) AS hash FROM ${tables[source.table]} WHERE ${where}`)
        .catch((cause: unknown) => {
          throw incomplete(source, describeError(cause));
        });
    }
    await keep(listSources());
    pending = [];
  }

  function listSources(): readonly Source[] {
    return [...catalog.sources, ...pending];
  }

  /** Before each task: tables, views, and the bounds of the views at the service's present time. */
  async function prepare(engine: PooledEngine): Promise<void> {
    const offsetMs = Math.round(clock.now() - systemClock.now());
    const known = offsets.get(engine.state);
    if (known !== undefined && Math.abs(known - offsetMs) <= CLOCK_TOLERANCE_MS) return;
    if (known === undefined) await mount(engine);
    for (const statement of listViews(offsetMs)) await engine.command(statement);
    offsets.set(engine.state, offsetMs);
  }

  /** The database remembers nothing: the tables are those of the folder as it lies now, wherever it was before. */
  async function attach(): Promise<void> {
    await writer.command(`CREATE DATABASE IF NOT EXISTS ${WRITER_DATABASE} ENGINE = Memory`);
    for (const table of STORED_TABLES) {
      const name = `${WRITER_DATABASE}.${table.name} UUID ${quoteString(randomUUID())}`;
      await writer.command(`ATTACH TABLE ${name} ${definitionSql(table, false)}`);
    }
    // Rows whose source is not in the catalog were left by an interrupted load or replacement.
    const known = new Set(catalog.sources.map(({ id }) => id));
    for (const { name } of STORED_TABLES) {
      const found = await writer.rows<{ source: string }>(
        `SELECT DISTINCT partition AS source FROM system.parts
         WHERE database = '${WRITER_DATABASE}' AND table = ${quoteString(name)} AND active`,
      );
      for (const { source } of found) if (!known.has(source)) await drop(name, source);
    }
  }

  async function mount(engine: PooledEngine): Promise<void> {
    await engine.command(`CREATE DATABASE ${hidden} ENGINE = Atomic`);
    for (const table of STORED_TABLES) {
      await engine.command(`CREATE TABLE ${tables[table.name]} ${definitionSql(table, true)}`);
    }
    const columns = 'date String, first_time String, last_time String';
    await engine.command(`CREATE TABLE ${tables.dates} (${columns}) ENGINE = Memory`);
    const values = listSources()
      .filter((source) => source.table === 'trades')
      .flatMap(({ dates }) => dates)
      .map(({ date, first_time, last_time }) => `(${[date, first_time, last_time].map(quoteString).join(', ')})`);
    if (values.length > 0) {
      await engine.command(
        `INSERT INTO ${tables.dates} SELECT date, min(first_time), max(last_time)
         FROM values('${columns}', ${values.join(', ')}) GROUP BY date`,
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
  function listViews(offsetMs: number): readonly string[] {
    const columns = TRADE_COLUMNS.map((column) => quoteIdentifier(column.name)).join(', ');
    const newest = boundSql(offsetMs, `toIntervalMinute(${MINIMUM_DATA_DELAY_MINUTES})`);
    const oldest = boundSql(offsetMs, `toIntervalDay(${LOOKBACK_DAYS})`);
    const latest = (value: string) => `(SELECT max(${value}) FROM ${tables.dates} WHERE first_time <= ${newest})`;
    return [
      `CREATE OR REPLACE VIEW ${ALL_TRADES} AS SELECT ${columns} FROM ${tables.trades}
       WHERE time <= ${newest} AND time >= ${oldest} AND date >= ${quoteString(earliest)}`,
      // The date filter decides; the time filter only lets the primary key skip other dates.
      `CREATE OR REPLACE VIEW ${LATEST_TRADES} AS SELECT ${columns} FROM ${ALL_TRADES}
       WHERE date = ${latest('date')} AND time >= ${latest('first_time')}`,
    ];
  }

  async function drop(table: Source['table'], source: string): Promise<void> {
    await writer.command(`ALTER TABLE ${WRITER_DATABASE}.${table} DROP PARTITION ${quoteString(source)}`);
  }

  async function keep(sources: readonly Source[]): Promise<void> {
    catalog.sources = [...sources];
    await writeCatalog(path, catalog);
  }

  function definitionSql(table: StoredTable, readonly: boolean): string {
    const columns = table.columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
    const disk = `disk(type = 'object_storage', object_storage_type = 'local', metadata_type = 'plain_rewritable',
      path = ${quoteString(`${join(path, table.name)}/`)}${readonly ? ', readonly = 1' : ''})`;
    return `(${columns.join(', ')}, ${SOURCE_COLUMN} String)
      ENGINE = MergeTree PARTITION BY ${SOURCE_COLUMN} ORDER BY (${listSortColumns(table.name, catalog.order).join(', ')})
      SETTINGS index_granularity = ${catalog.granularity}, disk = ${disk}, table_disk = 1`;
  }

  function incomplete(source: Source, found: string): Fault {
    const message = `${path} should have ${source.rows} rows of ${source.name}, and ${found}`;
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
async function openCatalog(folder: string, { order, scanLimit }: ServiceOptions): Promise<Catalog> {
  const path = join(folder, CATALOG_FILE);
  const text = await readFileIfExists(path);
  if (text !== undefined) {
    const { data: kept, error } = catalogSchema.safeParse(tryParseJson(text));
    if (kept === undefined) throw invalidFolder(`${path} is not a catalog of version 1: ${describeError(error)}`);
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

async function writeCatalog(folder: string, catalog: Catalog): Promise<void> {
  await writeWholeFile(join(folder, CATALOG_FILE), `${JSON.stringify(catalog, null, 2)}\n`);
}

function invalidFolder(message: string, hint = 'Choose another --data-dir, or remove this one and load again.'): Fault {
  return new Fault('DATA_DIR_INVALID', message, { kind: 'usage', hint });
}
