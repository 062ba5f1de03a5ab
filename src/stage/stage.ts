/**
 * The stage: the local, crash-safe table in which the pages of one partition wait. Invariant: a page is in whole or not
 * at all, and once: the window's text is both the insert's deduplication token and the value of the column `_window`
 * (filled from that token by the engine), so rows and ledger are one atomic write. Rows stay as they came, text as text;
 * `seal/` gives them their types.
 */

import { formatWindow, parseWindow, type Window } from '../calendar/window.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/fault.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { secondOfDaySql } from '../engine/wall-clock.ts';
import type { Job } from '../job/job.ts';
import type { SecondCount } from '../plan/counts.ts';
import { createTableSql, parseStageDate, stageTableName, stageTablePrefix, WINDOW_COLUMN } from './table.ts';

/** Not enough space, memory limit, cannot write, cannot open, read-only, time-out: and 0, which no statement raises. */
const ENVIRONMENT_CODES: ReadonlySet<number> = new Set([0, 243, 241, 75, 76, 164, 159]);

/** Fields outside the contract that one answer may bring before it is taken for garbage. */
const MAX_EXTRA_FIELDS = 64;

export interface StagedPage {
  readonly data: Uint8Array;
  readonly rows: number;
  readonly firstRow: Readonly<Record<string, unknown>> | undefined;
}

export interface StageTotals {
  readonly rows: number;
  readonly ids: number;
}

export interface Stage {
  readonly date: string;
  /** Quoted name of the table, for `seal/`. */
  readonly table: string;
  /** Stages the page of a window. Idempotent per window and attempt. @throws Fault `PAGE_REFUSED` when a row does not fit the columns */
  put(window: Window, page: StagedPage): Promise<void>;
  /** Windows whose pages are in, with their rows. */
  windows(): Promise<readonly { readonly window: Window; readonly rows: number }[]>;
  /** Distinct ids staged per second of the day (groups per grain for aggregating jobs). */
  countBySecond(): Promise<readonly SecondCount[]>;
  totals(): Promise<StageTotals>;
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
  for (const other of await listTables(engine, stageTablePrefix(date))) {
    if (other !== name) await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(other)} SYNC`);
  }
  await engine.command(createTableSql(name, job));
  return new EngineStage(engine, job, date, name);
}

/** Dates that have a stage, ascending, whatever is in it. */
export async function listStages(engine: Engine): Promise<readonly string[]> {
  const tables = await listTables(engine, stageTablePrefix());
  return [...new Set(tables.map(parseStageDate))].sort();
}

/** Drops every stage of a date. */
export async function discardStages(engine: Engine, date: string): Promise<void> {
  for (const name of await listTables(engine, stageTablePrefix(date))) {
    await engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(name)} SYNC`);
  }
}

async function listTables(engine: Engine, prefix: string): Promise<readonly string[]> {
  const tables = await engine.rows<{ name: string }>(
    `SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, ${quoteString(prefix)}) ORDER BY name`,
  );
  return tables.map(({ name }) => name);
}

class EngineStage implements Stage {
  readonly date: string;
  readonly table: string;
  readonly #engine: Engine;
  readonly #job: Job;
  readonly #name: string;

  constructor(engine: Engine, job: Job, date: string, name: string) {
    this.#engine = engine;
    this.#job = job;
    this.date = date;
    this.#name = name;
    this.table = quoteIdentifier(name);
  }

  async put(window: Window, page: StagedPage): Promise<void> {
    if (page.rows === 0) return;
    this.#assertColumns(window, page);
    if (await this.#isStaged(window)) return;
    for (let extra = 0; ; extra += 1) {
      try {
        await this.#insert(window, page);
        return;
      } catch (error) {
        const field = unknownField(error);
        if (!isAboutData(error)) throw error;
        if (field === undefined || extra >= MAX_EXTRA_FIELDS) throw this.#refusal(window, page, error);
        await this.#engine.command(
          `ALTER TABLE ${this.table} ADD COLUMN IF NOT EXISTS ${quoteIdentifier(field)} String`,
        );
      }
    }
  }

  async windows() {
    const found = await this.#engine.rows<{ name: string; n: number }>(
      `SELECT ${WINDOW_COLUMN} AS name, count() AS n FROM ${this.table} GROUP BY name`,
    );
    return found.map(({ name, n }) => ({ window: parseWindow(this.date, name), rows: Number(n) }));
  }

  async countBySecond() {
    const { source } = this.#job;
    const text = quoteIdentifier(source.kind === 'rows' ? 'time' : source.timeColumn);
    const seconds = secondOfDaySql(text);
    const second = source.kind === 'aggregate' && source.grainSeconds >= 86_400 ? '0' : seconds;
    const distinct = source.kind === 'rows' ? 'uniqExact(id)' : 'count()';
    const found = await this.#engine.rows<{ s: number; n: number; u: number }>(
      `SELECT ${second} AS s, count() AS n, ${distinct} AS u FROM ${this.table} GROUP BY s ORDER BY s`,
    );
    return found.map(({ s, n, u }) => ({ second: s, rows: Number(n), ids: Number(u) }));
  }

  async totals() {
    const distinct = this.#job.source.kind === 'rows' ? 'uniqExact(id)' : 'count()';
    const [total] = await this.#engine.rows<{ n: number; u: number }>(
      `SELECT count() AS n, ${distinct} AS u FROM ${this.table}`,
    );
    return { rows: Number(total?.n ?? 0), ids: Number(total?.u ?? 0) };
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
    // The new table begins with an empty memory of tokens, so that the forgotten windows can be staged again.
    const fresh = quoteIdentifier(`${this.#name}_fresh`);
    await this.#engine.command(`DROP TABLE IF EXISTS ${fresh} SYNC`);
    await this.#engine.command(`CREATE TABLE ${fresh} AS ${this.table}`);
    await this.#engine.command(
      `INSERT INTO ${fresh} SELECT * FROM ${this.table} WHERE ${WINDOW_COLUMN} NOT IN (${names}) SETTINGS insert_deduplicate = 0`,
    );
    await this.#engine.command(`EXCHANGE TABLES ${fresh} AND ${this.table}`);
    await this.#engine.command(`DROP TABLE ${fresh} SYNC`);
  }

  async discard(): Promise<void> {
    await this.#engine.command(`DROP TABLE IF EXISTS ${quoteIdentifier(`${this.#name}_fresh`)} SYNC`);
    await this.#engine.command(`DROP TABLE IF EXISTS ${this.table} SYNC`);
  }

  /** The engine's own memory of tokens does not outlive `forget`. */
  async #isStaged(window: Window): Promise<boolean> {
    const found = await this.#engine.rows(
      `SELECT 1 FROM ${this.table} WHERE ${WINDOW_COLUMN} = ${quoteString(formatWindow(window))} LIMIT 1`,
    );
    return found.length > 0;
  }

  async #insert(window: Window, page: StagedPage): Promise<void> {
    await this.#engine.insert({
      table: this.#name,
      format: 'JSONEachRow',
      payload: page.data,
      settings: {
        insert_deduplicate: 1,
        insert_deduplication_token: formatWindow(window),
        // A field outside the contract must be seen, not skipped.
        input_format_skip_unknown_fields: 0,
        input_format_json_read_numbers_as_strings: 1,
        input_format_json_read_bools_as_strings: 1,
        input_format_json_read_objects_as_strings: 1,
        input_format_json_read_arrays_as_strings: 1,
      },
    });
  }

  /** A field that no row has is told by name, with what there is instead. */
  #assertColumns(window: Window, page: StagedPage): void {
    const missing = this.#job.source.columns.filter((column) => !(column.name in (page.firstRow ?? {})));
    if (missing.length === 0) return;
    throw new Fault(
      'PAGE_REFUSED',
      `${this.date} ${formatWindow(window)}: the answer has no field ${missing.map((column) => `"${column.name}"`).join(', ')}; it has ${Object.keys(page.firstRow ?? {}).join(', ')}`,
      { hint: 'For SQL of your own, list what it returns under `types`, `time` and `split`.' },
    );
  }

  #refusal(window: Window, page: StagedPage, cause: unknown): Fault {
    const head = Buffer.from(page.data.subarray(0, 200)).toString('utf8');
    return new Fault(
      'PAGE_REFUSED',
      `${this.date} ${formatWindow(window)}: the answer's rows do not fit the columns: ${firstLine(cause)}; it begins ${head}`,
      {
        cause,
        hint: 'Nothing of this page was kept. If the API has changed a type, tell us; else run again.',
      },
    );
  }
}

/** A full disk or too little memory is not the page's fault. */
function isAboutData(error: unknown): boolean {
  return error instanceof EngineFault && !ENVIRONMENT_CODES.has(error.clickhouseCode);
}

/** What the engine says, without its stack of functions. */
function firstLine(error: unknown): string {
  return describeError(error).split(/: while executing|\n/)[0] ?? '';
}

/** Name of the field in ClickHouse's "Unknown field found while parsing JSONEachRow format: x". */
function unknownField(error: unknown): string | undefined {
  if (!(error instanceof EngineFault) || error.clickhouseCode !== CLICKHOUSE_CODES.INCORRECT_DATA) return undefined;
  return /Unknown field found while parsing \w+ format: (.+?)(?:: \(at row \d+\)|\s*: While|$)/s
    .exec(error.message)?.[1]
    ?.trim();
}
