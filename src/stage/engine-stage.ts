/** The stage as two tables of the engine: the rows of pages, and their quarantine. The contract is `stage.ts`. */
import { compareText, formatWindow, parseWindow, type Window } from '../calendar/window.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { Job } from '../job/job.ts';
import type { DayCounts } from '../plan/counts.ts';
import type { RepairPlan } from '../plan/moved-windows.ts';
import { type BadRow, type JudgedPage, judgePage } from './bad-row.ts';
import {
  type CountOptions,
  countByStrike,
  countCells,
  countRepeats,
  countReplaced,
  countTotals,
  hashCells,
  type StageTotals,
  secondKey,
} from './count.ts';
import { keepGoneRows } from './gone-rows.ts';
import { readHashedRows } from './hashed-rows.ts';
import { findSpool, Intake, type IntakeTarget, isAboutData } from './intake.ts';
import { listColumns, listFilledColumns, listStageTables } from './list.ts';
import { countAllowed, isQuarantineName, QuarantineTable, tooManyBadRows } from './quarantine.ts';
import { isIn, readPlacedRows, SEALED_READ_SETTINGS, type SealedFile } from './sealed-rows.ts';
import type { Stage, StageOptions } from './stage.ts';
import {
  createTableSql,
  type PageKind,
  readPage,
  stageTableName,
  stageTablePrefix,
  WINDOW_COLUMN,
} from './stage-table.ts';
import {
  assertColumns,
  describeBadRow,
  isPlainPage,
  readUnknownField,
  refusePage,
  refuseRow,
  type StagedPage,
} from './staged-page.ts';
import { findSharedContract, findTornGroup, listExampleIds, listRepeatedIds } from './window-conflicts.ts';

/** Maximum fields outside the contract in one answer; with more it is treated as garbage. */
const MAX_EXTRA_FIELDS = 64;

const DONE = Promise.resolve();

/**
 * Opens the stage of a date and creates its table if it is missing. Stages of the same date from another query, other
 * columns or another source are dropped: they cannot be part of this drop.
 * @param origin address of the source
 */
export async function openStage(
  engine: Engine,
  job: Job,
  date: string,
  origin: string,
  { rows, isEmpty = false }: StageOptions = {},
): Promise<Stage> {
  const name = stageTableName(job, date, origin);
  const kept = new Set<string>();
  for (const other of await listStageTables(engine, stageTablePrefix(date))) {
    if (!isEmpty && (other === name || isQuarantineName(other, name))) kept.add(other);
    else await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(other)} SYNC`);
  }
  await engine.command(createTableSql(name, job));
  const spool = await findSpool(engine, name);
  const stage = new EngineStage(engine, job, date, name, spool, rows, !kept.has(name));
  // Pages that a killed process was about to load: they will be requested again.
  await stage.clearTorn([...kept].some((other) => isQuarantineName(other, name)));
  return stage;
}

class EngineStage implements Stage {
  readonly date: string;
  readonly table: string;
  readonly #engine: Engine;
  readonly #job: Job;
  readonly #name: string;
  readonly #spool: string;
  readonly #intake: Intake;
  readonly #quarantine: QuarantineTable;
  readonly #maxBad: number;
  /** Windows that are staged or being loaded; `undefined` if the table must be queried. */
  #staged: Promise<Map<string, Promise<void>>> | undefined;
  /** `undefined` after every change of the rows. */
  #pages: ReturnType<Stage['pages']> | undefined;
  /** `undefined` after every change of the rows. */
  #totals: Promise<StageTotals> | undefined;
  /** Columns of the table beyond the job's, whether a row has a value there or not. */
  #extraColumns: Promise<readonly string[]> | undefined;

  constructor(
    engine: Engine,
    job: Job,
    date: string,
    name: string,
    spool: string,
    rows: number | undefined,
    isNew: boolean,
  ) {
    this.#engine = engine;
    this.#job = job;
    this.date = date;
    this.#name = name;
    this.table = quoteIdentifier(name);
    this.#spool = spool;
    this.#intake = new Intake(engine, spool, (kind) => this.#target(kind));
    this.#quarantine = new QuarantineTable(engine, job, name);
    this.#maxBad = rows === undefined ? Number.POSITIVE_INFINITY : countAllowed(job.rows, rows);
    if (isNew) [this.#pages, this.#extraColumns] = [Promise.resolve([]), Promise.resolve([])];
  }

  async put(window: Window | string, page: StagedPage): Promise<void> {
    if (page.rows === 0) return;
    const name = typeof window === 'string' ? window : formatWindow(window);
    // A promise, so that the first concurrent pages share one answer.
    this.#staged ??= this.#readStaged();
    const staged = await this.#staged;
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

  async #readStaged(): Promise<Map<string, Promise<void>>> {
    try {
      return new Map((await this.pages()).map(({ window }) => [window, DONE]));
    } catch (error) {
      this.#staged = undefined;
      throw error;
    }
  }

  async #load(name: string, page: StagedPage): Promise<void> {
    // From an earlier try that failed between the two tables.
    await this.#quarantine.clear(name);
    const error = await this.#loadPlain(name, page);
    if (error !== undefined) await this.#loadJudged(name, page, error.cause);
  }

  /** The fast path. @returns the reason why the page must take the slow path; `undefined` if it is staged */
  async #loadPlain(name: string, page: StagedPage): Promise<{ readonly cause: unknown } | undefined> {
    if (!isPlainPage(this.#job, page)) return { cause: undefined };
    for (let extra = 0; ; extra += 1) {
      try {
        await this.#intake.put(name, page.data, 'plain');
        return undefined;
      } catch (error) {
        if (!isAboutData(error)) throw error;
        const field = readUnknownField(error);
        if (field === undefined || extra >= MAX_EXTRA_FIELDS) return { cause: error };
        await this.#addFields([field]);
      }
    }
  }

  /** The slow path: good rows are staged, bad rows go to quarantine. @param cause the engine's error for the page */
  async #loadJudged(name: string, page: StagedPage, cause: unknown): Promise<void> {
    const judged = this.#judge(name, page, cause);
    const { good, bad, fields } = judged;
    if (fields.length > 0) assertColumns(this.#job, this.date, name, fields);
    const columns = new Set(this.#job.source.columns.map((column) => column.name));
    const extraFields = fields.filter((field) => !columns.has(field));
    if (extraFields.length > MAX_EXTRA_FIELDS) {
      throw refusePage(this.date, name, page, new RangeError(`${extraFields.length} fields are not in the contract`));
    }
    const [first] = bad;
    if (first !== undefined) await this.#assertTaken(name, first, judged);
    await this.#addFields(extraFields);
    try {
      await this.#quarantine.note(name, judged);
      if (good > 0) await this.#intake.put(name, judged.data, 'judged');
      this.#quarantine.settle(name);
    } catch (error) {
      throw isAboutData(error) ? refusePage(this.date, name, page, error) : error;
    }
  }

  #judge(name: string, page: StagedPage, cause: unknown): JudgedPage {
    try {
      return judgePage(page.data, { job: this.#job, date: this.date }, this.#quarantine.counted);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw refusePage(this.date, name, page, cause ?? error);
    }
  }

  /** @throws Fault `PAGE_REFUSED` if the job accepts no bad rows, `BAD_ROWS` if there are too many */
  async #assertTaken(name: string, first: BadRow, { bad: { length: count }, good }: JudgedPage): Promise<void> {
    if (this.#job.rows.onBad === 'fail') throw refuseRow(this.date, name, first, count);
    if (this.#maxBad === Number.POSITIVE_INFINITY) return;
    const before = await this.#quarantine.countRows();
    if (before + count > this.#maxBad) {
      throw tooManyBadRows(this.#job, this.date, {
        found: before + count,
        allowed: this.#maxBad,
        examples: [`${name}: ${describeBadRow(first)}`],
        isAll: good === 0 && (await this.totals()).rows === 0,
      });
    }
  }

  async #addFields(names: readonly string[]): Promise<void> {
    const known = new Set(await this.#readExtraColumns());
    for (const name of names) {
      if (known.has(name)) continue;
      await this.#engine.command(`ALTER TABLE ${this.table} ADD COLUMN IF NOT EXISTS ${quoteIdentifier(name)} String`);
      this.#extraColumns = undefined;
    }
  }

  async windows() {
    return (await this.pages()).map(({ window, rows }) => ({ window: parseWindow(this.date, window), rows }));
  }

  async pages() {
    this.#pages ??= this.#countPages().catch((error: unknown) => {
      this.#pages = undefined;
      throw error;
    });
    return await this.#pages;
  }

  async #countPages() {
    const found = await this.#engine.rows<{ name: string; n: number }>(
      `SELECT name, sum(n) AS n FROM (SELECT ${WINDOW_COLUMN} AS name, count() AS n FROM ${this.table} GROUP BY name${this.#quarantine.unionPages()}) GROUP BY name ORDER BY name`,
    );
    return found.map(({ name, n }) => ({ window: name, rows: Number(n) }));
  }

  async countBySecond({ symbol, hashed }: Pick<CountOptions, 'symbol' | 'hashed'> = {}): Promise<DayCounts> {
    const key = secondKey(this.#job, this.date);
    const counts = await countCells<number>(this.#engine, this.#job, this.#quarantine, key, { symbol, hashed });
    const of = symbol === undefined ? {} : { symbol };
    return [...counts].map(([second, count]) => ({ ...of, second, ...count })).sort((a, b) => a.second - b.second);
  }

  async countBySymbol({ hashed }: Pick<CountOptions, 'hashed'> = {}): Promise<DayCounts> {
    const counts = await countCells<string>(this.#engine, this.#job, this.#quarantine, 'symbol', { hashed });
    return [...counts]
      .map(([symbol, count]) => ({ symbol, second: 0, ...count }))
      .sort((a, b) => compareText(a.symbol, b.symbol));
  }

  async hashCells(axis: 'symbol' | 'time', hashed: readonly HashedColumn[]) {
    const key = axis === 'symbol' ? 'symbol' : secondKey(this.#job, this.date);
    return await hashCells(this.#engine, this.#job, this.#quarantine, key, hashed);
  }

  async readHashedRows(page: StagedPage, hashed: readonly HashedColumn[]) {
    return await readHashedRows(this.#engine, this.#job, this.#spool, page, hashed);
  }

  async totals(): Promise<StageTotals> {
    this.#totals ??= countTotals(this.#engine, this.#job, this.table).catch((error: unknown) => {
      this.#totals = undefined;
      throw error;
    });
    return await this.#totals;
  }

  async quarantine() {
    return await this.#quarantine.describe();
  }

  async writeQuarantine(path: string): Promise<void> {
    await this.#quarantine.write(path);
  }

  async tornGroup() {
    return await findTornGroup(this.#engine, this.#job, this.table);
  }

  async sharedContract() {
    return await findSharedContract(this.#engine, this.#job, this.table);
  }

  async strikes() {
    return await countByStrike(this.#engine, this.table);
  }

  async repeatedIds() {
    return await listRepeatedIds(this.#engine, this.#job, this.table);
  }

  async exampleIds() {
    return await listExampleIds(this.#engine, this.#job, this.table);
  }

  async countRepeats(one: 'version' | 'key') {
    return await countRepeats(this.#engine, this.#job, this.table, one);
  }

  async countReplaced() {
    return await countReplaced(this.#engine, this.#job, this.table);
  }

  async extraFields() {
    return await listFilledColumns(this.#engine, this.table, await this.#readExtraColumns());
  }

  async #readExtraColumns(): Promise<readonly string[]> {
    this.#extraColumns ??= listColumns(this.#engine, this.#name);
    const known = [...this.#job.source.columns.map((column) => column.name), WINDOW_COLUMN];
    return (await this.#extraColumns).filter((name) => !known.includes(name));
  }

  async fill(drop: SealedFile, plan: RepairPlan): Promise<void> {
    if (plan.kept.length === 0) return;
    const rows = readPlacedRows(this.#job, this.date, drop, plan);
    await this.#insertSealed(drop, `SELECT * FROM ${rows} WHERE ${isIn(plan.kept)}`);
  }

  async keepGone(drop: SealedFile, plan: RepairPlan, elsewhere?: string): Promise<number> {
    const rows = `${readPlacedRows(this.#job, this.date, drop, plan)} WHERE NOT ${isIn(plan.kept)}`;
    const staged = `${this.table} WHERE NOT ${isIn(plan.kept)}`;
    return await keepGoneRows(this.#engine, this.#job, { table: this.table, rows, staged, elsewhere }, (select) =>
      this.#insertSealed(drop, select),
    );
  }

  async #insertSealed({ extraFields }: SealedFile, select: string): Promise<void> {
    await this.#addFields(extraFields);
    const names = [...this.#job.source.columns.map(({ name }) => name), ...extraFields, WINDOW_COLUMN];
    const list = names.map(quoteIdentifier).join(', ');
    await this.#engine.command(`INSERT INTO ${this.table} (${list}) ${select} SETTINGS ${SEALED_READ_SETTINGS}`);
    this.#noteChange();
  }

  async forget(windows: readonly Window[]): Promise<void> {
    if (windows.length === 0) return;
    await this.#forget(windows.map(formatWindow));
  }

  async forgetBad(): Promise<void> {
    await this.#forget(await this.#quarantine.windows());
  }

  async #forget(windows: readonly string[]): Promise<void> {
    if (windows.length === 0) return;
    const names = windows.map(quoteString).join(', ');
    const fresh = quoteIdentifier(`${this.#name}_fresh`);
    await this.#engine.command(`DROP TABLE IF EXISTS ${fresh} SYNC`);
    await this.#engine.command(`CREATE TABLE ${fresh} AS ${this.table}`);
    await this.#engine.command(
      `INSERT INTO ${fresh} SELECT * FROM ${this.table} WHERE ${WINDOW_COLUMN} NOT IN (${names})`,
    );
    await this.#engine.command(`EXCHANGE TABLES ${fresh} AND ${this.table}`);
    await this.#engine.command(`DROP TABLE ${fresh} SYNC`);
    // After the rows: quarantine entries without a staged page are dropped at the next opening at the latest.
    await this.#quarantine.drop(windows);
    this.#noteChange();
  }

  async discard(): Promise<void> {
    await this.#engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(`${this.#name}_fresh`)} SYNC`);
    await this.#engine.command(`DROP TABLE IF EXISTS ${this.table} SYNC`);
    await this.#quarantine.discard();
    this.#noteChange();
    await this.#intake.clear();
  }

  #noteChange(): void {
    this.#staged = undefined;
    this.#noteRows();
  }

  #noteRows(): void {
    this.#pages = undefined;
    this.#totals = undefined;
  }

  /** @param hasQuarantine whether an earlier process put rows into quarantine */
  async clearTorn(hasQuarantine: boolean): Promise<void> {
    await this.#intake.clear();
    if (hasQuarantine) await this.#quarantine.open();
  }

  async #target(kind: PageKind): Promise<IntakeTarget> {
    const extraFields = await this.#readExtraColumns();
    const context = { job: this.#job, date: this.date };
    return {
      table: this.table,
      columns: [...this.#job.source.columns.map(({ name }) => name), ...extraFields],
      reading: readPage(kind, context, extraFields),
    };
  }
}
