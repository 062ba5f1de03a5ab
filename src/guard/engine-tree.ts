/**
 * The engine's trees of a statement, from the lines of an EXPLAIN: the syntax tree (`EXPLAIN AST`), and the query tree, in
 * which every clause has a name, operators and CASE are functions, and intervals and aliases are spelled out. Invariant:
 * depth comes only from the indentation; lines that form no tree are an error, and nothing is guessed.
 */
import { Fault } from '../core/errors.ts';
import type { PooledEngine } from '../engine/pool.ts';

/** An engine that parses texts of callers; it never runs them. */
export type ParserRows = Pick<PooledEngine, 'rows'>;

export interface TreeNode {
  /** `SelectQuery`, `Function`, ...; of a query tree `QUERY`, `FUNCTION`, ..., or a heading such as `WHERE`. */
  readonly kind: string;
  /** In a query tree, by which a column names its table; a heading has none. */
  readonly id?: number | undefined;
  /** The rest of the line: a name or a literal without its alias; of a query tree, attributes. */
  readonly value: string;
  readonly children: readonly TreeNode[];
}

type ReadLine = (text: string) => Omit<TreeNode, 'children'>;

/** @param indent spaces per level @returns `undefined` when the lines do not form one tree */
function parseTree(lines: readonly string[], indent: number, readLine: ReadLine): TreeNode | undefined {
  const path: (TreeNode & { readonly children: TreeNode[] })[] = [];
  let root: TreeNode | undefined;
  for (const line of lines) {
    const text = line.replace(/^ +/, '');
    const depth = (line.length - text.length) / indent;
    if (text === '' || !Number.isInteger(depth) || depth > path.length || (depth === 0 && root)) return undefined;
    const node = { ...readLine(text), children: [] };
    path.length = depth;
    path[depth - 1]?.children.push(node);
    path.push(node);
    root ??= node;
  }
  return root;
}

const SYNTAX_LINE = /^(\S+)(.*?)(?: \(alias .*?\))?(?: \(children \d+\))?$/s;

/** @param lines output of EXPLAIN AST @throws Fault `SYNTAX_TREE_UNKNOWN` */
export function parseSyntaxTree(lines: readonly string[]): TreeNode {
  const tree = parseTree(lines, 1, (text) => {
    const [, kind = '', value = ''] = SYNTAX_LINE.exec(text) ?? [];
    return { kind, value: value.replace(/^ /, '') };
  });
  return tree ?? throwUnknown();
}

const QUERY_LINE = /^([A-Z_ ]+) id: (\d+)(?:, (.*))?$/s;

/** @param lines output of EXPLAIN QUERY TREE @returns `undefined` if its shape is unknown */
export function parseQueryTree(lines: readonly string[]): TreeNode | undefined {
  const solid = lines.filter((line) => line.trim() !== '');
  return parseTree(solid, 2, (text) => {
    const [, kind = text.trimEnd(), id, value = ''] = QUERY_LINE.exec(text) ?? [];
    return { kind, id: id === undefined ? undefined : Number(id), value };
  });
}

/**
 * The query tree before names are resolved: tables need not exist, and nothing is computed.
 * @param select canonical text without FORMAT and INTO OUTFILE. Its quoted names contain no comma, because the tree
 *   prints names without quotes
 * @returns the node of `select` itself; `UNION` if it has several SELECTs
 * @throws EngineFault, Fault `SYNTAX_TREE_UNKNOWN`
 */
export async function readQueryTree(engine: ParserRows, select: string): Promise<TreeNode> {
  // Inside a subquery, the statement's SETTINGS do not apply to the EXPLAIN.
  const lines = await engine.rows<{ explain: string }>(`EXPLAIN QUERY TREE run_passes = 0 SELECT * FROM (${select})`);
  const tree = parseQueryTree(lines.map(({ explain }) => explain));
  const [query, ...others] = tree ? childrenUnder(tree, 'JOIN TREE') : [];
  return query === undefined || others.length > 0 ? throwUnknown() : query;
}

/** The node and all its descendants, in text order. With `expressions`, subqueries are included but not their contents. */
export function* walkTree(node: TreeNode, into: 'subqueries' | 'expressions' = 'subqueries'): Generator<TreeNode> {
  yield node;
  for (const child of node.children) {
    if (into === 'expressions' && (child.kind === 'QUERY' || child.kind === 'UNION')) yield child;
    else yield* walkTree(child, into);
  }
}

/** The nodes below a heading; for a list, its items. */
export function childrenUnder(node: TreeNode, heading: string): readonly TreeNode[] {
  const found = node.children.filter(({ kind }) => kind === heading).flatMap(({ children }) => children);
  return found.flatMap((child) => (child.kind === 'LIST' ? child.children : [child]));
}

/** The arguments of a function of a query tree. */
export function argumentsOf(node: TreeNode): readonly TreeNode[] {
  return childrenUnder(node, 'ARGUMENTS');
}

/** Only the value can contain a comma. */
const CONSTANT = /^(?:alias: ([^,]+), )?constant_value: (.*), constant_value_type: (.*?)$/s;

/** The attributes of a node of a tree of `readQueryTree`. @throws Fault `SYNTAX_TREE_UNKNOWN` */
export function attributesOf({ kind, value: text }: TreeNode): ReadonlyMap<string, string> {
  if (kind === 'CONSTANT') {
    const [, alias, value, type] = CONSTANT.exec(text) ?? [];
    if (value === undefined || type === undefined) throwUnknown();
    const attributes = new Map([
      ['constant_value', value],
      ['constant_value_type', type],
    ]);
    return alias === undefined ? attributes : attributes.set('alias', alias);
  }
  const pairs = text === '' ? [] : text.split(', ');
  return new Map(
    pairs.map((pair): [string, string] => {
      const at = pair.indexOf(': ');
      return at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 2)];
    }),
  );
}

export function aliasOf(node: TreeNode): string | undefined {
  return attributesOf(node).get('alias');
}

/** The name of a called function; `undefined` for other nodes. */
export function functionOf(node: TreeNode): string | undefined {
  return attributesOf(node).get('function_name');
}

/** A column as written, with or without its table; `undefined` for other nodes. */
export function identifierOf(node: TreeNode): string | undefined {
  return node.kind === 'IDENTIFIER' ? attributesOf(node).get('identifier') : undefined;
}

/** The value of a text literal. */
export function textOf(node: TreeNode): string | undefined {
  const quoted = /^'(.*)'$/s.exec(attributesOf(node).get('constant_value') ?? '')?.[1];
  return quoted?.replace(/\\(.)/gs, '$1');
}

/** The value of a literal that is a whole number, 0 or more. */
export function numberOf(node: TreeNode): number | undefined {
  const digits = /^UInt64_(\d+)$/.exec(attributesOf(node).get('constant_value') ?? '')?.[1];
  return digits === undefined ? undefined : Number(digits);
}

function throwUnknown(): never {
  throw new Fault('SYNTAX_TREE_UNKNOWN', 'the engine described the statement in an unknown form');
}
