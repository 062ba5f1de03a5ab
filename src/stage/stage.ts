/**
 * The stage: the local, crash-safe table in which the pages of one partition wait. Invariant: a page is in whole or not
 * at all, and once: the window's text is a column of every row, so rows and ledger are one atomic write, and a window that
 * is in is not put again. Rows stay as they came, text as text; `seal/` gives them their types.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareText, formatWindow, parseWindow, type Window } from '../calendar/window.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import type { DayCounts } from '../plan/counts.ts';
import { countRepeats, countStaged, type StageTotals, secondKey } from './count.ts';
import { Intake, type IntakeTarget, isAboutData } from './intake.ts';
import { listStageTables } from './list.ts';
import { findTornGroup, listRepeatedIds, type RepeatedIds, type TornGroup } from './own-sql.ts';
import { assertColumns, readUnknownField, refusePage, type StagedPage } from './page.ts';
import {
  buildPageStructure,
  buildPageValues,
  createTableSql,
  stageTableName,
  stageTablePrefix,
  WINDOW_COLUMN,
} from './table.ts';

/** Fields outside the contract that one answer may bring before it is taken for garbage. */
const MAX_EXTRA_FIELDS = 64;

/** Folder beside the engine's data in which pages wait for their insert. */
const SPOOL = 'pages';

const DONE = Promise.resolve();

export interface StagedName {
  readonly window: string;
  readonly rows: number;
}

export interface Stage {
  readonly date: string;
  /** Quoted name of the table, for `seal/`. */
  readonly table: string;
  /** Stages the page of a window, or of what the text names; its rows are on disk when this returns. Idempotent per window. @throws Fault `PAGE_REFUSED` when a row does not fit */
  put(window: Window | string, page: StagedPage): Promise<void>;
  /** Windows whose pages are in, with their rows. */
  windows(): Promise<readonly { readonly window: Window; readonly rows: number }[]>;
  /** The same by the text that names them. */
  pages(): Promise<readonly StagedName[]>;
  /** What is staged by second of the day (groups by grain for aggregating jobs). @param symbol only of this one */
  countBySecond(symbol?: string): Promise<DayCounts>;
  /** What is staged by symbol. */
  countBySymbol(): Promise<DayCounts>;
  totals(): Promise<StageTotals>;
  /** Of an aggregating job a group that came in more than one window; of others nothing. */
  tornGroup(): Promise<TornGroup | undefined>;
  /** Of a job of single trades the answers that repeat ids, the worst first. */
  repeatedIds(): Promise<readonly RepeatedIds[]>;
  /** Rows beyond one for each version of an id: what the source sent twice. A newer version is none. */
  countRepeats(): Promise<number>;
  /** Fields beyond the job's columns that the answers brought. */
  extraFields(): Promise<readonly string[]>;
  /** Drops the pages of these windows, so that they can be asked again. */
  forget(windows: readonly Window[]): Promise<void>;
  /** Drops the whole partition. */
  discard(): Promise<void>;
}

/**
 * Opens the stage of a date, creating its table when it is the first time. What was staged of the date by another query,
 * with other columns or from another source is dropped: it cannot be part of this drop.
 * @param origin address of the source
 */
export async function openStage(engine: Engine, job: Job, date: string, origin: string): Promise<Stage> {
  const name = stageTableName(job, date, origin);
  for (const other of await listStageTables(engine, stageTablePrefix(date))) {
    if (other !== name) await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(other)} SYNC`);
  }
  await engine.command(createTableSql(name, job));
  const spool = join(await findDataFolder(engine), SPOOL, name);
  const stage = new EngineStage(engine, job, date, name, spool);
  // Pages that a killed process was about to load: they will be asked again.
  await stage.clearSpool();
  return stage;
}

/** Folder of the engine's own data: there is room for the rows, so there is for pages on their way. */
async function findDataFolder(engine: Engine): Promise<string> {
  const [disk] = await engine.rows<{ path: string }>("SELECT path FROM system.disks WHERE name = 'default'");
  return disk?.path ?? tmpdir();
}

class EngineStage implements Stage {
  readonly date: string;
  readonly table: string;
  readonly #engine: Engine;
  readonly #job: Job;
  readonly #name: string;
  readonly #intake: Intake;
  /** Windows that are in, and those on their way; `undefined` when the table has to be asked. */
  #staged: Promise<Map<string, Promise<void>>> | undefined;
  #extraFields: Promise<readonly string[]> | undefined;

  constructor(engine: Engine, job: Job, date: string, name: string, spool: string) {
    this.#engine = engine;
    this.#job = job;
    this.date = date;
    this.#name = name;
    this.table = quoteIdentifier(name);
    this.#intake = new Intake(engine, spool, () => this.#target());
  }

  async put(window: Window | string, page: StagedPage): Promise<void> {
    if (page.rows === 0) return;
    const name = typeof window === 'string' ? window : formatWindow(window);
    assertColumns(this.#job, this.date, name, page);
    // A promise, so that pages that come first at the same time share one answer.
    this.#staged ??= this.#readStaged();
    const staged = await this.#staged;
    const putting = staged.get(name) ?? this.#load(name, page);
    staged.set(name, putting);
    try {
      await putting;
    } catch (error) {
      staged.delete(name);
      throw error;
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
    for (let extra = 0; ; extra += 1) {
      try {
        await this.#intake.put(name, page.data);
        return;
      } catch (error) {
        const field = readUnknownField(error);
        if (!isAboutData(error)) throw error;
        if (field === undefined || extra >= MAX_EXTRA_FIELDS) throw refusePage(this.date, name, page, error);
        await this.#engine.command(
          `ALTER TABLE ${this.table} ADD COLUMN IF NOT EXISTS ${quoteIdentifier(field)} String`,
        );
        this.#extraFields = undefined;
      }
    }
  }

  async windows() {
    return (await this.pages()).map(({ window, rows }) => ({ window: parseWindow(this.date, window), rows }));
  }

  async pages() {
    const found = await this.#engine.rows<{ name: string; n: number }>(
      `SELECT ${WINDOW_COLUMN} AS name, count() AS n FROM ${this.table} GROUP BY name ORDER BY name`,
    );
    return found.map(({ name, n }) => ({ window: name, rows: Number(n) }));
  }

  async countBySecond(symbol?: string) {
    const counts = await countStaged<number>(this.#engine, this.#job, this.table, secondKey(this.#job, this.date), {
      symbol,
    });
    const of = symbol === undefined ? {} : { symbol };
    return [...counts].map(([second, count]) => ({ ...of, second, ...count })).sort((a, b) => a.second - b.second);
  }

  async countBySymbol() {
    const counts = await countStaged<string>(this.#engine, this.#job, this.table, 'symbol');
    return [...counts]
      .map(([symbol, count]) => ({ symbol, second: 0, ...count }))
      .sort((a, b) => compareText(a.symbol, b.symbol));
  }

  async totals() {
    const found = (await countStaged<number>(this.#engine, this.#job, this.table, '0')).get(0);
    return { rows: found?.rows ?? 0, ids: found?.ids ?? 0 };
  }

  async tornGroup() {
    const { source } = this.#job;
    return source.kind === 'aggregate' ? await findTornGroup(this.#engine, source, this.table) : undefined;
  }

  async repeatedIds() {
    return this.#job.source.kind === 'rows' ? await listRepeatedIds(this.#engine, this.table) : [];
  }

  async countRepeats() {
    return await countRepeats(this.#engine, this.#job, this.table);
  }

  async extraFields() {
    const known = [...this.#job.source.columns.map((column) => column.name), WINDOW_COLUMN];
    const columns = await this.#engine.rows<{ name: string }>(
      `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = ${quoteString(this.#name)} ORDER BY position`,
    );
    return columns.map(({ name }) => name).filter((name) => !known.includes(name));
  }

  async forget(windows: readonly Window[]): Promise<void> {
    if (windows.length === 0) return;
    const names = windows.map((window) => quoteString(formatWindow(window))).join(', ');
    const fresh = quoteIdentifier(`${this.#name}_fresh`);
    await this.#engine.command(`DROP TABLE IF EXISTS ${fresh} SYNC`);
    await this.#engine.command(`CREATE TABLE ${fresh} AS ${this.table}`);
    await this.#engine.command(
      `INSERT INTO ${fresh} SELECT * FROM ${this.table} WHERE ${WINDOW_COLUMN} NOT IN (${names})`,
    );
    await this.#engine.command(`EXCHANGE TABLES ${fresh} AND ${this.table}`);
    await this.#engine.command(`DROP TABLE ${fresh} SYNC`);
    this.#staged = undefined;
  }

  async discard(): Promise<void> {
    await this.#engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(`${this.#name}_fresh`)} SYNC`);
    await this.#engine.command(`DROP TABLE IF EXISTS ${this.table} SYNC`);
    this.#staged = undefined;
    await this.clearSpool();
  }

  async clearSpool(): Promise<void> {
    await this.#intake.clear();
  }

  async #target(): Promise<IntakeTarget> {
    this.#extraFields ??= this.extraFields();
    const extraFields = await this.#extraFields;
    return {
      table: this.table,
      columns: [...this.#job.source.columns.map(({ name }) => name), ...extraFields],
      values: (window) => buildPageValues(this.#job, extraFields, window),
      structure: buildPageStructure(this.#job, this.date, extraFields),
    };
  }
}
