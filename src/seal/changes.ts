/**
 * The changes of a restatement: the engine compares the rows of two files. Rows are matched by key, and rows with the
 * same key as a multiset, so the counts are exact even if a key repeats. Memory is bounded: keys are split into shares.
 */
import type { Engine } from '../engine/engine.ts';
import { formatSettings, quoteIdentifier } from '../engine/literal.ts';
import type { DropChanges } from '../state/row-changes.ts';
import { TIME_DIGITS } from './drop-columns.ts';
import { READ_BACK_SETTINGS } from './write-parquet.ts';

interface ComparedFile {
  /** The file as SQL reads it. */
  readonly from: string;
  /** 0: the file is not read, because the engine finds no columns in a file without rows. */
  readonly rows: number;
  readonly columns: readonly string[];
  /** Columns with timestamps, which another version may have written with other digits. */
  readonly times?: readonly string[] | undefined;
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
      `SELECT ${hashColumns(keys.length === 0 ? shared : keys, file)} AS k, ${hashColumns(shared, file)} AS h, toInt64(${sign}) AS sign FROM ${file.from} WHERE k % ${passes} = ${pass}`;
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

export function isUnchanged(changes: DropChanges): boolean {
  const { added, removed, altered, columns_added, columns_removed } = changes;
  return added + removed + altered + columns_added.length + columns_removed.length === 0;
}

/** Null and empty text are different values. */
function hashColumns(names: readonly string[], { times = [] }: ComparedFile): string {
  const expressionOf = (name: string) =>
    times.includes(name) ? `toDateTime64(${quoteIdentifier(name)}, ${TIME_DIGITS}, 'UTC')` : quoteIdentifier(name);
  return `cityHash64(${names.map((name) => `ifNull(toString(${expressionOf(name)}), '\\0')`).join(', ')})`;
}
