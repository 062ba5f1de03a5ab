/**
 * Asks the engine what an admitted statement reads. Invariant: the statement is resolved against empty tables, so no
 * value that the engine computes from them may count. If a statement could make it compute one, all dates are read.
 */
import { EngineFault } from '../engine/engine-fault.ts';
import type { PooledEngine } from '../engine/pool.ts';
import { parseSelect } from '../guard/guarded-statement.ts';
import type { SyntaxNode } from '../guard/syntax-tree.ts';
import { listReads, type ReadableTable, type TableRead, wholeRead } from './reads.ts';
import { parseQueryTree } from './resolved-query.ts';

/** Functions whose right side is a set, which the engine does not compute while it resolves. */
const TAKES_SET = /^(global)?(not)?(null)?in(ignoreset)?$/i;
/**
 * Names whose value can change between resolving and running: the time, random values, and functions that show how a
 * column is stored, because the empty tables store columns differently. Not `today` and `yesterday`: the caller sees to
 * it that the day is the same.
 */
const MOVES = /^(now|curdate|current|utc|local|time|rand|generate|totypename|tocolumntypename|isconstant)/i;

/**
 * @param tables of ours that the statement may read
 * @returns `undefined` if the engine rejects the statement: it is wrong, or the empty tables lack a column
 * @throws EngineFault only if the engine is gone
 */
export async function resolveReads(
  engine: PooledEngine,
  admitted: string,
  tables: readonly ReadableTable[],
): Promise<readonly TableRead[] | undefined> {
  const whole = readAll(tables);
  const { tree } = await parseSelect(engine, admitted);
  if (isComputed(tree, new Set(tables.flatMap(({ columns }) => columns)))) return whole;
  try {
    const lines = await engine.rows<{ explain: string }>(`EXPLAIN QUERY TREE ${admitted}`);
    const root = parseQueryTree(lines.map(({ explain }) => explain));
    return (root && listReads(root, tables)) ?? whole;
  } catch (error) {
    if (error instanceof EngineFault && error.clickhouseCode !== 0) return undefined;
    throw error;
  }
}

/** Reads of everything, for a statement about which nothing is known. */
export function readAll(tables: readonly ReadableTable[]): readonly TableRead[] {
  return tables.map(({ name }) => wholeRead(name));
}

/**
 * Whether a value in the statement is known only when it runs: a subquery that is not a table, or a name in `MOVES`
 * other than a column's.
 */
function isComputed(node: SyntaxNode, columns: ReadonlySet<string>, isTable = false): boolean {
  const isOne = (child: SyntaxNode, holdsTable = false) => isComputed(child, columns, holdsTable);
  if (node.kind === 'Subquery' && !isTable) return true;
  if (node.kind === 'Function' && MOVES.test(node.value)) return true;
  if (node.kind === 'Identifier' && MOVES.test(node.value) && !columns.has(node.value)) return true;
  const holdsTables = node.kind === 'TableExpression' || node.kind === 'WithElement';
  if (node.kind === 'Function' && TAKES_SET.test(node.value)) {
    const [value, set, ...rest] = node.children[0]?.children ?? [];
    const others = [value, ...rest, ...node.children.slice(1)].filter((child) => child !== undefined);
    return (set !== undefined && isOne(set, true)) || others.some((child) => isOne(child));
  }
  return node.children.some((child) => isOne(child, holdsTables));
}
