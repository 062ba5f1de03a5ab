/**
 * How many readings of tables a statement becomes once its named subqueries stand wherever they are used. Invariant: the
 * answer is never too small; the work is linear in the syntax tree. Pure.
 */
import type { SyntaxNode } from './syntax-tree.ts';

/** Tables, and the right sides of IN, which may be tables. */
const TABLE_NODES: ReadonlySet<string> = new Set(['Identifier', 'TableIdentifier']);

/**
 * @param subqueries names of the common table expressions, lower case, in the order of the text
 */
export function countTableReads(tree: SyntaxNode, subqueries: readonly string[]): number {
  const reads = new Map<string, number>();
  let next = 0;
  return count(tree);

  function count(node: SyntaxNode): number {
    if (node.kind === 'WithElement') {
      const name = subqueries[next] ?? '';
      next += 1;
      const inside = sum(node.children);
      // A name may be given twice in nested scopes: the costlier one counts.
      reads.set(name, Math.max(inside, reads.get(name) ?? 0));
      return 0;
    }
    const inside = sum(node.children);
    if (!TABLE_NODES.has(node.kind)) return inside;
    const own = reads.get(node.value.toLowerCase()) ?? (node.kind === 'TableIdentifier' ? 1 : 0);
    return inside + own;
  }

  function sum(nodes: readonly SyntaxNode[]): number {
    return nodes.reduce((total, node) => total + count(node), 0);
  }
}
