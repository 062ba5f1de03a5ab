/**
 * What the nodes of the engine's resolved query mean, from `EXPLAIN QUERY TREE`: which tables are read, and under which
 * conditions. The engine itself resolves names, aliases and scopes. Invariant: a line counts as a column, literal or table
 * only if the whole line matches; every other line has no meaning. Pure.
 */
import { childrenUnder, type TreeNode } from '../guard/engine-tree.ts';

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
export function numberOf(node: TreeNode | undefined): string | undefined {
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
