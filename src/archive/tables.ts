/**
 * The tables of the archive: under which names statements read datasets, and what one statement sees of each. Invariants: a
 * table shows whole, sealed dates of one listing of one dataset, however long the statement takes. The date comes from the
 * file's path, so that conditions on it select files. The API's tables are those of the only dataset of single trades, unless
 * one was chosen.
 */
import { type Families, writeFamily } from '../api-contract/family.ts';
import { TABLES } from '../api-contract/published-limits.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import { Fault, isFault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { fileKey } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { buildCancelledQuery, buildCountedCondition, buildReportHours, COUNTED_COLUMNS } from '../report/records.ts';
import type { Store } from '../store/store.ts';
import { type AnswerTypes, type ArchiveColumn, holdsTrades, listColumns, PATH_DATE } from './archive-column.ts';
import { patternOf, type StoreFiles } from './drop-files.ts';
import { describeBounds, describeNumbers, mayTouch, type TableRead, unite } from './reads.ts';
import type { SealedSet } from './sealed.ts';

export interface ArchiveTable {
  readonly name: string;
  /** `undefined`: of the API's tables, if no dataset was chosen; see `Archive`. */
  readonly dataset: string | undefined;
  /** All sealed dates, the newest one, the records of all that the mail counts, or the summaries of all. */
  readonly rows: 'all' | 'newest' | 'counted' | 'summary';
}

/**
 * Every name that a statement may read: each dataset, once more with `_` for `-` and `.`, so that it needs no quotes; its
 * records that count and its summaries; and the API's tables. A name that means two datasets is left out, as is a name with a dot, which would
 * be a table of another database.
 * @param trades dataset behind the API's tables, if it was chosen
 */
export function listTables(datasets: readonly string[], trades: string | undefined): readonly ArchiveTable[] {
  const tables = new Map<string, ArchiveTable>();
  const add = (table: ArchiveTable) => {
    if (!tables.has(table.name) && !table.name.includes('.')) tables.set(table.name, table);
  };
  for (const dataset of datasets) add({ name: dataset, dataset, rows: 'all' });
  const plain = datasets.map((dataset) => ({ dataset, name: plainName(dataset) }));
  const unique = plain.filter(({ name }) => plain.filter((other) => other.name === name).length === 1);
  for (const { dataset, name } of unique) add({ name, dataset, rows: 'all' });
  for (const rows of ['counted', 'summary'] as const) {
    for (const { dataset, name } of unique) add({ name: `${name}_${rows}`, dataset, rows });
  }
  const [all, newest] = TABLES;
  // The API's names are its own, whatever a dataset is called.
  tables.set(all, { name: all, dataset: trades, rows: 'all' });
  tables.set(newest, { name: newest, dataset: trades, rows: 'newest' });
  return [...tables.values()];
}

/** A dataset as a name that needs no quotes. */
export function plainName(dataset: string): string {
  return dataset.replaceAll(/[-.]/g, '_');
}

export interface TableOptions {
  readonly store: Store;
  /** Datasets of the store that statements may read by their names. */
  readonly datasets: readonly string[];
  readonly types: AnswerTypes;
  /** Of the column `family`; absent: tables have none. */
  readonly families?: Families | undefined;
  /** Calendar overrides; absent: none. */
  readonly calendar?: CalendarOverride | undefined;
}

interface OpenTablesContext extends TableOptions {
  /** Reads the columns of summaries, from `files`; absent: no one asks for them. */
  readonly engine?: Pick<Engine, 'rows'> | undefined;
  readonly files: Pick<StoreFiles, 'root' | 'tableSql' | 'isExact'>;
  /** The sealed dates of a dataset, the same each time. @throws StoreFault */
  openSealed(dataset: string): Promise<SealedSet>;
}

type TableContext = Pick<OpenTablesContext, 'files' | 'types' | 'families' | 'calendar'>;

/**
 * @throws Fault `ARCHIVE_EMPTY`, `NO_TRADES`, `NO_SUMMARY`, `REPORT_COLUMNS_MISSING`, `DATASET_UNCLEAR` (usage),
 *   StoreFault, EngineFault
 */
export async function openTables(
  tables: readonly ArchiveTable[],
  context: OpenTablesContext,
): Promise<readonly OpenTable[]> {
  const all: OpenTable[] = [];
  for (const table of tables) {
    const drops = table.dataset === undefined ? await findTrades(context) : await context.openSealed(table.dataset);
    const newest = await drops.readNewest();
    if (TABLES.some((name) => name === table.name)) assertTrades(newest, context.datasets);
    // Of a date without a column that decides, other dates can still be read.
    if (table.rows === 'counted' && !newest.some(holdsTrades)) assertCounted(newest);
    const summary = table.rows === 'summary' ? await readSummaryColumns(drops, newest, context) : undefined;
    all.push(new OpenTable(table, drops, newest, context, summary));
  }
  return all;
}

/** Beside `symbol`, for a statement that names it. */
export const FAMILY = 'family';

/** Beside what a statement names of a counted table: they decide which rows count. */
const DECIDING: readonly string[] = ['option_activity_type', 'time', 'symbol'];
/** The row's number in its file, which the engine need not read from the file. */
const PLACE = '_row_number';
const DATE_OF_PATH = "extract(_path, '/session=([0-9-]{10})/[^/]+$')";

/** Length of `YYYY-MM-DD HH:MM:SS`. */
const SECONDS = 19;

/** A table as one statement sees it. */
export class OpenTable {
  readonly name: string;
  readonly rows: ArchiveTable['rows'];
  readonly sealed: SealedSet;
  /** What the statement reads of it; until `narrow`, nothing. */
  reads: readonly TableRead[] = [];
  /** Of the sealed dates that can be in the answer, and of those whose rows can be: the others are not read. */
  manifests: readonly Manifest[] = [];
  touched: readonly Manifest[] = [];
  readonly #context: TableContext;
  readonly #summary: readonly ArchiveColumn[] | undefined;
  #described: readonly Manifest[];

  constructor(
    { name, rows }: ArchiveTable,
    sealed: SealedSet,
    newest: readonly Manifest[],
    context: TableContext,
    summary?: readonly ArchiveColumn[],
  ) {
    this.name = name;
    this.rows = rows;
    this.sealed = sealed;
    this.#context = context;
    this.#described = newest;
    this.#summary = summary;
  }

  /** Dates that the table can show, ascending. */
  get dates(): readonly string[] {
    return this.rows === 'newest' ? this.sealed.dates.slice(-1) : this.sealed.dates;
  }

  /** The columns of the newest date, and of those that can be in the answer. */
  columns(): readonly ArchiveColumn[] {
    const { families, types } = this.#context;
    const columns = this.#summary ?? listColumns(sortByDate([...this.manifests, ...this.#described]), types);
    const at = columns.findIndex(({ name }) => name === 'symbol');
    const type = columns[at]?.type;
    if (families === undefined || type === undefined || columns.some(({ name }) => name === FAMILY)) return columns;
    const family = { name: FAMILY, readAs: undefined, value: writeFamily(families), type };
    return columns.toSpliced(at + 1, 0, family);
  }

  /** Adds the columns of all dates; an archive that has lost them keeps the columns of its last one. */
  async describeAll(): Promise<void> {
    if (this.dates.length > 0) this.#described = await this.sealed.readManifests(this.dates);
  }

  /**
   * Keeps the dates that the reads of the statement can touch.
   * @throws Fault `DROP_DAMAGED`, `MANIFEST_INVALID`, `REPORT_COLUMNS_MISSING` (usage), StoreFault
   */
  async narrow(reads: readonly TableRead[]): Promise<void> {
    const own = reads.filter(({ table }) => table === this.name);
    const dates = this.dates.filter((date) => own.some((read) => read.mayTouch(date)));
    this.reads = own;
    this.manifests = await this.sealed.readManifests(dates);
    this.touched = this.manifests.filter(({ date, min_time, max_time }) => {
      const [first, last] = [min_time?.slice(0, SECONDS), max_time?.slice(0, SECONDS)];
      return own.some((read) => mayTouch(read, date, first, last));
    });
    if (this.rows === 'counted') assertCounted(this.touched);
  }

  /** The only files that it shows. @throws Fault `DROP_DAMAGED` */
  listFiles() {
    return this.touched.flatMap((manifest) => {
      const file = this.#summary === undefined ? manifest.files[0] : this.sealed.summaryOf(manifest);
      const { dataset, date } = manifest;
      return file === undefined ? [] : [{ date, key: fileKey(dataset, date, file.filename), file }];
    });
  }

  /** The columns that the statement can name, and one that is read: a file without columns has no rows. */
  shownColumns(isNamed: (column: string) => boolean): readonly ArchiveColumn[] {
    const hasFamily = isNamed(FAMILY);
    const columns = this.columns().filter(({ name, readAs }) => hasFamily || name !== FAMILY || readAs !== undefined);
    if (this.#summary !== undefined) return columns;
    // Both, because the engine leaves out of its tree what an answer does not need, and tokens have no meaning.
    const mayRead = (name: string) =>
      this.reads.some((read) => read.columns?.includes(name) !== false || isNamed(name)) ||
      (hasFamily && name === 'symbol') ||
      (this.rows === 'counted' && DECIDING.includes(name));
    const chosen = columns.filter(({ name }) => mayRead(name));
    if (chosen.some(({ readAs }) => readAs !== undefined)) return chosen;
    const small = columns.find(({ readAs }) => readAs !== undefined && /\bInt32\b/.test(readAs));
    const read = small ?? columns.find(({ readAs }) => readAs !== undefined);
    return read === undefined ? chosen : [...chosen, read];
  }

  /**
   * The rows that the statement sees, as a SELECT. The bounds that every read has anyway, as conditions on the files' times and
   * numbers, can prune. @param bound a condition of the only table's rows; see `top-rows.ts` @throws Fault `DROP_DAMAGED`
   */
  describeRows(isNamed: (column: string) => boolean, bound?: string): string {
    const columns = this.shownColumns(isNamed);
    const read = columns.filter(({ readAs }) => readAs !== undefined);
    const values = columns.map(({ name, value }) =>
      value === quoteIdentifier(name) ? value : `${value} AS ${quoteIdentifier(name)}`,
    );
    const structureOf = (some: readonly ArchiveColumn[]) =>
      some.map(({ name, readAs }) => `${quoteIdentifier(name)} ${readAs}`).join(', ');
    const keys = this.listFiles().map(({ key }) => key);
    if (keys.length === 0)
      return `SELECT ${values.join(', ')} FROM (SELECT *, '' AS ${PATH_DATE} FROM null(${quoteString(structureOf(read))}))`;
    const hasTime = read.some(({ name, readAs }) => name === 'time' && readAs?.includes('DateTime64'));
    const pattern = patternOf(this.sealed.dataset, this.#summary === undefined ? 'drops' : 'summaries');
    const { files } = this.#context;
    const from = (some: readonly ArchiveColumn[], isWhole = false) =>
      files.tableSql(keys, pattern, structureOf(some), isWhole);
    // The engine chooses files by it, and then looks the path up once a block: `has` compared texts in every row, and took
    // 24 times as long for a sum over 36 dates. Of the bare `_path`, S3 would ask for each object instead of listing them.
    const isShown = `toString(_path) IN (${keys.map((key) => quoteString(files.root + key)).join(', ')})`;
    const [only, ...others] = this.reads;
    const where = [
      isShown,
      ...(this.rows === 'counted' ? this.#describeCounted((some) => from(some, true), isShown) : []),
      ...(hasTime ? describeBounds(this.reads.map(({ time }) => time).reduce(unite)) : []),
      // The row of all symbols would double every sum.
      ...(this.#summary === undefined ? [] : ["symbol != '' AND segment = ''"]),
      // One view serves all reads of a table.
      ...(only !== undefined && others.length === 0 ? describeNumbers(only, columns) : []),
      ...(bound === undefined ? [] : [bound]),
    ];
    return `SELECT ${values.join(', ')} FROM (
    SELECT *, ${DATE_OF_PATH} AS ${PATH_DATE} FROM ${from(read)}
    WHERE ${where.join(' AND ')})`;
  }

  /** The conditions for the rows that the mail of their date counts, by the report's rule. */
  #describeCounted(from: (columns: readonly ArchiveColumn[]) => string, isShown: string) {
    const deciding = listColumns(this.touched, 'typed').filter(({ name }) => COUNTED_COLUMNS.includes(name));
    const where = this.#context.files.isExact ? '' : ` WHERE ${isShown}`;
    const whole = `(SELECT *, ${PLACE}, ${DATE_OF_PATH} AS ${PATH_DATE} FROM ${from(deciding)}${where})`;
    const cancelled = buildCancelledQuery(whole, [PATH_DATE, PLACE], PATH_DATE);
    /** Dates by the condition for their hours: most have the same. */
    const hours = new Map<string, readonly string[]>();
    for (const manifest of this.touched) {
      const own = buildReportHours(manifest, this.#context.calendar);
      const condition = own?.replaceAll(`DATE ${quoteString(manifest.date)}`, `toDate32(${PATH_DATE})`);
      if (condition) hours.set(condition, [...(hours.get(condition) ?? []), quoteString(manifest.date)]);
    }
    return [
      buildCountedCondition({ name: `(${PATH_DATE}, ${PLACE})`, list: cancelled }),
      ...Array.from(hours, ([condition, dates]) => `(${PATH_DATE} NOT IN (${dates.join(', ')}) OR ${condition})`),
    ];
  }
}

/** Each date once, ascending. */
export function sortByDate(manifests: readonly Manifest[]): readonly Manifest[] {
  const byDate = new Map(manifests.map((manifest) => [manifest.date, manifest]));
  return [...byDate.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
}

/** The only dataset of single trades. */
async function findTrades({ datasets, store, openSealed }: OpenTablesContext): Promise<SealedSet> {
  const found: SealedSet[] = [];
  for (const dataset of datasets) {
    const drops = await openSealed(dataset);
    const newest = await drops.readNewest().catch((error: unknown) => {
      // A job that has not run yet.
      if (isFault(error) && error.code === 'ARCHIVE_EMPTY') return [];
      throw error;
    });
    if (newest.some(holdsTrades)) found.push(drops);
  }
  const [only, ...others] = found;
  if (only !== undefined && others.length === 0) return only;
  const [what, hint] =
    only === undefined
      ? [
          "no dataset of single trades, so it does not have the API's tables",
          `Read a dataset by its name: ${datasets.join(', ') || 'none is sealed'}.`,
        ]
      : [
          `${found.length} datasets of single trades: ${found.map(({ dataset }) => dataset).join(', ')}`,
          'Read one by its name, as in FROM trades, or choose it with --dataset NAME.',
        ];
  throw new Fault('DATASET_UNCLEAR', `${store.url} has ${what}`, { kind: 'usage', hint });
}

/** Snapshots and aggregates have dates and manifests too, but contain no single trades. @throws Fault `NO_TRADES` (usage) */
function assertTrades(manifests: readonly Manifest[], datasets: readonly string[]): void {
  const other = manifests.find((manifest) => !holdsTrades(manifest))?.dataset;
  if (other === undefined) return;
  throw new Fault('NO_TRADES', `the drops of ${other} are not single trades, so they are not the API's tables`, {
    kind: 'usage',
    hint: datasets.includes(other)
      ? `Read them by their name: FROM ${plainName(other)}.`
      : 'Name a dataset of single trades. `flowdrop query` reads every dataset by its name.',
  });
}

/** @throws Fault `REPORT_COLUMNS_MISSING` (usage): without these columns no one can say what counts */
function assertCounted(manifests: readonly Manifest[]): void {
  for (const { dataset, date, schema } of manifests) {
    const missing = COUNTED_COLUMNS.find((name) => !schema.some((column) => column.name === name));
    if (missing === undefined) continue;
    const what = `${dataset} ${date} has no column ${missing}, which decides what counts`;
    const hint = `Leave the date out with a literal condition on date, or read all rows: FROM ${plainName(dataset)}.`;
    throw new Fault('REPORT_COLUMNS_MISSING', what, { kind: 'usage', hint });
  }
}

/** The columns of the newest summary; sums may be null there. */
async function readSummaryColumns(
  drops: SealedSet,
  newest: readonly Manifest[],
  { engine, files, types }: OpenTablesContext,
): Promise<readonly ArchiveColumn[]> {
  const [manifest] = newest;
  const summary = manifest && drops.summaryOf(manifest);
  if (manifest === undefined || summary === undefined) {
    throw new Fault('NO_SUMMARY', `the drops of ${drops.dataset} have no summaries`, {
      kind: 'usage',
      hint: `Only single trades have them. Read the drops: FROM ${plainName(drops.dataset)}.`,
    });
  }
  const key = fileKey(drops.dataset, manifest.date, summary.filename);
  const sql = `DESCRIBE TABLE ${files.tableSql([key], key)}`;
  const described = (await engine?.rows<{ readonly name: string; readonly type: string }>(sql)) ?? [];
  const date = listColumns([], types);
  const rest = described.map(({ name, type }): ArchiveColumn => {
    // A summary that lacks a column must not show 0.
    const readAs = name === 'symbol' ? 'String' : `Nullable(${type.replace(/^Nullable\((.*)\)$/, '$1')})`;
    return { name, readAs, value: quoteIdentifier(name), type: readAs };
  });
  return [...date, ...rest];
}
