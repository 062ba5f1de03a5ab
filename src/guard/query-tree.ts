/**
 * A statement as the engine's planner receives it, before names are resolved (`EXPLAIN QUERY TREE run_passes = 0`):
 * every clause by name, operators and CASE as functions, intervals and aliases spelled out. Tables need not exist, and
 * nothing is computed. Invariant: an unknown line format is an error.
 */
import { Fault } from '../core/errors.ts';
import { type OutlineNode, parseOutline } from './outline.ts';
import type { ParserRows } from './parser.ts';

export interface QueryNode {
  /** `QUERY`, `IDENTIFIER`, `FUNCTION`, `CONSTANT`, ..., or a clause heading such as `WHERE`. */
  readonly kind: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly QueryNode[];
}

const INDENT = 2;
/** Headings have no id. */
const NODE = /^([A-Z_ ]+) id: \d+(?:, (.*))?$/s;
/** Only the value can contain a comma. */
const CONSTANT = /^(?:alias: ([^,]+), )?constant_value: (.*), constant_value_type: (.*?)$/s;

/**
 * @param select canonical text without FORMAT and INTO OUTFILE. Its quoted names contain no comma, because the tree
 *   prints names without quotes
 * @returns the node of `select` itself; `UNION` if it has several SELECTs
 * @throws EngineFault, Fault `SYNTAX_TREE_UNKNOWN`
 */
export async function readQueryTree(engine: ParserRows, select: string): Promise<QueryNode> {
  // Inside a subquery, the statement's SETTINGS do not apply to the EXPLAIN.
  const lines = await engine.rows<{ explain: string }>(`EXPLAIN QUERY TREE run_passes = 0 SELECT * FROM (${select})`);
  const outline = parseOutline(
    lines.map(({ explain }) => explain).filter((line) => line.trim() !== ''),
    INDENT,
  );
  const [query, ...others] = outline ? childrenUnder(readNode(outline), 'JOIN TREE') : [];
  if (query === undefined || others.length > 0) throw unknownTree();
  return query;
}

/** The nodes below a heading; for a list, its items. */
export function childrenUnder(node: QueryNode, heading: string): readonly QueryNode[] {
  const found = node.children.filter(({ kind }) => kind === heading).flatMap(({ children }) => children);
  return found.flatMap((child) => (child.kind === 'LIST' ? child.children : [child]));
}

/** The node and all its descendants. With `expressions`, subqueries are included but not their contents. */
export function* walkQuery(node: QueryNode, into: 'subqueries' | 'expressions'): Generator<QueryNode> {
  yield node;
  for (const child of node.children) {
    const isSubquery = child.kind === 'QUERY' || child.kind === 'UNION';
    if (isSubquery && into === 'expressions') yield child;
    else yield* walkQuery(child, into);
  }
}

export function aliasOf({ attributes }: QueryNode): string | undefined {
  return attributes.get('alias');
}

/** The name of a called function; `undefined` for other nodes. */
export function functionOf({ attributes }: QueryNode): string | undefined {
  return attributes.get('function_name');
}

export function argumentsOf(node: QueryNode): readonly QueryNode[] {
  return childrenUnder(node, 'ARGUMENTS');
}

/** A column as written, with or without its table; `undefined` for other nodes. */
export function identifierOf({ kind, attributes }: QueryNode): string | undefined {
  return kind === 'IDENTIFIER' ? attributes.get('identifier') : undefined;
}

/** The value of a text literal. */
export function textOf({ attributes }: QueryNode): string | undefined {
  const quoted = /^'(.*)'$/s.exec(attributes.get('constant_value') ?? '')?.[1];
  return quoted?.replace(/\\(.)/gs, '$1');
}

/** The value of a literal that is a whole number, 0 or more. */
export function numberOf({ attributes }: QueryNode): number | undefined {
  const digits = /^UInt64_(\d+)$/.exec(attributes.get('constant_value') ?? '')?.[1];
  return digits === undefined ? undefined : Number(digits);
}

function readNode({ text, children }: OutlineNode): QueryNode {
  const [, kind, rest = ''] = NODE.exec(text) ?? [];
  return {
    kind: kind ?? text.trimEnd(),
    attributes: kind === undefined ? new Map() : readAttributes(kind, rest),
    children: children.map(readNode),
  };
}

function readAttributes(kind: string, text: string): ReadonlyMap<string, string> {
  if (kind === 'CONSTANT') {
    const [, alias, value, type] = CONSTANT.exec(text) ?? [];
    if (value === undefined || type === undefined) throw unknownTree();
    const attributes = new Map([
      ['constant_value', value],
      ['constant_value_type', type],
    ]);
    return alias === undefined ? attributes : attributes.set('alias', alias);
  }
  return new Map(
    text.split(', ').map((pair): [string, string] => {
      const at = pair.indexOf(': ');
      return at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 2)];
    }),
  );
}

function unknownTree(): Fault {
  return new Fault('SYNTAX_TREE_UNKNOWN', 'the engine described the query in an unknown form');
}
