/**
 * The tables that one statement names, opened: which dataset each reads, its sealed dates, its columns, its files.
 * Invariant: what a table shows is one listing of its dataset, however long the statement takes. The API's tables are
 * those of the only dataset of single trades, unless one was chosen.
 */
import { Fault, isFault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { Store } from '../store/store.ts';
import { type AnswerTypes, type ArchiveColumn, holdsTrades, listColumns } from './archive-column.ts';
import type { StoreFiles } from './drop-files.ts';
import type { ReadableTable } from './reads.ts';
import type { SealedSet } from './sealed.ts';
import type { ArchiveTable, View } from './sealed-tables.ts';

interface OpenTablesContext {
  readonly store: Store;
  readonly datasets: readonly string[];
  readonly types: AnswerTypes;
  /** Reads what the manifests do not say, from `files`. */
  readonly engine: Pick<Engine, 'rows'>;
  readonly files: StoreFiles;
  /** Lists the sealed dates of a dataset. @throws Fault `ARCHIVE_EMPTY`, StoreFault */
  openDrops(dataset: string): Promise<SealedSet>;
}

/** @throws Fault `ARCHIVE_EMPTY`, `NO_TRADES`, `NO_SUMMARY`, `DATASET_UNCLEAR` (usage), StoreFault, EngineFault */
export async function openTables(
  tables: readonly ArchiveTable[],
  context: OpenTablesContext,
): Promise<readonly OpenTable[]> {
  const opened = new Map<string, SealedSet>();
  const open = async (dataset: string) => {
    const drops = opened.get(dataset) ?? (await context.openDrops(dataset));
    opened.set(dataset, drops);
    return drops;
  };
  const all: OpenTable[] = [];
  for (const table of tables) {
    const drops = table.dataset === undefined ? await findTrades(context, open) : await open(table.dataset);
    const newest = await drops.readManifests(drops.dates.slice(-1));
    if (table.isApi) assertTrades(newest);
    const summary = table.rows === 'summary' ? await readSummaryColumns(drops, newest, context) : undefined;
    all.push(new OpenTable(table, drops, newest, summary, context));
  }
  return all;
}

export class OpenTable {
  readonly name: string;
  readonly rows: ArchiveTable['rows'];
  readonly drops: SealedSet;
  readonly #summary: readonly ArchiveColumn[] | undefined;
  readonly #context: Pick<OpenTablesContext, 'files' | 'types'>;
  #described: readonly Manifest[];

  constructor(
    { name, rows }: ArchiveTable,
    drops: SealedSet,
    newest: readonly Manifest[],
    summary: readonly ArchiveColumn[] | undefined,
    context: Pick<OpenTablesContext, 'files' | 'types'>,
  ) {
    this.name = name;
    this.rows = rows;
    this.drops = drops;
    this.#described = newest;
    this.#summary = summary;
    this.#context = context;
  }

  /** Dates that the table can show, ascending. */
  get dates(): readonly string[] {
    return this.rows === 'newest' ? this.drops.dates.slice(-1) : this.drops.dates;
  }

  /** The columns of the newest date, and of the dates of `manifests`. */
  columns(manifests: readonly Manifest[] = []): readonly ArchiveColumn[] {
    if (this.#summary !== undefined) return this.#summary;
    const byDate = new Map([...manifests, ...this.#described].map((manifest) => [manifest.date, manifest]));
    const ascending = [...byDate.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
    return listColumns(ascending, this.#context.types);
  }

  /** Adds the columns of all dates; an archive that has lost them keeps the columns of its last one. */
  async describeAll(): Promise<void> {
    if (this.dates.length === 0) return;
    this.#described = await this.drops.readManifests(this.dates);
  }

  /**
   * The view of the dates of `manifests`, with the files of those of `touched`.
   * @param isShown which of the columns it has @throws Fault `DROP_DAMAGED`
   */
  view(
    manifests: readonly Manifest[],
    touched: readonly Manifest[],
    isShown: (column: string) => boolean,
  ): Omit<View, 'time'> {
    const { dataset } = this.drops;
    const columns = this.columns(manifests);
    if (this.#summary === undefined) {
      const files = this.#context.files.of(dataset, 'drops');
      const shown = touched.map(({ date, files: [file] }) => ({ date, filename: file.filename }));
      return { name: this.name, files, columns: chooseColumns(columns, isShown), shown };
    }
    const files = this.#context.files.of(dataset, 'summaries');
    const shown = touched.flatMap((manifest) => {
      const summary = this.drops.summaryOf(manifest);
      return summary === undefined ? [] : [{ date: manifest.date, filename: summary.filename }];
    });
    // The row of all symbols would double every sum.
    return { name: this.name, files, columns, shown, conditions: ["symbol != ''"] };
  }
}

/** The columns that are shown, and one that is read: a file without columns has no rows. */
function chooseColumns(
  columns: readonly ArchiveColumn[],
  isShown: (column: string) => boolean,
): readonly ArchiveColumn[] {
  const chosen = columns.filter(({ name }) => isShown(name));
  if (chosen.some(({ readAs }) => readAs !== undefined)) return chosen;
  const small = columns.find(({ readAs }) => readAs !== undefined && /\bInt32\b/.test(readAs));
  const read = small ?? columns.find(({ readAs }) => readAs !== undefined);
  return read === undefined ? chosen : [...chosen, read];
}

/** What a statement may read of a table, to resolve it. */
export function describeReadable(table: OpenTable): ReadableTable {
  const columns = table.columns();
  const isDated = columns.some(({ name, readAs }) => name === 'date' && readAs === undefined);
  return { name: table.name, columns: columns.map(({ name }) => name), isDated };
}

/** The only dataset of single trades. */
async function findTrades(
  { datasets, store }: OpenTablesContext,
  open: (dataset: string) => Promise<SealedSet>,
): Promise<SealedSet> {
  const found: SealedSet[] = [];
  for (const dataset of datasets) {
    const drops = await open(dataset).catch((error: unknown) => {
      // A job that has not run yet.
      if (isFault(error) && error.code === 'ARCHIVE_EMPTY') return undefined;
      throw error;
    });
    const [newest] = (await drops?.readManifests(drops.dates.slice(-1))) ?? [];
    if (drops !== undefined && newest !== undefined && holdsTrades(newest)) found.push(drops);
  }
  const [only, ...others] = found;
  if (only !== undefined && others.length === 0) return only;
  const names = found.map(({ dataset }) => dataset).join(', ');
  throw new Fault(
    'DATASET_UNCLEAR',
    only === undefined
      ? `${store.url} has no dataset of single trades, so it does not have the API's tables`
      : `${store.url} has ${found.length} datasets of single trades: ${names}`,
    {
      kind: 'usage',
      hint:
        only === undefined
          ? `Read a dataset by its name: ${datasets.join(', ') || 'none is sealed'}.`
          : 'Read one by its name, as in FROM trades, or choose it with --dataset NAME.',
    },
  );
}

/** Snapshots and aggregates have dates and manifests too, but contain no single trades. */
function assertTrades(manifests: readonly Manifest[]): void {
  for (const manifest of manifests) {
    if (holdsTrades(manifest)) continue;
    throw new Fault(
      'NO_TRADES',
      `the drops of ${manifest.dataset} are not single trades, so they are not the API's tables`,
      {
        kind: 'usage',
        hint: `Read them by their name: FROM ${manifest.dataset.replaceAll(/[-.]/g, '_')}.`,
      },
    );
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
      hint: `Only single trades have them. Read the drops: FROM ${drops.dataset.replaceAll(/[-.]/g, '_')}.`,
    });
  }
  const of = { date: manifest.date, filename: summary.filename };
  const described = await engine.rows<{ readonly name: string; readonly type: string }>(
    `DESCRIBE TABLE ${files.of(drops.dataset, 'summaries').fileSql(of)}`,
  );
  const date = listColumns([], types);
  const rest = described.map(({ name, type }): ArchiveColumn => {
    // A summary that lacks a column must not show 0.
    const readAs = name === 'symbol' ? 'String' : `Nullable(${type.replace(/^Nullable\((.*)\)$/, '$1')})`;
    return { name, readAs, value: quoteIdentifier(name), type: readAs };
  });
  return [...date, ...rest];
}
