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

/** Functions whose second argument is a set, which may be a table name. */
export const TAKES_SET = /^(global)?(not)?(null)?in(ignoreset)?$/i;

type ReadLine = (text: string) => Omit<TreeNode, 'children'>;

async function explain(engine: ParserRows, what: string): Promise<readonly string[]> {
  const lines = await engine.rows<{ explain: string }>(`EXPLAIN ${what}`);
  return lines.map((line) => line.explain);
}

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

/**
 * The syntax tree of a SELECT in canonical text. It stands in parentheses, so that EXPLAIN describes all of it and nothing
 * else: otherwise its SETTINGS would also apply to the EXPLAIN, and its FORMAT and INTO OUTFILE would belong to it.
 * @throws EngineFault, Fault `SYNTAX_TREE_UNKNOWN`
 */
export async function readSyntaxTree(engine: ParserRows, select: string): Promise<TreeNode> {
  const tree = parseTree(await explain(engine, `AST SELECT * FROM (${select})`), 1, (text) => {
    const [, kind = '', value = ''] = SYNTAX_LINE.exec(text) ?? [];
    return { kind, value: value.replace(/^ /, '') };
  });
  return tree ?? throwUnknown();
}

const QUERY_LINE = /^([A-Z_ ]+) id: (\d+)(?:, (.*))?$/s;

/**
 * The query tree of a statement whose names the engine resolves, in the current database.
 * @returns `undefined` if its shape is unknown @throws EngineFault if the statement is wrong
 */
export async function readResolvedTree(engine: ParserRows, select: string): Promise<TreeNode | undefined> {
  return parseQueryTree(await explain(engine, `QUERY TREE ${select}`));
}

function parseQueryTree(lines: readonly string[]): TreeNode | undefined {
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
  const tree = parseQueryTree(await explain(engine, `QUERY TREE run_passes = 0 SELECT * FROM (${select})`));
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

// Of a resolved query, in which the engine itself has resolved names, aliases and scopes: which tables are read, and under
// which conditions. A line counts as a column, literal or table only if the whole line matches; every other has no meaning.

interface ColumnNode {
  readonly name: string;
  readonly type: string;
  /** Id of its table. */
  readonly source: number;
}

const TEXT = `'[^'\\\\]*'`;
const COLUMN = /^column_name: (\w+), result_type: (.*), source_id: (\d+)$/;
const LITERAL = new RegExp(`^constant_value: (${TEXT}), constant_value_type: String$`);
const LIST = new RegExp(
  `^constant_value: (?:Tuple_\\(|Array_\\[)(${TEXT}(?:, ${TEXT})*)[)\\]], constant_value_type: (?:Tuple\\((?:String|, )+\\)|Array\\(String\\))$`,
);
const NUMBER = /^constant_value: (?:U?Int64|Float64)_(-?\d+(?:\.\d+)?), constant_value_type: \w+$/;
/** Days, seconds or seconds with a fraction since the epoch, in UTC. */
const MOMENT =
  /^constant_value: U?Int64_(\d+), constant_value_type: (Date|Date32|DateTime)$|^constant_value: Decimal64_'(\d+)(?:\.0+)?', constant_value_type: DateTime64\(\d\)$/;
/** Functions whose value depends only on their arguments, as a date or time is written with them. */
const MOMENT_FUNCTION =
  /^(today|yesterday|_?CAST|toDate|toDate32|toDateTime|toDateTime64|makeDate|makeDate32|plus|minus|toInterval\w+|(add|subtract)(Second|Minute|Hour|Day|Week|Month|Quarter|Year)s|toStartOf(Month|Quarter|Year)|toMonday)$/;
const FUNCTION = /^function_name: (\w+), function_type: ordinary\b/;
const TABLE = /^(?:alias: \w+, )?table_name: \w+\.([\w-]+)$/;
/** The table that a statement without FROM reads: one dummy row. */
const NO_TABLE = /^(?:alias: \w+, )?table_name: system\.one$/;
/** The kind of a join that matches all rows. */
const JOIN = /^strictness: (?:ALL|UNSPECIFIED), kind: (\w+)/;
/** What joins, holds and computes a date or time, besides functions. */
const WRITTEN: readonly string[] = ['EXPRESSION', 'ARGUMENTS', 'LIST', 'CONSTANT'];

/** The column that a node is. */
export function columnOf(node: TreeNode | undefined): ColumnNode | undefined {
  const [, name, type, source] = (node?.kind === 'COLUMN' && COLUMN.exec(node.value)) || [];
  return name === undefined || type === undefined ? undefined : { name, type, source: Number(source) };
}

/** The columns of the table `id` below a node; `undefined` if one of them is not understood. */
export function columnsOf(node: TreeNode, id: number): readonly string[] | undefined {
  const found = new Set<string>();
  const visit = (each: TreeNode): boolean => {
    const column = columnOf(each);
    if (column?.source === id) found.add(column.name);
    return (column !== undefined || each.kind !== 'COLUMN') && each.children.every(visit);
  };
  return visit(node) ? [...found] : undefined;
}

/** The table that a node reads: its name, or no name without FROM; `undefined` if it reads no table that is known. */
export function tableOf({ kind, value }: TreeNode): string | undefined {
  if (kind !== 'TABLE') return undefined;
  return NO_TABLE.test(value) ? '' : TABLE.exec(value)?.[1];
}

/** The name of an ordinary function that a node calls. */
export function calledOf({ kind, value }: TreeNode): string | undefined {
  return kind === 'FUNCTION' ? FUNCTION.exec(value)?.[1] : undefined;
}

/** The sides of a join that a node is: INNER, LEFT, ...; `undefined` of one that does not match all rows. */
export function joinOf({ kind, value }: TreeNode): string | undefined {
  return kind === 'JOIN' ? JOIN.exec(value)?.[1] : undefined;
}

/** The texts of a literal or a list of literals. A computed value has its expression as a child, and gives `undefined`. */
export function textsOf(node: TreeNode | undefined): readonly string[] | undefined {
  const value = literalOf(node);
  const texts = value === undefined ? undefined : (LITERAL.exec(value) ?? LIST.exec(value))?.[1];
  return texts === undefined
    ? undefined
    : Array.from(texts.matchAll(new RegExp(TEXT, 'g')), ([quoted]) => quoted.slice(1, -1));
}

/** A number that is written as such, in the engine's own text. */
export function numberTextOf(node: TreeNode | undefined): string | undefined {
  return NUMBER.exec(literalOf(node) ?? '')?.[1];
}

function literalOf(node: TreeNode | undefined): string | undefined {
  return node?.kind === 'CONSTANT' && node.children.length === 0 ? node.value : undefined;
}

/**
 * The text of a date or time that is written as such, or computed from what is written: `2026-11-19` of days,
 * `2026-11-19 09:30:00` of seconds.
 */
export function momentOf(node: TreeNode | undefined): string | undefined {
  const [, value, type = 'DateTime64', seconds = ''] = (node?.kind === 'CONSTANT' && MOMENT.exec(node.value)) || [];
  if (!(value ?? seconds) || !node?.children.every(isWritten)) return undefined;
  const isDay = type === 'Date' || type === 'Date32';
  const text = new Date(Number(value ?? seconds) * (isDay ? 86_400_000 : 1_000)).toISOString();
  return isDay ? text.slice(0, 10) : text.slice(0, 19).replace('T', ' ');
}

function isWritten(node: TreeNode): boolean {
  const isKnown = node.kind === 'FUNCTION' ? MOMENT_FUNCTION.test(calledOf(node) ?? '') : WRITTEN.includes(node.kind);
  return isKnown && node.children.every(isWritten);
}

/** The conditions of a query. */
export function conditionsOf(query: TreeNode): readonly TreeNode[] {
  return [...childrenUnder(query, 'WHERE'), ...childrenUnder(query, 'PREWHERE')];
}
