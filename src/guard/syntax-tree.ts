/**
 * The engine's syntax tree of a statement, from the lines of `EXPLAIN AST`. Invariant: depth comes from the indentation
 * and nothing is guessed; a line that is not understood is an error. Pure.
 */
import { Fault } from '../core/errors.ts';

export interface SyntaxNode {
  /** `SelectQuery`, `Function`, `TableIdentifier`, ... */
  readonly kind: string;
  /** What stands behind the kind, without the alias: a name, a literal. */
  readonly value: string;
  readonly children: readonly SyntaxNode[];
}

interface OpenNode extends SyntaxNode {
  readonly children: SyntaxNode[];
}

const LINE = /^( *)(\S+)(.*?)(?: \(alias .*?\))?(?: \(children \d+\))?$/s;

/** @throws Fault `SYNTAX_TREE_UNKNOWN` */
export function parseSyntaxTree(lines: readonly string[]): SyntaxNode {
  const path: OpenNode[] = [];
  let root: SyntaxNode | undefined;
  for (const line of lines) {
    const [, indent, kind, value] = LINE.exec(line) ?? [];
    if (indent === undefined || kind === undefined || value === undefined || indent.length > path.length) {
      throw new Fault('SYNTAX_TREE_UNKNOWN', 'the engine describes a syntax tree in a way that is not known');
    }
    const node: OpenNode = { kind, value: value.replace(/^ /, ''), children: [] };
    path.length = indent.length;
    path[path.length - 1]?.children.push(node);
    path.push(node);
    root ??= node;
  }
  if (!root) throw new Fault('SYNTAX_TREE_UNKNOWN', 'the engine describes no syntax tree');
  return root;
}

/** The node and everything under it, in the order of the text. */
export function* walkTree(node: SyntaxNode): Generator<SyntaxNode> {
  yield node;
  for (const child of node.children) yield* walkTree(child);
}
