/**
 * The changes of a restatement: the engine compares the rows of two files. Rows are matched by key, and rows with the
 * same key as a multiset, so the counts are exact even if a key repeats. Memory is bounded: keys are split into shares.
 */
import type { Engine } from '../engine/engine.ts';
import { formatSettings, quoteIdentifier } from '../engine/literal.ts';
import { tradeContent } from '../engine/row-hash.ts';
import type { DropChanges } from '../state/documents.ts';
import { READ_BACK_SETTINGS } from './write-parquet.ts';

export interface ComparedFile {
  /** The file as SQL reads it. */
  readonly from: string;
  /** 0: the file is not read, because the engine finds no columns in a file without rows. */
  readonly rows: number;
  readonly columns: readonly string[];
}

/** Rows of both files per pass: the engine takes up to 150 bytes for each. */
const MAX_ROWS_PER_PASS = 1_000_000;

/** @param key columns that identify a row; if neither file has them, whole rows are compared @throws EngineFault */
export async function compareFiles(
  engine: Pick<Engine, 'rows'>,
  before: ComparedFile,
  after: ComparedFile,
  key: readonly string[],
): Promise<DropChanges> {
  const shared = after.columns.filter((name) => before.columns.includes(name));
  const keys = key.filter((name) => shared.includes(name));
  const passes = Math.max(1, Math.ceil((before.rows + after.rows) / MAX_ROWS_PER_PASS));
  const sums = { added: 0, removed: 0, altered: 0 };
  for (let pass = 0; pass < passes; pass += 1) {
    const side = (file: ComparedFile, sign: number) =>
      `SELECT ${hashColumns(keys.length === 0 ? shared : keys)} AS k, ${hashColumns(shared)} AS h, toInt64(${sign}) AS sign FROM ${file.from} WHERE k % ${passes} = ${pass}`;
    const sides = [...(before.rows > 0 ? [side(before, -1)] : []), ...(after.rows > 0 ? [side(after, 1)] : [])];
    if (sides.length === 0) break;
    const rows = `SELECT k, h, sum(sign) AS n FROM (${sides.join(' UNION ALL ')}) GROUP BY k, h HAVING n != 0`;
    const byKey = `SELECT sumIf(n, n > 0) AS fresh, -sumIf(n, n < 0) AS gone, least(fresh, gone) AS both FROM (${rows}) GROUP BY k`;
    const [found] = await engine.rows<Record<keyof typeof sums, number>>(
      `SELECT sum(fresh - both) AS added, sum(gone - both) AS removed, sum(both) AS altered FROM (${byKey}) ${formatSettings(READ_BACK_SETTINGS)}`,
    );
    for (const name of ['added', 'removed', 'altered'] as const) sums[name] += Number(found?.[name] ?? 0);
  }
  return {
    ...sums,
    columns_added: after.columns.filter((name) => !shared.includes(name)),
    columns_removed: before.columns.filter((name) => !shared.includes(name)),
  };
}

/** Trades whose rows have other ids. */
export interface MatchedTrades {
  /** Rows that vanished and have a new row with the same trade: it has another id now. */
  readonly rekeyed: number;
  /** Other new rows, with the trade of a row that stays. */
  readonly repeated: number;
  /** Rows of the file before that share their trade with another one of it: what a feed has by itself. */
  readonly shared: number;
}

/**
 * Matches the rows without a partner of the same id by what they say of their trade. A row that was altered under its id
 * counts as vanished and new here, so the counts are upper bounds. In passes, too. @throws EngineFault
 */
export async function matchTrades(
  engine: Pick<Engine, 'rows'>,
  before: ComparedFile,
  after: ComparedFile,
): Promise<MatchedTrades> {
  const names = after.columns.filter((name) => before.columns.includes(name));
  const passes = Math.max(1, Math.ceil((before.rows + after.rows) / MAX_ROWS_PER_PASS));
  const sums = { rekeyed: 0, repeated: 0, shared: 0 };
  for (let pass = 0; pass < passes; pass += 1) {
    const side = (file: ComparedFile, had: 0 | 1) =>
      `SELECT ${tradeContent(names)} AS c, cityHash64(id) AS k, ${had} AS had FROM ${file.from} WHERE c % ${passes} = ${pass}`;
    const byId = `SELECT c, countIf(had = 1) AS h, countIf(had = 0) AS n FROM (${side(before, 1)} UNION ALL ${side(after, 0)}) GROUP BY c, k`;
    const byTrade = `SELECT sum(h) AS total, sum(least(h, n)) AS stay, total - stay AS gone, sum(n) - stay AS fresh, least(gone, fresh) AS moved FROM (${byId}) GROUP BY c`;
    const [found] = await engine.rows<Record<keyof typeof sums, number>>(
      `SELECT sum(moved) AS rekeyed, sumIf(fresh - moved, stay > 0) AS repeated, sumIf(total, total > 1) AS shared FROM (${byTrade}) ${formatSettings(READ_BACK_SETTINGS)}`,
    );
    for (const name of ['rekeyed', 'repeated', 'shared'] as const) sums[name] += Number(found?.[name] ?? 0);
  }
  return sums;
}

export function isUnchanged(changes: DropChanges): boolean {
  const { added, removed, altered, rekeyed = 0, columns_added, columns_removed } = changes;
  return added + removed + altered + rekeyed + columns_added.length + columns_removed.length === 0;
}

/** Null and empty text are different values. */
function hashColumns(names: readonly string[]): string {
  return `cityHash64(${names.map((name) => `ifNull(toString(${quoteIdentifier(name)}), '\\0')`).join(', ')})`;
}
