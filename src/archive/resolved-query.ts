/**
 * The engine's resolved query, from the lines of `EXPLAIN QUERY TREE`: which tables are read, and under which
 * conditions. The engine itself resolves names, aliases and scopes. Invariant: a line counts as a column, literal or
 * table only if the whole line matches; every other line has kind `other` and no meaning. Pure.
 */
import { type OutlineNode, parseOutline } from '../guard/outline.ts';

export type TreeNode = (
  | { readonly kind: 'column'; readonly name: string; readonly source: number }
  /** Texts: one for a literal, several for a list. A value that the engine computed has children; see `textsOf`. */
  | { readonly kind: 'text'; readonly values: readonly string[] }
  | { readonly kind: 'function'; readonly name: string }
  | { readonly kind: 'table'; readonly id: number; readonly name: string }
  | { readonly kind: 'join'; readonly join: string; readonly isPlain: boolean }
  | { readonly kind: 'query' }
  /** A heading such as WHERE, or a node that is not interpreted. */
  | { readonly kind: 'other'; readonly text: string }
) & { readonly children: readonly TreeNode[] };

const INDENT = 2;
const TEXT = `'[^'\\\\]*'`;
const COLUMN = /^COLUMN id: \d+, column_name: (\w+), result_type: String, source_id: (\d+)$/;
const LITERAL = new RegExp(`^CONSTANT id: \\d+, constant_value: (${TEXT}), constant_value_type: String$`);
const LIST = new RegExp(
  `^CONSTANT id: \\d+, constant_value: (?:Tuple_\\(|Array_\\[)(${TEXT}(?:, ${TEXT})*)[)\\]], constant_value_type: (?:Tuple\\((?:String|, )+\\)|Array\\(String\\))$`,
);
const FUNCTION = /^FUNCTION id: \d+, function_name: (\w+), function_type: ordinary\b/;
const TABLE = /^TABLE id: (\d+), (?:alias: \w+, )?table_name: \w+\.(\w+)$/;
/** The table that a statement without FROM reads: one dummy row. */
const NO_TABLE = /^TABLE id: \d+, (?:alias: \w+, )?table_name: system\.one$/;
const JOIN = /^JOIN id: \d+, strictness: (\w+), kind: (\w+)/;

/** @param lines output of EXPLAIN QUERY TREE @returns `undefined` if its shape is unknown */
export function parseQueryTree(lines: readonly string[]): TreeNode | undefined {
  const outline = parseOutline(
    lines.filter((line) => line.trim() !== ''),
    INDENT,
  );
  return outline && readNode(outline);
}

/** The children under the heading `name` of a query, a function or a join. */
export function childrenUnder(node: TreeNode, name: string): readonly TreeNode[] {
  return node.children.flatMap((child) => (child.kind === 'other' && child.text === name ? child.children : []));
}

/** The arguments of a function. */
export function argumentsOf(node: TreeNode): readonly TreeNode[] {
  return childrenUnder(node, 'ARGUMENTS').flatMap((list) => list.children);
}

/**
 * The texts of a literal or a list of literals. A computed value has its expression as a child, and gives `undefined`.
 */
export function textsOf(node: TreeNode | undefined): readonly string[] | undefined {
  return node?.kind === 'text' && node.children.length === 0 ? node.values : undefined;
}

function readNode({ text, children: below }: OutlineNode): TreeNode {
  const children = below.map(readNode);
  const column = COLUMN.exec(text);
  if (column) return { kind: 'column', name: column[1] ?? '', source: Number(column[2]), children };
  const texts = (LITERAL.exec(text) ?? LIST.exec(text))?.[1];
  if (texts !== undefined) {
    const values = Array.from(texts.matchAll(new RegExp(TEXT, 'g')), ([quoted]) => quoted.slice(1, -1));
    return { kind: 'text', values, children };
  }
  const called = FUNCTION.exec(text)?.[1];
  if (called !== undefined) return { kind: 'function', name: called, children };
  if (NO_TABLE.test(text)) return { kind: 'other', text: 'NO TABLE', children };
  const table = TABLE.exec(text);
  if (table) return { kind: 'table', id: Number(table[1]), name: table[2] ?? '', children };
  const join = JOIN.exec(text);
  if (join) return { kind: 'join', join: join[2] ?? '', isPlain: /^(ALL|UNSPECIFIED)$/.test(join[1] ?? ''), children };
  if (text.startsWith('QUERY id: ')) return { kind: 'query', children };
  return { kind: 'other', text, children };
}
