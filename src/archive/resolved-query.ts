/**
 * The engine's resolved query, from the lines of `EXPLAIN QUERY TREE`: which tables are read, and under which
 * conditions. The engine itself resolves names, aliases and scopes. Invariant: a line counts as a column, literal or
 * table only if the whole line matches; every other line has kind `other` and no meaning. Pure.
 */
import { type OutlineNode, parseOutline } from '../guard/outline.ts';

/** Of the columns with a meaning here: text, or of the archive's own types. */
export type ColumnType = 'String' | 'Date32' | 'DateTime64(6)';

export type TreeNode = (
  | { readonly kind: 'column'; readonly name: string; readonly type: ColumnType; readonly source: number }
  /** Texts: one for a literal, several for a list. A value that the engine computed has children; see `textsOf`. */
  | { readonly kind: 'text'; readonly values: readonly string[] }
  /** A date or a time, as the text that a column of its type compares with; see `momentOf`. */
  | { readonly kind: 'moment'; readonly text: string }
  | { readonly kind: 'function'; readonly name: string }
  | { readonly kind: 'table'; readonly id: number; readonly name: string }
  | { readonly kind: 'join'; readonly join: string; readonly isPlain: boolean }
  /** `isPlain`: without DISTINCT, ties, sets of groups and other marks. */
  | { readonly kind: 'query'; readonly isPlain: boolean }
  /** A heading such as WHERE, or a node that is not interpreted. */
  | { readonly kind: 'other'; readonly text: string }
) & { readonly children: readonly TreeNode[] };

const INDENT = 2;
const TEXT = `'[^'\\\\]*'`;
const COLUMN = /^COLUMN id: \d+, column_name: (\w+), result_type: (String|Date32|DateTime64\(6\)), source_id: (\d+)$/;
const LITERAL = new RegExp(`^CONSTANT id: \\d+, constant_value: (${TEXT}), constant_value_type: String$`);
const LIST = new RegExp(
  `^CONSTANT id: \\d+, constant_value: (?:Tuple_\\(|Array_\\[)(${TEXT}(?:, ${TEXT})*)[)\\]], constant_value_type: (?:Tuple\\((?:String|, )+\\)|Array\\(String\\))$`,
);
const ANY_COLUMN = /^COLUMN id: \d+, column_name: (\w+), result_type: .*, source_id: (\d+)$/;
const NUMBER = /^CONSTANT id: \d+, constant_value: (?:U?Int64|Float64)_(-?\d+(?:\.\d+)?), constant_value_type: \w+$/;
/** Days, seconds or seconds with a fraction since the epoch, in UTC. */
const MOMENT =
  /^CONSTANT id: \d+, constant_value: U?Int64_(\d+), constant_value_type: (Date|Date32|DateTime)$|^CONSTANT id: \d+, constant_value: Decimal64_'(\d+)(?:\.0+)?', constant_value_type: DateTime64\(\d\)$/;
/** Functions whose value depends only on their arguments, as a date or time is written with them. */
const MOMENT_FUNCTION =
  /^(today|yesterday|_?CAST|toDate|toDate32|toDateTime|toDateTime64|makeDate|makeDate32|plus|minus|toInterval\w+|(add|subtract)(Second|Minute|Hour|Day|Week|Month|Quarter|Year)s|toStartOf(Month|Quarter|Year)|toMonday)$/;
const FUNCTION = /^FUNCTION id: \d+, function_name: (\w+), function_type: ordinary\b/;
const TABLE = /^TABLE id: (\d+), (?:alias: \w+, )?table_name: \w+\.([\w-]+)$/;
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

/** The column that a node is, of any type. */
export function columnOf(node: TreeNode | undefined): { readonly name: string; readonly source: number } | undefined {
  if (node?.kind === 'column') return node;
  const [, name, source] = (node?.kind === 'other' && ANY_COLUMN.exec(node.text)) || [];
  return name === undefined ? undefined : { name, source: Number(source) };
}

/** The columns of the table `id` below a node; `undefined` if one of them is not understood. */
export function columnsOf(node: TreeNode, id: number): readonly string[] | undefined {
  const found = new Set<string>();
  const visit = (each: TreeNode): boolean => {
    const column = columnOf(each);
    if (column?.source === id) found.add(column.name);
    if (column === undefined && each.kind === 'other' && each.text.startsWith('COLUMN ')) return false;
    return each.children.every(visit);
  };
  return visit(node) ? [...found] : undefined;
}

/** A number that is written as such, in the engine's own text. */
export function numberOf(node: TreeNode | undefined): string | undefined {
  return node?.kind === 'other' && node.children.length === 0 ? NUMBER.exec(node.text)?.[1] : undefined;
}

/** The text of a date or time that is written as such, or computed from what is written. */
export function momentOf(node: TreeNode | undefined): string | undefined {
  return node?.kind === 'moment' && node.children.every(isWritten) ? node.text : undefined;
}

function isWritten(node: TreeNode): boolean {
  const isKnown =
    node.kind === 'function'
      ? MOMENT_FUNCTION.test(node.name)
      : ['text', 'moment'].includes(node.kind) ||
        (node.kind === 'other' && /^(EXPRESSION$|ARGUMENTS$|LIST |CONSTANT )/.test(node.text));
  return isKnown && node.children.every(isWritten);
}

/** `2026-11-19` of days, `2026-11-19 09:30:00` of seconds. */
function formatMoment(value: string, type: string): string {
  const isDay = type.startsWith('Date') && !type.startsWith('DateTime');
  const text = new Date(Number(value) * (isDay ? 86_400_000 : 1_000)).toISOString();
  return isDay ? text.slice(0, 10) : text.slice(0, 19).replace('T', ' ');
}

function readNode({ text, children: below }: OutlineNode): TreeNode {
  const children = below.map(readNode);
  const column = COLUMN.exec(text);
  if (column) {
    const type = column[2] as ColumnType; // As the pattern has it.
    return { kind: 'column', name: column[1] ?? '', type, source: Number(column[3]), children };
  }
  const texts = (LITERAL.exec(text) ?? LIST.exec(text))?.[1];
  if (texts !== undefined) {
    const values = Array.from(texts.matchAll(new RegExp(TEXT, 'g')), ([quoted]) => quoted.slice(1, -1));
    return { kind: 'text', values, children };
  }
  const moment = MOMENT.exec(text);
  if (moment) {
    const [, value, type = 'DateTime64', seconds = ''] = moment;
    return { kind: 'moment', text: formatMoment(value ?? seconds, type), children };
  }
  const called = FUNCTION.exec(text)?.[1];
  if (called !== undefined) return { kind: 'function', name: called, children };
  if (NO_TABLE.test(text)) return { kind: 'other', text: 'NO TABLE', children };
  const table = TABLE.exec(text);
  if (table) return { kind: 'table', id: Number(table[1]), name: table[2] ?? '', children };
  const join = JOIN.exec(text);
  if (join) return { kind: 'join', join: join[2] ?? '', isPlain: /^(ALL|UNSPECIFIED)$/.test(join[1] ?? ''), children };
  if (text.startsWith('QUERY id: ')) return { kind: 'query', isPlain: /^QUERY id: \d+$/.test(text), children };
  return { kind: 'other', text, children };
}
