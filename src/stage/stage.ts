/**
 * The stage: the local, crash-safe tables in which the pages of one date wait, and their quarantine. Invariant: a page is
 * staged whole or not at all, and only once: the window's text is a column of every row, so one write stores both. Rows
 * keep their original values, text as text; `seal/` converts the types. Which windows there are, the exports decide.
 */

import { randomUUID } from 'node:crypto';
import { type Axis, formatWindow, parseWindow, type Window } from '../calendar/window.ts';
import { Fault } from '../core/errors.ts';
import type { JsonRows } from '../core/json-bytes.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { Job } from '../job/job.ts';
import { keyOf } from '../plan/axis.ts';
import type { CountTotals, DayCounts } from '../plan/counts.ts';
import type { RepairPlan } from '../plan/pack.ts';
import { asCells, type CountOptions, cellKey, countRepeats, countReplaced, countStaged, countTotals } from './count.ts';
import { clearSpool, createIntake, findSpool, isAboutData, ONE_PART, PARSE_SETTINGS, withSpooled } from './intake.ts';
import {
  assertColumns,
  describeBadRow,
  type ExtraField,
  isPlainPage,
  listExtraFields,
  OddPage,
  type OddRows,
  refusePage,
} from './odd-page.ts';
import { countAllowed, QuarantineTable, quarantineName, type StagedPages, tooManyBadRows } from './quarantine.ts';
import { CarriedRows, type DropRows, isIn, keepGoneRows, readPlacedRows, SEALED_READ_SETTINGS } from './sealed-rows.ts';
import {
  createTableSql,
  discardStages,
  insertPages,
  type StagedTable,
  stageTableName,
  WINDOW_COLUMN,
} from './stage-table.ts';

/** Maximum fields outside the contract in one answer; with more it is treated as garbage. */
const MAX_EXTRA_FIELDS = 64;

/**
 * Opens the stage of a date and creates its table if it is missing. Stages of the same date from another query, other
 * columns or another source are dropped: they cannot be part of this drop.
 * @param origin address of the source @param options `rows`: known rows of the date: if too many of them are bad, no further
 *   page is requested; `isEmpty`: what is staged of the date is dropped, too
 */
export async function openStage(
  engine: Engine,
  job: Job,
  date: string,
  origin: string,
  { rows, isEmpty = false }: { readonly rows?: number; readonly isEmpty?: boolean } = {},
): Promise<Stage> {
  const name = stageTableName(job, date, origin);
  const found = await discardStages(engine, date, isEmpty ? [] : [name, quarantineName(name)]);
  await engine.command(createTableSql(name, job));
  const stage = new Stage(engine, job, date, name, rows, isEmpty || !found.includes(name));
  await stage.open();
  return stage;
}

export class Stage implements StagedTable {
  readonly engine: Engine;
  readonly job: Job;
  readonly date: string;
  readonly spool: string;
  readonly table: string;
  readonly #name: string;
  readonly #takeIn: ReturnType<typeof createIntake>;
  readonly #quarantine: QuarantineTable;
  readonly #maxBad: number;
  /** Windows that are staged or being loaded; `undefined` if the table must be queried. */
  #staged: Promise<Map<string, Promise<void>>> | undefined;
  /** `undefined` after every change of the rows. */
  #pages: Promise<StagedPages> | undefined;
  /** `undefined` after every change of the rows. */
  #totals: Promise<CountTotals> | undefined;
  #carried = new CarriedRows();
  /** Columns of the table beyond the job's, whether a row has a value there or not. */
  #extraColumns: Promise<readonly { readonly name: string }[]> | undefined;

  constructor(engine: Engine, job: Job, date: string, name: string, rows: number | undefined, isNew: boolean) {
    this.engine = engine;
    this.job = job;
    this.date = date;
    this.spool = findSpool(engine, name);
    this.table = quoteIdentifier(name);
    this.#name = name;
    this.#takeIn = createIntake(engine, this.spool, async (path, window) =>
      insertPages(this.table, this, await this.#readExtraColumns(), path, window),
    );
    this.#quarantine = new QuarantineTable(this, name);
    this.#maxBad = rows === undefined ? Number.POSITIVE_INFINITY : countAllowed(job.rows, rows);
    if (isNew) [this.#pages, this.#extraColumns] = [Promise.resolve([]), Promise.resolve([])];
  }

  /**
   * Stages the page of a window, or of a named part; its rows are on disk when this returns. Idempotent per window.
   * @throws Fault `PAGE_REFUSED` if it is not a page of this job, or has a bad row and the job accepts none; `BAD_ROWS`
   * if too many are bad
   */
  async put(window: Window | string, page: JsonRows): Promise<void> {
    if (page.rows === 0) return;
    const name = typeof window === 'string' ? window : formatWindow(window);
    // A promise, so that the first concurrent pages share one answer.
    this.#staged ??= this.pages().then(
      (pages) => new Map(pages.map(({ window: known }) => [known, Promise.resolve()])),
    );
    const staged = await this.#staged.catch((error: unknown) => {
      this.#staged = undefined;
      throw error;
    });
    const putting = staged.get(name) ?? this.#load(name, page);
    staged.set(name, putting);
    try {
      await putting;
    } catch (error) {
      staged.delete(name);
      throw error;
    } finally {
      this.#noteRows();
    }
  }

  async #load(name: string, page: JsonRows): Promise<void> {
    let cause: unknown;
    try {
      if (isPlainPage(this.job, page)) {
        await this.#addFields(name, page, Object.keys(page.firstRow ?? {}));
        return await this.#takeIn(name, page.data);
      }
    } catch (error) {
      if (error instanceof SyntaxError) throw refusePage(this.date, name, page, error);
      if (!isAboutData(error)) throw error;
      cause = error;
    }
    try {
      await withSpooled(this.spool, page.data, (path) => this.#loadOdd(name, page, path));
    } catch (error) {
      throw isAboutData(error) ? refusePage(this.date, name, page, cause ?? error) : error;
    }
  }

  /** The slow path: good rows are staged, bad rows go to quarantine first. */
  async #loadOdd(name: string, page: JsonRows, path: string): Promise<void> {
    const { counted, table } = this.#quarantine;
    const odd = new OddPage(this, name, `odd_${randomUUID()}`);
    const firstFields = Object.keys(page.firstRow ?? {});
    try {
      await this.engine.command(`${odd.load(path, firstFields)} SETTINGS ${PARSE_SETTINGS}`);
      await this.engine.command(odd.create());
      await this.engine.command(`${odd.judge(counted)} SETTINGS ${PARSE_SETTINGS}`);
      const [found] = await this.engine.rows<OddRows>(odd.describe());
      const { rows = 0, refused: bad = 0, noted = 0, first = ['', '', ''] } = found ?? {};
      if (rows !== page.rows)
        throw refusePage(this.date, name, page, new RangeError(`${rows} of its rows are objects`));
      const names = [...new Set([...(found?.odd === rows ? [] : firstFields), ...(found?.fields ?? [])])];
      if (names.length > 0) assertColumns(this.job, this.date, name, names);
      if (bad > 0) await this.#assertTaken(name, bad, rows, describeBadRow(...first));
      const fields = await this.#addFields(name, page, names);
      if (noted > 0) await this.engine.command(`${odd.record(table, counted, rows - bad)} SETTINGS ${ONE_PART}`);
      if (bad === rows) return;
      try {
        await this.engine.command(`${odd.insert(fields)} SETTINGS ${PARSE_SETTINGS}, ${ONE_PART}`);
      } catch (error) {
        // If this fails too, the entries are dropped when the stage is opened again.
        await this.#quarantine.drop([name]);
        throw error;
      }
    } finally {
      for (const table of [odd.rows, odd.odd]) await this.engine.command(`DROP TABLE IF EXISTS ${table}`);
    }
  }

  /** @throws Fault `PAGE_REFUSED` if the job accepts no bad rows, `BAD_ROWS` if there are too many */
  async #assertTaken(name: string, bad: number, rows: number, example: string): Promise<void> {
    if (this.job.rows.onBad === 'fail') {
      const others = bad > 1 ? `, and ${bad - 1} more of its rows are bad` : '';
      throw new Fault('PAGE_REFUSED', `${this.date} ${name}: ${example}${others}`, {
        hint: 'This page was not kept, because the job has `rows.on_bad: fail`. With `quarantine` the other rows are sealed.',
      });
    }
    if (this.#maxBad === Number.POSITIVE_INFINITY) return;
    const found = (await this.#quarantine.countRows()) + bad;
    if (found <= this.#maxBad) return;
    const isAll = bad === rows && (await this.totals()).rows === 0;
    throw tooManyBadRows(this.job, this.date, {
      found,
      allowed: this.#maxBad,
      examples: [`${name}: ${example}`],
      isAll,
    });
  }

  /** The fields of a page that are outside the contract, once they are columns. @throws Fault `PAGE_REFUSED` */
  async #addFields(window: string, page: JsonRows, names: readonly string[]): Promise<readonly ExtraField[]> {
    const fields = listExtraFields(this.job, names);
    if (fields.length > MAX_EXTRA_FIELDS) {
      throw refusePage(this.date, window, page, new RangeError(`${fields.length} fields are not in the contract`));
    }
    await this.#addColumns(fields.map(({ column }) => column));
    return fields;
  }

  async #addColumns(names: readonly string[]): Promise<void> {
    const known = new Set(await this.#readExtraColumns());
    for (const column of names) {
      if (known.has(column)) continue;
      await this.engine.command(`ALTER TABLE ${this.table} ADD COLUMN IF NOT EXISTS ${quoteIdentifier(column)} String`);
      this.#extraColumns = undefined;
    }
  }

  async windows() {
    return (await this.pages()).map(({ window, rows }) => ({ window: parseWindow(this.date, window), rows }));
  }

  /** The same, by the text that names each window; counted once, until rows change. */
  async pages(): Promise<StagedPages> {
    this.#pages ??= this.#quarantine.countPages().catch((error: unknown) => {
      this.#pages = undefined;
      throw error;
    });
    return await this.#pages;
  }

  /**
   * Staged rows and those in quarantine, as the source counts them, by second of the day (groups by grain for aggregating
   * jobs), or by symbol. Hashes and marks that the source would compute otherwise are left out.
   */
  async count(axis: Axis, options: Pick<CountOptions, 'symbol' | 'hashed'> = {}): Promise<DayCounts> {
    const { key, table, odd, unmarked } = await this.#cells(axis, options.hashed ?? []);
    const counts = await countStaged(this.engine, this.job, await table(), key, options);
    const compared = [...counts].map(([k, count]) => {
      const mark = unmarked.has(k) ? '' : count.mark;
      return [k, { ...count, mark, valueHash: odd.has(k) ? undefined : count.valueHash }] as const;
    });
    const cells = asCells(axis, new Map(compared), options.symbol);
    return cells.map((cell) => this.#carried.cells.get(keyOf(cell)) ?? cell);
  }

  /**
   * Sums of hashes of the staged rows by second or by symbol, in a fraction of the time of the counts above.
   * @returns `undefined` if rows are odd, so that the hash of their values says nothing
   */
  async hashCells(axis: Axis, hashed: readonly HashedColumn[]) {
    const { key, table, odd, unmarked } = await this.#cells(axis, hashed);
    if (odd.size + unmarked.size > 0) return undefined;
    return await countStaged(this.engine, this.job, await table(), key, { hashed, passIds: 0 });
  }

  async #cells(axis: Axis, hashed: readonly HashedColumn[]) {
    const key = cellKey(this.job, this.date, axis);
    const names = hashed.map(({ name }) => name);
    const table = () => this.#quarantine.countedRows(names);
    // The source hashes its own values; for quarantined rows and nulls, these differ from ours.
    return { key, table, ...(await this.#quarantine.oddCells<number | string>(key, names)) };
  }

  /** Rows and distinct ids; counted once, until rows change. */
  async totals(): Promise<CountTotals> {
    this.#totals ??= countTotals(this).catch((error: unknown) => {
      this.#totals = undefined;
      throw error;
    });
    return await this.#totals;
  }

  /** Staged rows whose time is before another, `YYYY-MM-DD HH:MM:SS`. */
  async countBefore(time: string): Promise<number> {
    const where = `time < ${quoteString(time)}`;
    const [found] = await this.engine.rows<{ n: number }>(`SELECT count() AS n FROM ${this.table} WHERE ${where}`);
    return Number(found?.n);
  }

  /** The quarantined rows and the rewritten values. `totals` includes neither; the counts include quarantined rows. */
  async quarantine() {
    return await this.#quarantine.describe();
  }

  async writeQuarantine(path: string): Promise<void> {
    await this.#quarantine.write(path);
  }

  /** Rows beyond one per version of a trade, which the source sent twice; or per id, symbol, time and contract (`key`). */
  async countRepeats(one: 'version' | 'key') {
    return await countRepeats(this, one);
  }

  /** Rows beyond one per trade, newer versions included: no drop contains them. */
  async countReplaced() {
    return await countReplaced(this);
  }

  /** Fields beyond the job's columns in which a staged row has a value: one that only a refused page had is none. */
  async extraFields(): Promise<readonly string[]> {
    const names = await this.#readExtraColumns();
    if (names.length === 0) return [];
    const filled = names.map((name) => `max(${quoteIdentifier(name)} != '')`);
    const sql = `SELECT [${filled.join(', ')}] AS filled FROM ${this.table}`;
    const [found] = await this.engine.rows<{ filled: readonly number[] }>(sql);
    return names.filter((_, index) => Number(found?.filled[index] ?? 0) === 1);
  }

  async #readExtraColumns(): Promise<readonly string[]> {
    this.#extraColumns ??= this.engine.rows<{ name: string }>(
      `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = ${quoteString(this.#name)} ORDER BY position`,
    );
    const known = [...this.job.source.columns.map((column) => column.name), WINDOW_COLUMN];
    return (await this.#extraColumns).map(({ name }) => name).filter((name) => !known.includes(name));
  }

  /**
   * Stages the rows of a sealed drop in the stretches that a plan keeps, each stretch as a window. Call it on an empty stage.
   * @param carried counts of the source that stand for these rows: a drop lacks the rows that newer versions replaced
   */
  async fill(drop: DropRows, plan: RepairPlan, carried: DayCounts): Promise<void> {
    if (plan.kept.length === 0) return;
    const rows = readPlacedRows(this.job, this.date, drop, plan);
    await this.#insertSealed(drop, `SELECT * FROM ${rows} WHERE ${isIn(plan.kept)}`);
    this.#carried = new CarriedRows(plan, carried);
  }

  /** Counts of the source that stand for rows of a sealed drop. */
  carried(): DayCounts {
    return [...this.#carried.cells.values()];
  }

  /**
   * Stages the rows of a sealed drop, beside those that the stage has from it, whose id no staged row has: the source no longer has
   * them. Rows without an id are left out, and those whose trade a new row has under another id. Call it once.
   * @param elsewhere a table of ids that are now of another date: they are left out @returns how many
   */
  async keepGone(drop: DropRows, elsewhere?: string): Promise<number> {
    return await keepGoneRows(this, drop, this.#carried.plan, elsewhere, (select) => this.#insertSealed(drop, select));
  }

  async #insertSealed({ extraFields }: DropRows, select: string): Promise<void> {
    await this.#addColumns(extraFields);
    const names = [...this.job.source.columns.map(({ name }) => name), ...extraFields, WINDOW_COLUMN];
    const list = names.map(quoteIdentifier).join(', ');
    await this.engine.command(`INSERT INTO ${this.table} (${list}) ${select} SETTINGS ${SEALED_READ_SETTINGS}`);
    this.#noteChange();
  }

  /** Drops the pages of these windows, so that they can be requested again. */
  async forget(windows: readonly (Window | string)[]): Promise<void> {
    const forgotten = windows.map((window) => (typeof window === 'string' ? window : formatWindow(window)));
    if (forgotten.length === 0) return;
    const names = forgotten.map(quoteString).join(', ');
    const fresh = quoteIdentifier(`${this.#name}_fresh`);
    await this.engine.command(`DROP TABLE IF EXISTS ${fresh} SYNC`);
    await this.engine.command(`CREATE TABLE ${fresh} AS ${this.table}`);
    await this.engine.command(
      `INSERT INTO ${fresh} SELECT * FROM ${this.table} WHERE ${WINDOW_COLUMN} NOT IN (${names})`,
    );
    await this.engine.command(`EXCHANGE TABLES ${fresh} AND ${this.table}`);
    await this.engine.command(`DROP TABLE ${fresh} SYNC`);
    this.#carried.forget(this.date, forgotten);
    // After the rows: quarantine entries without a staged page are dropped at the next opening at the latest.
    await this.#quarantine.drop(forgotten);
    this.#noteChange();
  }

  /** Drops the pages that have rows in quarantine: they may have changed when requested again. */
  async forgetBad(): Promise<void> {
    await this.forget(await this.#quarantine.windows());
  }

  async discard(): Promise<void> {
    await discardStages(this.engine, this.date);
    this.#noteChange();
    await clearSpool(this.engine, this.#name);
  }

  #noteChange(): void {
    this.#staged = undefined;
    this.#noteRows();
  }

  #noteRows(): void {
    this.#pages = undefined;
    this.#totals = undefined;
  }

  /** Drops pages that a killed process was about to load: they will be requested again. */
  async open(): Promise<void> {
    await clearSpool(this.engine, this.#name);
    await this.#quarantine.open();
  }
}
