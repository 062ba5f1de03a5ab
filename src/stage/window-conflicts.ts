/**
 * Finds staged pages that contradict the windows of a query: a group that came in two windows, ids that one answer
 * repeats, a contract in two parts of a chain. It only finds them; the run reports them. Invariant: the engine's memory
 * is bounded.
 */

import { compareText } from '../calendar/window.ts';
import { Fault } from '../core/errors.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import { listPasses } from '../engine/passes.ts';
import { type StagedTable, WINDOW_COLUMN } from './stage-table.ts';

/** Rows of one answer, and the distinct ids among them. */
interface RepeatedIds {
  readonly window: string;
  readonly rows: number;
  readonly ids: number;
}

/**
 * Finds a group, or a contract of one symbol in a snapshot, that came in more than one answer; for other jobs `undefined`.
 * Windows of groups end between grains or at a value of a split column, so time and split columns together determine the
 * window of a group. Parts of a chain share no contracts, so the server ignored a filter, or an answer belongs to another
 * request; rows without a contract are ignored.
 * @returns its values by column, and two of the windows that have rows of it
 */
export async function findSplitKey({ engine, job: { source }, table }: StagedTable, passKeys?: number) {
  const hasContracts = source.kind === 'snapshots' && source.columns.some(({ name }) => name === 'option_symbol');
  if (source.kind !== 'aggregate' && !hasContracts) return undefined;
  const names =
    source.kind === 'aggregate' ? [...new Set([source.timeColumn, ...source.keyColumns])] : ['symbol', 'option_symbol'];
  const keys = names.map(quoteIdentifier).join(', ');
  const known = hasContracts ? " AND option_symbol != ''" : '';
  for (const pass of await listPasses(engine, table, keys, passKeys)) {
    const [split] = await engine.rows<{ values: readonly string[]; first: string; last: string }>(
      `SELECT [${names.map((name) => `toString(${quoteIdentifier(name)})`).join(', ')}] AS values, min(${WINDOW_COLUMN}) AS first, max(${WINDOW_COLUMN}) AS last FROM ${table} WHERE ${pass}${known} GROUP BY ${keys} HAVING first != last ORDER BY values LIMIT 1`,
    );
    if (split === undefined) continue;
    const key = Object.fromEntries(names.map((name, index) => [name, split.values[index] ?? '']));
    return { key, windows: [split.first, split.last] as const };
  }
  return undefined;
}

/**
 * The answers of a job of single trades that repeat ids, worst first; empty if none does. Ids are counted by a hash of
 * eight bytes.
 */
export async function listRepeatedIds({
  engine,
  job: { source },
  table,
}: StagedTable): Promise<readonly RepeatedIds[]> {
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

export interface ExampleId {
  readonly id: string;
  readonly rows: number;
  /** Two of its rows, described by their columns beside the id. */
  readonly trades: readonly string[];
}

/** Limits of ids, and of rows of each, that keep a message readable. */
const EXAMPLE_IDS = 3;
const EXAMPLE_ROWS = 2;

/** The most frequent repeated ids of the first pass that finds any. */
export async function listExampleIds({ engine, job: { source }, table }: StagedTable): Promise<readonly ExampleId[]> {
  const shown = ['symbol', 'time', 'option_symbol', 'price', 'size'].filter((name) =>
    source.columns.some((column) => column.name === name),
  );
  const trade = `concat(${["''", ...shown.flatMap((name) => [`ifNull(toString(${quoteIdentifier(name)}), '')`, "' '"])].join(', ')})`;
  for (const pass of await listPasses(engine, table, 'id')) {
    const often = `SELECT id FROM ${table} WHERE ${pass} GROUP BY id HAVING count() > 1 ORDER BY count() DESC, id LIMIT ${EXAMPLE_IDS}`;
    const found = await engine.rows<ExampleId>(
      `SELECT id, count() AS rows, groupArraySorted(${EXAMPLE_ROWS})(${trade}) AS trades FROM ${table} WHERE id IN (${often}) GROUP BY id ORDER BY rows DESC, id`,
    );
    if (found.length === 0) continue;
    return found.map(({ id, rows, trades }) => ({ id, rows: Number(rows), trades: trades.map((one) => one.trim()) }));
  }
  return [];
}

/**
 * Share of a date's rows that may repeat an id, and how many always may, for every kind of source. A source sometimes keeps a
 * corrected row beside the first one; SQL that multiplies rows, or empty ids, repeat half of them.
 */
const MAX_REPEATED_SHARE = 0.05;
const MAX_REPEATED_ROWS = 20;

export function mostRepeated(rows: number): number {
  return Math.max(MAX_REPEATED_ROWS, rows * MAX_REPEATED_SHARE);
}

/** @param what is wrong, in words */
export function repeatedFault(date: string, what: string, examples: readonly ExampleId[], hint: string): Fault {
  const listed = examples.map(
    ({ id, rows, trades }) => `id ${JSON.stringify(id)} has ${rows} rows (${trades.join('; ')})`,
  );
  return new Fault('IDS_REPEATED', `${date}: ${what}. For example: ${listed.join(', ')}`, { hint });
}
