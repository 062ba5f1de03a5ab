/**
 * The first rows of a large archive: `ORDER BY premium DESC LIMIT 50`. The engine would decode every column of every row
 * and then keep fifty. So the order's first column is read alone, and its value in the last of these rows becomes a
 * condition of the view: by it the engine skips files, row groups and pages. Invariant: the condition is true for every
 * row that can be in the answer, ties included; of a statement with any other shape there is none. Pure.
 */
import { quoteIdentifier } from '../engine/literal.ts';
import { listTokens } from '../guard/canonical-text.ts';
import { calledOf, childrenUnder, columnOf, conditionsOf, type TreeNode } from '../guard/engine-tree.ts';
import type { ArchiveColumn } from './archive-column.ts';

/** The order of a statement by a column of its only table. */
export interface TopRows {
  readonly column: string;
  readonly isDescending: boolean;
  /** As many rows are wanted. */
  readonly count: number;
}

/** Everything else (groups, windows, limits by a column, ties) makes rows depend on each other. */
const HEADINGS: readonly string[] = [
  ...['PROJECTION COLUMNS', 'PROJECTION', 'JOIN TREE', 'WHERE', 'PREWHERE', 'ORDER BY', 'LIMIT'],
];
/** Without `nulls_sort_direction` and collation: nulls and NaN come last in both directions. */
const SORT = /^sort_direction: (ASCENDING|DESCENDING), with_fill: 0$/;
const LIMIT = /^constant_value: UInt64_(\d+), constant_value_type: UInt64$/;
/** Nodes that hold or read other rows. */
const OTHER_ROWS: readonly string[] = ['QUERY', 'UNION', 'TABLE', 'TABLE_FUNCTION', 'LAMBDA'];
/** Functions whose value in a row depends on other rows. */
const OF_OTHER_ROWS = /^(arrayjoin|rownumber|running|neighbor|blocknumber|blocksize|now|rand|generate)/i;
/** More rows would come from every file anyway. */
const MAX_ROWS = 10_000;
/** With fewer columns, the order's column is most of what is read. */
const MIN_COLUMNS = 4;
const KEY = 'key_of_order';

/** @param id of the table @param columns that the statement reads of it */
export function readTopRows(root: TreeNode, id: number, columns: readonly string[] | undefined): TopRows | undefined {
  // Without DISTINCT, ties, sets of groups and other marks, a query has no attributes.
  const isPlain = root.kind === 'QUERY' && root.value === '';
  if (columns === undefined || columns.length < MIN_COLUMNS || !isPlain) return undefined;
  const [table, ...tables] = childrenUnder(root, 'JOIN TREE');
  if (table?.kind !== 'TABLE' || table.id !== id || tables.length > 0) return undefined;
  if (!root.children.every(({ kind }) => HEADINGS.includes(kind))) return undefined;
  if (!childrenUnder(root, 'PROJECTION').every((node) => columnOf(node)?.source === id)) return undefined;
  if (!conditionsOf(root).every(isOfItsRow)) return undefined;
  const [sort] = childrenUnder(root, 'ORDER BY');
  const [limit, ...others] = childrenUnder(root, 'LIMIT');
  const direction = SORT.exec(sort?.value ?? '')?.[1];
  const column = columnOf(sort?.children[0]?.children[0]);
  const count = Number(LIMIT.exec(limit?.value ?? '')?.[1] ?? 0);
  if (direction === undefined || column?.source !== id || others.length > 0) return undefined;
  return count > 0 && count <= MAX_ROWS
    ? { column: column.name, isDescending: direction === 'DESCENDING', count }
    : undefined;
}

function isOfItsRow(node: TreeNode): boolean {
  // A window function is no ordinary one.
  const called = node.kind === 'FUNCTION' ? calledOf(node) : '';
  if (called === undefined || OF_OTHER_ROWS.test(called) || OTHER_ROWS.includes(node.kind)) return false;
  return node.children.every(isOfItsRow);
}

/**
 * The query for the bound of the first rows, with the columns `rows` and `bound`. @param admitted the guard's text
 * @returns `undefined` if text or column have a shape of which nothing is known
 */
export function describeProbe(admitted: string, top: TopRows, column: ArchiveColumn): string | undefined {
  const [write] = formatsOf(column) ?? [];
  const tokens = listTokens(admitted);
  const depths = listDepths(tokens.map(({ text }) => text));
  const isWord = (k: number, word: string) => depths[k] === 0 && tokens[k]?.text === word;
  const find = (word: string) => tokens.findIndex((_token, k) => isWord(k, word));
  const [from, order, limit] = [find('FROM'), find('ORDER'), find('LIMIT')];
  const isOne = tokens[0]?.text === 'SELECT' && tokens.filter((_token, k) => isWord(k, 'SELECT')).length === 1;
  if (write === undefined || !isOne || from < 0 || order < from || limit < order) return undefined;
  const text = (begin: number, end?: number) =>
    tokens
      .slice(begin, end)
      .map((token) => token.text)
      .join('');
  const [by = '', key = ''] = splitFirst(text(order, limit));
  const direction = top.isDescending ? 'DESC' : 'ASC';
  const isPlain =
    by === 'ORDER BY' && [`${top.column} ${direction}`, `${quoteIdentifier(top.column)} ${direction}`].includes(key);
  if (!isPlain || text(limit).trim() !== `LIMIT ${top.count}`) return undefined;
  const quoted = quoteIdentifier(top.column);
  const select = `${text(0, from).trimEnd()}, ${quoted} AS ${KEY} ${text(from, order)}ORDER BY ${quoted} ${direction} LIMIT ${top.count}`;
  const last = `${top.isDescending ? 'min' : 'max'}(${KEY})`;
  return `SELECT countIf(${KEY} = ${KEY}) AS rows, toString(${write(last)}) AS bound FROM (${select})`;
}

/** The condition of the view. */
export function describeBound(top: TopRows, column: ArchiveColumn, bound: string): string | undefined {
  const [, read] = formatsOf(column) ?? [];
  if (read === undefined || !/^-?\d+$/.test(bound)) return undefined;
  return `${quoteIdentifier(top.column)} ${top.isDescending ? '>=' : '<='} ${read(bound)}`;
}

type Format = (value: string) => string;

/** A value as a whole number and back, exactly; only of columns that are read as they are. */
function formatsOf({ name, value, readAs = '' }: ArchiveColumn): readonly [write: Format, read: Format] | undefined {
  if (value !== quoteIdentifier(name)) return undefined;
  switch (readAs.replace(/^Nullable\((.*)\)$/, '$1')) {
    case 'Int32':
    case 'Int64':
      return [(key) => key, (text) => `toInt64('${text}')`];
    case 'Float64':
      return [
        (key) => `reinterpretAsUInt64(assumeNotNull(${key}))`,
        (text) => `reinterpretAsFloat64(toUInt64('${text}'))`,
      ];
    case 'DateTime64(6)':
      return [
        (key) => `toUnixTimestamp64Micro(${key})`,
        (text) => `fromUnixTimestamp64Micro(toInt64('${text}'), 'UTC')`,
      ];
    default:
      return undefined;
  }
}

/** How many parentheses are open before each token. */
function listDepths(texts: readonly string[]): readonly number[] {
  let depth = 0;
  return texts.map((text) => {
    if (text === ')' || text === ']') depth -= 1;
    const here = depth;
    if (text === '(' || text === '[') depth += 1;
    return here;
  });
}

/** `ORDER BY` and its first element. */
function splitFirst(text: string): readonly string[] {
  const [, by, first] = /^(ORDER BY) ((?:`(?:[^`\\]|\\.)*`|\w+) \w+)(?:,.*)?$/s.exec(text.trim()) ?? [];
  return by === undefined || first === undefined ? [] : [by, first];
}
