/**
 * Finds staged pages that contradict the windows of a query: a group that came in two windows, ids that one answer
 * repeats, a contract in two parts of a chain. It only finds them; the run reports them. Invariant: the engine's memory
 * is bounded.
 */
import { compareText } from '../calendar/window.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import { listPasses } from '../engine/passes.ts';
import type { Job } from '../job/job.ts';
import { WINDOW_COLUMN } from './stage-table.ts';

export interface TornGroup {
  /** Values of the time column and the split columns, by name. */
  readonly key: Readonly<Record<string, string>>;
  /** Two of the windows that have rows of it. */
  readonly windows: readonly [string, string];
}

/** Rows of one answer, and the distinct ids among them. */
export interface RepeatedIds {
  readonly window: string;
  readonly rows: number;
  readonly ids: number;
}

/**
 * Finds a group whose rows came in more than one window. Windows of groups end between grains or at a value of a split
 * column, so time and split columns together determine the window of a group.
 * @param table quoted name
 */
export async function findTornGroup(
  engine: Engine,
  { source }: Job,
  table: string,
  passGroups?: number,
): Promise<TornGroup | undefined> {
  if (source.kind !== 'aggregate') return undefined;
  const names = [...new Set([source.timeColumn, ...source.splitColumns])];
  const keys = names.map(quoteIdentifier).join(', ');
  for (const pass of await listPasses(engine, table, keys, passGroups)) {
    const [torn] = await engine.rows<{ values: readonly string[]; first: string; last: string }>(
      `SELECT [${names.map((name) => `toString(${quoteIdentifier(name)})`).join(', ')}] AS values, min(${WINDOW_COLUMN}) AS first, max(${WINDOW_COLUMN}) AS last FROM ${table} WHERE ${pass} GROUP BY ${keys} HAVING first != last ORDER BY values LIMIT 1`,
    );
    if (torn === undefined) continue;
    const key = Object.fromEntries(names.map((name, index) => [name, torn.values[index] ?? '']));
    return { key, windows: [torn.first, torn.last] };
  }
  return undefined;
}

/** A contract that came in more than one answer. */
export interface SharedContract {
  readonly symbol: string;
  readonly contract: string;
  readonly windows: readonly [string, string];
}

/**
 * Finds a contract of one symbol that came in more than one answer of a snapshot. Parts of a chain share no contracts,
 * so the server ignored a filter, or an answer belongs to another request. Rows without a contract are ignored.
 * @param table quoted name
 */
export async function findSharedContract(
  engine: Engine,
  { source }: Job,
  table: string,
): Promise<SharedContract | undefined> {
  const hasContracts = source.kind === 'snapshots' && source.columns.some(({ name }) => name === 'option_symbol');
  if (!hasContracts) return undefined;
  for (const pass of await listPasses(engine, table, 'option_symbol')) {
    const [found] = await engine.rows<{ symbol: string; contract: string; first: string; last: string }>(
      `SELECT symbol, option_symbol AS contract, min(${WINDOW_COLUMN}) AS first, max(${WINDOW_COLUMN}) AS last FROM ${table} WHERE option_symbol != '' AND ${pass} GROUP BY symbol, option_symbol HAVING first != last ORDER BY symbol, contract LIMIT 1`,
    );
    if (found !== undefined) {
      return { symbol: found.symbol, contract: found.contract, windows: [found.first, found.last] };
    }
  }
  return undefined;
}

/**
 * The answers of a job of single trades that repeat ids, worst first; empty if none does. Ids are counted by a hash of
 * eight bytes. @param table quoted name
 */
export async function listRepeatedIds(engine: Engine, { source }: Job, table: string): Promise<readonly RepeatedIds[]> {
  if (source.kind !== 'rows') return [];
  const found: RepeatedIds[] = [];
  // Identical rows that repeat are harmless, unless the user's SQL multiplies them.
  const rows = source.sql === '' ? 'uniqExact(cityHash64(toString(tuple(*))))' : 'count()';
  for (const pass of await listPasses(engine, table, WINDOW_COLUMN)) {
    const repeating = await engine.rows<RepeatedIds>(
      `SELECT ${WINDOW_COLUMN} AS window, ${rows} AS rows, uniqExact(cityHash64(id)) AS ids FROM ${table} WHERE ${pass} GROUP BY window HAVING ids < rows`,
    );
    found.push(...repeating.map(({ window, rows, ids }) => ({ window, rows: Number(rows), ids: Number(ids) })));
  }
  return found.sort((a, b) => a.ids / a.rows - b.ids / b.rows || compareText(a.window, b.window));
}

/** An id that several rows share. */
export interface ExampleId {
  readonly id: string;
  readonly rows: number;
  /** Two of its rows, described by their columns beside the id. */
  readonly trades: readonly string[];
}

/** Limits of ids, and of rows of each, that keep a message readable. */
const EXAMPLE_IDS = 3;
const EXAMPLE_ROWS = 2;

/** The most frequent repeated ids of the first pass that finds any. @param table quoted name */
export async function listExampleIds(
  engine: Engine,
  { source }: Job,
  table: string,
  passIds?: number,
): Promise<readonly ExampleId[]> {
  const shown = ['symbol', 'time', 'option_symbol', 'price', 'size'].filter((name) =>
    source.columns.some((column) => column.name === name),
  );
  const trade = `concat(${["''", ...shown.flatMap((name) => [`ifNull(toString(${quoteIdentifier(name)}), '')`, "' '"])].join(', ')})`;
  for (const pass of await listPasses(engine, table, 'id', passIds)) {
    const often = `SELECT id FROM ${table} WHERE ${pass} GROUP BY id HAVING count() > 1 ORDER BY count() DESC, id LIMIT ${EXAMPLE_IDS}`;
    const found = await engine.rows<ExampleId>(
      `SELECT id, count() AS rows, groupArraySorted(${EXAMPLE_ROWS})(${trade}) AS trades FROM ${table} WHERE id IN (${often}) GROUP BY id ORDER BY rows DESC, id`,
    );
    if (found.length === 0) continue;
    return found.map(({ id, rows, trades }) => ({ id, rows: Number(rows), trades: trades.map((one) => one.trim()) }));
  }
  return [];
}
