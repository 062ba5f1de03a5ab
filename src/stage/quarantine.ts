/**
 * The quarantine of a stage: a table beside the stage's own, with the whole bad rows of its pages and a record of
 * values rewritten without loss. A page with bad rows is recorded here first, then its good rows are staged. Invariant:
 * the bad rows of a window count exactly if its page is staged; entries of a killed process whose page was never staged
 * are dropped when the stage is opened. No quarantined row is ever a row of the drop. Which row is bad is decided in
 * `odd-page.ts`, by the rules of `column-rule.ts`.
 */
import { Fault } from '../core/errors.ts';
import { formatCount, formatDollars } from '../core/units.ts';
import { isNullMark } from '../engine/column-types.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { readNumber } from '../engine/passes.ts';
import type { Job, JobRows } from '../job/job.ts';
import { type StagedTable, WINDOW_COLUMN } from './stage-table.ts';

/** Rows by the text that names a window. */
export type StagedPages = readonly { readonly window: string; readonly rows: number }[];

interface BadRowCount {
  /** Empty if the row as a whole is bad. */
  readonly column: string;
  readonly reason: string;
  readonly rows: number;
}

export interface Quarantine {
  readonly rows: number;
  /** Their distinct ids that no row of the stage has. */
  readonly ids: number;
  /** Most frequent first. */
  readonly reasons: readonly BadRowCount[];
  /** Dollars of those rows whose premium can be read, and their number; `undefined` if the job has no premium. */
  readonly premium?: { readonly dollars: number; readonly rows: number } | undefined;
  /** Values of a column that arrived in another form. */
  readonly rewritten: readonly { readonly column: string; readonly form: string; readonly rows: number }[];
  /** Values that could not be read, and nulls in columns where the contract allows none. */
  readonly nulls: readonly {
    readonly column: string;
    /** Completes the sentence that begins with the column's name; absent for nulls that came as such. */
    readonly reason?: string | undefined;
    readonly rows: number;
  }[];
}

export const NO_QUARANTINE: Quarantine = { rows: 0, ids: 0, reasons: [], rewritten: [], nulls: [] };

/** Number of rows of a date that may be bad. @param rows of the date */
export function countAllowed({ maxBad }: JobRows, rows: number): number {
  // One bad row never blocks a date, however small the date is.
  return maxBad === 0 ? 0 : Math.max(1, Math.floor(rows * maxBad));
}

/** @param stage name of its table */
export function quarantineName(stage: string): string {
  return `${stage}_bad`;
}

/** Columns by which the source and a recount count rows, if the job has them. */
function listCountedColumns({ source }: Pick<Job, 'source'>): readonly string[] {
  const wanted = new Set(['id', 'symbol', 'timeColumn' in source ? source.timeColumn : 'time', 'updated_timestamp']);
  return source.columns.map(({ name }) => name).filter((name) => wanted.has(name));
}

/** Reasons in a message; the manifest has all. */
const SHOWN_REASONS = 3;

/**
 * @param rows of the date @throws Fault `BAD_ROWS` when more are bad than the job allows; their pages are dropped, so
 *   that the next run fetches them again
 */
export async function assertFewBadRows(
  job: Job,
  stage: { readonly date: string; forgetBad(): Promise<void> },
  rows: number,
  quarantine: Pick<Quarantine, 'rows' | 'reasons'>,
): Promise<void> {
  const allowed = countAllowed(job.rows, rows);
  if (quarantine.rows <= allowed) return;
  await stage.forgetBad();
  const examples = quarantine.reasons.slice(0, SHOWN_REASONS).map(describeReason);
  throw tooManyBadRows(job, stage.date, { found: quarantine.rows, allowed, examples, isAll: quarantine.rows >= rows });
}

/** `3 of 60,000 rows are in quarantine (premium $1.20K): 2 "time" is not a time YYYY-MM-DD HH:MM:SS, 1 is not UTF-8`; without any, `undefined`. @param good rows beside them */
export function describeQuarantine({ rows, reasons, premium }: Quarantine, good: number): string | undefined {
  if (rows === 0) return undefined;
  const shown = reasons.slice(0, SHOWN_REASONS).map(describeReason);
  const others = reasons.slice(SHOWN_REASONS).reduce((sum, reason) => sum + reason.rows, 0);
  const rest = others > 0 ? [`${formatCount(others)} for other reasons`] : [];
  const verb = rows === 1 ? 'is' : 'are';
  return `${formatCount(rows)} of ${formatCount(good + rows)} rows ${verb} in quarantine${describePremium(rows, premium)}: ${[...shown, ...rest].join(', ')}`;
}

/** What the day's sums lack. */
function describePremium(rows: number, premium: Quarantine['premium']): string {
  if (premium === undefined) return '';
  if (premium.rows === 0) return ' (premium unknown)';
  return ` (premium ${formatDollars(premium.dollars)}${premium.rows < rows ? ' or more' : ''})`;
}

export function joinReasons(...reasons: readonly (string | undefined)[]): string | undefined {
  return reasons.filter((reason) => reason !== undefined).join('; ') || undefined;
}

function describeReason({ column, reason, rows }: BadRowCount): string {
  return `${formatCount(rows)} ${column === '' ? '' : `"${column}" `}${reason}`;
}

interface TooManyRows {
  readonly found: number;
  readonly allowed: number;
  /** Each names a window and its error. */
  readonly examples: readonly string[];
  /** Whether no row is good, as far as is known. */
  readonly isAll: boolean;
}

export function tooManyBadRows(job: Job, date: string, { found, allowed, examples, isAll }: TooManyRows): Fault {
  const { file, rows } = job;
  const allBad = `No row can be read, so the API has probably changed the form of a column: tell the provider, or correct \`types\` if the SQL is your own. To keep the rows before they expire, set \`rows.max: 1\` in ${file}: the date is then sealed degraded, with all rows in quarantine.ndjson.`;
  return new Fault(
    'BAD_ROWS',
    `${date}: ${found} rows are bad, allowed are ${allowed} (rows.max: ${rows.maxBad}); for example ${examples.join('; ')}`,
    {
      hint: isAll
        ? allBad
        : `Nothing was sealed; the next run requests the pages with bad rows again. If the provider sends such rows on purpose, raise \`rows.max\` in ${file}.`,
    },
  );
}

export class QuarantineTable {
  /** Quoted name. */
  readonly table: string;
  readonly counted: readonly string[];
  readonly #stage: StagedTable;

  /** @param name of the stage's table, unquoted */
  constructor(stage: StagedTable, name: string) {
    this.#stage = stage;
    this.table = quoteIdentifier(quarantineName(name));
    this.counted = listCountedColumns(stage.job);
  }

  /** Creates the table if it is missing, and drops entries without a staged page: those of a killed process. */
  async open(): Promise<void> {
    const hex = this.counted.map((name) => `${quoteIdentifier(`hex_${name}`)} Nullable(String)`);
    const texts = this.counted.map((name) => `${quoteIdentifier(name)} ALIAS unhex(${quoteIdentifier(`hex_${name}`)})`);
    await this.#stage.engine.command(
      `CREATE TABLE IF NOT EXISTS ${this.table} (${WINDOW_COLUMN} String, kind String, column String, reason String, rows UInt32, premium Nullable(Float64), encoding String, row String, ${[...hex, ...texts].join(', ')}) ENGINE = MergeTree ORDER BY ${WINDOW_COLUMN}`,
    );
    if (await this.isEmpty()) return;
    const torn = await this.#stage.engine.rows<{ name: string }>(
      `SELECT ${WINDOW_COLUMN} AS name FROM ${this.table} WHERE kind = 'page' AND rows > 0 AND ${WINDOW_COLUMN} NOT IN (SELECT ${WINDOW_COLUMN} FROM ${this.#stage.table})`,
    );
    await this.drop(torn.map(({ name }) => name));
  }

  /** Rows of each window of the stage, those in quarantine included. */
  async countPages(): Promise<StagedPages> {
    const found = await this.#stage.engine.rows<{ name: string; n: number }>(
      `SELECT name, sum(n) AS n FROM (SELECT ${WINDOW_COLUMN} AS name, count() AS n FROM ${this.#stage.table} GROUP BY name UNION ALL SELECT ${WINDOW_COLUMN} AS name, countIf(kind = 'bad') AS n FROM ${this.table} GROUP BY name) GROUP BY name ORDER BY name`,
    );
    return found.map(({ name, n }) => ({ window: name, rows: Number(n) }));
  }

  async isEmpty(): Promise<boolean> {
    return (await readNumber(this.#stage.engine, `SELECT count() FROM ${this.table}`)) === 0;
  }

  async countRows(): Promise<number> {
    return await readNumber(this.#stage.engine, `SELECT countIf(kind = 'bad') FROM ${this.table}`);
  }

  async drop(windows: readonly string[]): Promise<void> {
    if (windows.length === 0 || (await this.isEmpty())) return;
    await this.#stage.engine.command(
      `ALTER TABLE ${this.table} DELETE WHERE ${WINDOW_COLUMN} IN (${windows.map(quoteString).join(', ')}) SETTINGS mutations_sync = 2`,
    );
  }

  async windows(): Promise<readonly string[]> {
    const found = await this.#stage.engine.rows<{ name: string }>(
      `SELECT DISTINCT ${WINDOW_COLUMN} AS name FROM ${this.table} WHERE kind = 'bad'`,
    );
    return found.map(({ name }) => name);
  }

  async describe(): Promise<Quarantine> {
    if (await this.isEmpty()) return NO_QUARANTINE;
    const counts = await this.#stage.engine.rows<
      Readonly<
        Record<'kind' | 'column' | 'reason', string> & Record<'n' | 'known', number> & { dollars: number | null }
      >
    >(
      `SELECT kind, column, reason, sum(rows) AS n, count(premium) AS known, sum(premium) AS dollars FROM ${this.table} WHERE kind != 'page' GROUP BY kind, column, reason ORDER BY n DESC, column, reason`,
    );
    const of = (wanted: string) => counts.filter(({ kind }) => kind === wanted);
    const reasons = of('bad').map(({ column, reason, n }) => ({ column, reason, rows: Number(n) }));
    const hasPremium = this.#stage.job.source.columns.some(({ name, type }) => name === 'premium' && type === 'double');
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    const premium = {
      dollars: sum(of('bad').map(({ dollars }) => dollars ?? 0)),
      rows: sum(of('bad').map(({ known }) => Number(known))),
    };
    return {
      rows: sum(reasons.map(({ rows }) => rows)),
      premium: reasons.length > 0 && hasPremium ? premium : undefined,
      ids: await this.#countIds(),
      reasons,
      rewritten: of('form').map(({ column, reason, n }) => ({ column, form: reason, rows: Number(n) })),
      nulls: of('null').map(({ column, reason, n }) => ({ column, reason: reason || undefined, rows: Number(n) })),
    };
  }

  /**
   * The rows that the source counts, as a table: those of the stage, and those in quarantine, all values as text.
   * @param hashed columns that are hashed; they are empty for rows in quarantine (see `oddCells`)
   */
  async countedRows(hashed: readonly string[]): Promise<string> {
    if (await this.isEmpty()) return this.#stage.table;
    // A null counts in a cell too; only distinct ids ignore nulls, as at the source.
    const textOf = (name: string) =>
      name === 'id' ? `toString(${quoteIdentifier(name)})` : `ifNull(toString(${quoteIdentifier(name)}), '')`;
    const stagedText = (name: string) => {
      const column = this.#stage.job.source.columns.find((one) => one.name === name);
      const isNull = column && isNullMark(column.type, column.oftenNull, quoteIdentifier(name));
      return isNull === undefined || name === 'id' ? textOf(name) : `if(${isNull}, '', ${textOf(name)})`;
    };
    const names = [...new Set([...this.counted, ...hashed])];
    const select = (values: (name: string) => string) =>
      `SELECT ${names.map((name) => `${values(name)} AS ${quoteIdentifier(name)}`).join(', ')}`;
    const bad = select((name) => (this.counted.includes(name) ? textOf(name) : "''"));
    return `(${select(stagedText)} FROM ${this.#stage.table} UNION ALL ${bad} FROM ${this.table} WHERE kind = 'bad')`;
  }

  /**
   * Cells with values that differ from the source's own. `odd`: from a quarantined row, a null where the contract allows none,
   * or a word in another case; their rows, ids and update marks are compared anyway. `unmarked`: with an update time that was
   * rewritten.
   * @param key SQL by which rows are counted @param hashed columns: oddities in other columns do not matter
   */
  async oddCells<Key extends number | string>(key: string, hashed: readonly string[]) {
    const columns = ["''", ...hashed.map(quoteString)].join(', ');
    const texts = this.counted.map((name) => `ifNull(${quoteIdentifier(name)}, '') AS ${quoteIdentifier(name)}`);
    const found = await this.#stage.engine.rows<{ k: Key; q_odd: number; q_mark: number }>(
      `SELECT ${key} AS k, max(q_is_odd) AS q_odd, max(q_is_mark) AS q_mark FROM (SELECT * REPLACE (${texts.join(', ')}) FROM (SELECT ${this.counted.map(quoteIdentifier).join(', ')}, kind = 'bad' OR (kind = 'changed' AND column IN (${columns})) AS q_is_odd, kind = 'changed' AND column = 'updated_timestamp' AS q_is_mark FROM ${this.table})) GROUP BY k`,
    );
    const cells = (name: 'q_odd' | 'q_mark') => new Set(found.flatMap((cell) => (cell[name] === 1 ? [cell.k] : [])));
    return { odd: cells('q_odd'), unmarked: cells('q_mark') };
  }

  /** Writes the bad rows as JSON lines, in an order that depends only on the rows. @throws EngineFault */
  async write(path: string): Promise<void> {
    await this.#stage.engine.command(
      `SELECT ${WINDOW_COLUMN} AS window, column, reason, encoding, row FROM ${this.table} WHERE kind = 'bad' ORDER BY window, row, column INTO OUTFILE ${quoteString(path)} TRUNCATE FORMAT JSONEachRow SETTINGS output_format_json_escape_forward_slashes = 0`,
    );
  }

  async #countIds(): Promise<number> {
    if (!this.counted.includes('id')) return 0;
    return await readNumber(
      this.#stage.engine,
      `SELECT uniqExact(id) FROM ${this.table} WHERE kind = 'bad' AND id NOT IN (SELECT id FROM ${this.#stage.table} WHERE id IN (SELECT assumeNotNull(id) FROM ${this.table} WHERE kind = 'bad'))`,
    );
  }
}
