/**
 * Rows of a sealed drop as staged rows, for a restatement that fetches only a part of the date: the reverse of what sealing
 * does to a value; and those that the source no longer has. Invariant: sealing a row that was staged from a drop gives the same row again. Only drops of
 * single trades without nulls where the contract allows none are read; the others are fetched again as a whole.
 */
import { randomUUID } from 'node:crypto';
import { type Axis, formatWindow, isOverlapping, parseWindow, type Stretch } from '../calendar/window.ts';
import { COLUMN_TYPES, nullMark } from '../engine/column-types.ts';
import type { Engine } from '../engine/engine.ts';
import { parquetFile, quoteIdentifier, quoteString } from '../engine/literal.ts';
import { listPasses, readNumber, sumPasses } from '../engine/passes.ts';
import { tradeContent } from '../engine/row-hash.ts';
import type { Job, JobColumn } from '../job/job.ts';
import { keyOf, placeOf, stretchOf } from '../plan/axis.ts';
import type { CellCount, DayCounts } from '../plan/counts.ts';
import { type RepairPlan, WHOLE_DATE } from '../plan/pack.ts';
import { asCells, type CountOptions, cellKey, countStaged, secondKey } from './count.ts';
import { type StagedTable, WINDOW_COLUMN } from './stage-table.ts';

export interface DropRows {
  /** Local copy of the drop. */
  readonly path: string;
  /** Its columns that are not the job's. */
  readonly extraFields: readonly string[];
  /** All symbols of the date in their order, if the plan's stretches are along the symbols. */
  readonly symbols: readonly string[];
}

/** Rows that a stage has from a sealed drop, and the counts of the source that stand for them. */
export class CarriedRows {
  plan: RepairPlan;
  readonly cells: Map<string, CellCount>;

  constructor(plan: RepairPlan = WHOLE_DATE, cells: DayCounts = []) {
    this.plan = plan;
    this.cells = new Map(cells.map((cell) => [keyOf(cell), cell]));
  }

  /** These windows of the stage were dropped. */
  forget(date: string, names: readonly string[]): void {
    if (this.plan.kept.length === 0) return;
    const windows = names.map((name) => parseWindow(date, name));
    const isDropped = (stretch: Stretch) => windows.some((window) => isOverlapping(window, stretch));
    const again = this.plan.kept.filter(isDropped);
    const kept = this.plan.kept.filter((stretch) => !again.includes(stretch));
    this.plan = { fetched: [...this.plan.fetched, ...again], kept };
    for (const [key, cell] of this.cells) if (isDropped(stretchOf(cell))) this.cells.delete(key);
  }
}

/** Few rows at once, however large the drop is: a block holds all columns. */
export const SEALED_READ_SETTINGS = [
  'max_threads = 2',
  'max_insert_threads = 1',
  'max_block_size = 8192',
  'input_format_parquet_max_block_size = 8192',
  'input_format_parquet_memory_high_watermark = 33554432',
  'min_insert_block_size_rows = 65536',
  'min_insert_block_size_bytes = 67108864',
].join(', ');

/** The rows of a drop with the values and columns of a stage, as a table without windows. */
export function readSealedRows({ source }: Pick<Job, 'source'>, { path, extraFields }: DropRows): string {
  const columns = [
    ...source.columns.map((column) => `${stagedValue(column)} AS ${quoteIdentifier(column.name)}`),
    ...extraFields.map((name) => `ifNull(toString(s.${quoteIdentifier(name)}), '') AS ${quoteIdentifier(name)}`),
  ];
  return `(SELECT ${columns.join(', ')} FROM ${parquetFile(path)} AS s)`;
}

export async function countSealed(
  engine: Engine,
  job: Job,
  date: string,
  file: DropRows,
  axis: Axis,
  options: Pick<CountOptions, 'hashed'> = {},
): Promise<DayCounts> {
  return asCells(axis, await countStaged(engine, job, readSealedRows(job, file), cellKey(job, date, axis), options));
}

/** The rows of a drop with the window in which each lies: one of the plan's stretches. */
export function readPlacedRows(job: Job, date: string, file: DropRows, plan: RepairPlan): string {
  const symbols = new Map(file.symbols.map((symbol, index) => [symbol, index]));
  const stretches = [...plan.fetched, ...plan.kept]
    .map((stretch) => ({ name: formatWindow(stretch), place: placeOf(stretch.from, symbols) }))
    .sort((a, b) => a.place - b.place);
  const places = `[${stretches.map(({ place }) => `toInt64(${place})`).join(', ')}]`;
  const names = `[${stretches.map(({ name }) => quoteString(name)).join(', ')}]`;
  const second = `toInt64(${secondKey(job, date)})`;
  // A multiple of the step for each symbol, as in `placeOf`.
  const symbol =
    symbols.size === 0
      ? ''
      : `toInt64(transform(ifNull(toString(symbol), ''), [${file.symbols.map(quoteString).join(', ')}], [${file.symbols.map((name) => placeOf({ symbol: name, second: 0 }, symbols)).join(', ')}], 0)) + `;
  const window = `transform(roundDown(${symbol}${second}, ${places}), ${places}, ${names}, '')`;
  return `(SELECT *, ${window} AS ${WINDOW_COLUMN} FROM ${readSealedRows(job, file)})`;
}

export function isIn(stretches: readonly Stretch[]): string {
  if (stretches.length === 0) return 'false';
  return `${WINDOW_COLUMN} IN (${stretches.map((stretch) => quoteString(formatWindow(stretch))).join(', ')})`;
}

function stagedValue({ name, type, oftenNull }: JobColumn): string {
  return `ifNull(${COLUMN_TYPES[type].unseal(`s.${quoteIdentifier(name)}`)}, ${nullMark(type, oftenNull)})`;
}

/**
 * Stages the rows of a sealed drop that the source no longer has. A row is not kept if its trade is there under another id,
 * which would count it twice, or if its id is now of another date. Memory is bounded by passes; what is remembered between
 * them are two hashes a row, and only of rows that are gone or new.
 * @param plan rows in the stretches that it keeps are not compared @param elsewhere a table of ids that are of another date
 * @param insert stages the rows of a query @returns how many are kept
 */
export async function keepGoneRows(
  { engine, job, date, table }: StagedTable,
  drop: DropRows,
  plan: RepairPlan,
  elsewhere: string | undefined,
  insert: (select: string) => Promise<void>,
): Promise<number> {
  const rows = `${readPlacedRows(job, date, drop, plan)} WHERE NOT ${isIn(plan.kept)}`;
  const staged = `${table} WHERE NOT ${isIn(plan.kept)}`;
  const passes = await listPasses(engine, table, 'id');
  const moved = (pass: string) =>
    elsewhere === undefined ? '' : ` AND id NOT IN (SELECT id FROM ${elsewhere} WHERE ${pass})`;
  const goneIn = (pass: string) =>
    `FROM ${rows} AND id != '' AND ${pass} AND id NOT IN (SELECT id FROM ${staged} AND ${pass})${moved(pass)}`;
  if ((await sumPasses(engine, table, (pass) => `SELECT count() ${goneIn(pass)}`)) === 0) return 0;
  const [unpaired, paired] = ['unpaired', 'paired'].map((name) => quoteIdentifier(`${name}_${randomUUID()}`));
  try {
    await engine.command(`CREATE TEMPORARY TABLE ${unpaired} (k UInt64, c UInt64, is_new UInt8)`);
    await engine.command(`CREATE TEMPORARY TABLE ${paired} (k UInt64)`);
    const select = `SELECT cityHash64(id), ${tradeContent(job.source.columns.map(({ name }) => name))}`;
    for (const pass of passes) {
      const known = `SELECT id FROM ${rows} AND ${pass}`;
      await engine.command(`INSERT INTO ${unpaired} ${select}, 1 FROM ${staged} AND ${pass} AND id NOT IN (${known})`);
      await engine.command(`INSERT INTO ${unpaired} ${select}, 0 ${goneIn(pass)}`);
    }
    for (const [at] of passes.entries()) {
      const each = `SELECT k, is_new, row_number() OVER (PARTITION BY c ORDER BY is_new, k) AS nth, countIf(is_new = 1) OVER (PARTITION BY c) AS fresh FROM ${unpaired} WHERE c % ${passes.length} = ${at}`;
      await engine.command(`INSERT INTO ${paired} SELECT k FROM (${each}) WHERE is_new = 0 AND nth <= fresh`);
    }
    let kept = 0;
    for (const pass of passes) {
      const left = `${goneIn(pass)} AND cityHash64(id) NOT IN (SELECT k FROM ${paired})`;
      const found = await readNumber(engine, `SELECT count() ${left}`);
      if (found > 0) await insert(`SELECT * ${left}`);
      kept += found;
    }
    return kept;
  } finally {
    for (const name of [unpaired, paired]) await engine.command(`DROP TABLE IF EXISTS ${name}`);
  }
}
