/**
 * The engine's syntax tree of a statement, from the lines of `EXPLAIN AST`. Invariant: depth comes only from the
 * indentation; nothing is guessed, and an unknown line format is an error. Pure.
 */
import { Fault } from '../core/errors.ts';
import { type OutlineNode, parseOutline } from './outline.ts';

export interface SyntaxNode {
  /** `SelectQuery`, `Function`, `TableIdentifier`, ... */
  readonly kind: string;
  /** The text after the kind, without the alias: a name or a literal. */
  readonly value: string;
  readonly children: readonly SyntaxNode[];
}

const INDENT = 1;
const LINE = /^(\S+)(.*?)(?: \(alias .*?\))?(?: \(children \d+\))?$/s;

/** @throws Fault `SYNTAX_TREE_UNKNOWN` */
export function parseSyntaxTree(lines: readonly string[]): SyntaxNode {
  const outline = parseOutline(lines, INDENT);
  if (!outline) {
    throw new Fault('SYNTAX_TREE_UNKNOWN', 'the engine returned no syntax tree, or one in an unknown form');
  }
  return readNode(outline);
}

function readNode({ text, children }: OutlineNode): SyntaxNode {
  const [, kind = '', value = ''] = LINE.exec(text) ?? [];
  return { kind, value: value.replace(/^ /, ''), children: children.map(readNode) };
}

/** The node and all its descendants, in text order. */
export function* walkTree(node: SyntaxNode): Generator<SyntaxNode> {
  yield node;
  for (const child of node.children) yield* walkTree(child);
}

/** Tables, and right sides of IN, which may be tables. */
const TABLE_NODES: ReadonlySet<string> = new Set(['Identifier', 'TableIdentifier']);

/**
 * Counts the table reads after named subqueries are expanded wherever they are used. The count is never too small; the
 * cost is linear in the tree.
 * @param subqueries names of the common table expressions, lower case, in text order
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
      // Nested scopes may define the same name twice: count the more expensive one.
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
