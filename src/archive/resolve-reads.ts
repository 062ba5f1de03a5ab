/**
 * Asks the engine what an admitted statement reads. Invariant: the statement is resolved against empty tables, so nothing
 * that the engine computed from them may count; where a statement could make it compute, all dates are read.
 */
import { EngineFault } from '../engine/engine-fault.ts';
import type { PooledEngine } from '../engine/pool.ts';
import { parseSelect } from '../guard/guarded-statement.ts';
import type { SyntaxNode } from '../guard/syntax-tree.ts';
import { listReads, type TableRead, wholeRead } from './reads.ts';
import { parseQueryTree } from './resolved-query.ts';
import { TRADE_TABLES } from './sealed-tables.ts';

/** Where the right side is a set, which the engine does not compute while it resolves. */
const TAKES_SET = /^(global)?(not)?(null)?in(ignoreset)?$/i;
/**
 * What has another value when the statement runs than when it is resolved: the time, chance, and what tells how a column
 * is held, which the empty tables hold otherwise.
 */
const MOVES =
  /^(now|today|yesterday|curdate|current|utc|local|time|rand|generate|totypename|tocolumntypename|isconstant)/i;

/**
 * @returns `undefined` when the engine does not take the statement: it is wrong, or the empty tables lack a column
 * @throws EngineFault only when the engine is gone
 */
export async function resolveReads(engine: PooledEngine, admitted: string): Promise<readonly TableRead[] | undefined> {
  const whole = readAll();
  const { tree } = await parseSelect(engine, admitted);
  if (isComputed(tree)) return whole;
  try {
    const lines = await engine.rows<{ explain: string }>(`EXPLAIN QUERY TREE ${admitted}`);
    const root = parseQueryTree(lines.map(({ explain }) => explain));
    return (root && listReads(root)) ?? whole;
  } catch (error) {
    if (error instanceof EngineFault && error.clickhouseCode !== 0) return undefined;
    throw error;
  }
}

/** For a statement about which nothing is known. */
export function readAll(): readonly TableRead[] {
  return TRADE_TABLES.map(wholeRead);
}

/** Whether some value in the statement is known only when it runs: a subquery that is not a table, or what `MOVES`. */
function isComputed(node: SyntaxNode, isTable = false): boolean {
  if (node.kind === 'Subquery' && !isTable) return true;
  if (node.kind === 'Function' && MOVES.test(node.value)) return true;
  if (node.kind === 'Identifier' && MOVES.test(node.value) && node.value !== 'time') return true;
  const holdsTables = node.kind === 'TableExpression' || node.kind === 'WithElement';
  if (node.kind === 'Function' && TAKES_SET.test(node.value)) {
    const [value, set, ...rest] = node.children[0]?.children ?? [];
    const others = [value, ...rest, ...node.children.slice(1)].filter((child) => child !== undefined);
    return (set !== undefined && isComputed(set, true)) || others.some((child) => isComputed(child));
  }
  return node.children.some((child) => isComputed(child, holdsTables));
}
