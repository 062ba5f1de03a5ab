/**
 * The first rows of a large archive: `ORDER BY premium DESC LIMIT 50`. The engine would decode every column of every row
 * and then keep fifty. So the order's first column is read alone, and its value in the last of these rows becomes a
 * condition of the view: by it the engine skips files, row groups and pages. Invariant: the condition is true for every
 * row that can be in the answer, ties included; of a statement with any other shape there is none. Pure.
 */
import { quoteIdentifier } from '../engine/literal.ts';
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

/** A plain statement in the guard's text: a name or a text that holds such words is cut in two, which no engine takes. */
const SHAPE = /^(SELECT .+?) (FROM .+) ORDER BY (`(?:[^`\\]|\\.)*`|\w+) (ASC|DESC)(?:, .+)? LIMIT (\d+)$/s;

/**
 * The query for the bound of the first rows, with the columns `rows` and `bound`, and the view's condition by that bound.
 * @param admitted the guard's text @returns `undefined` if text or column have a shape of which nothing is known
 */
export function describeProbe(admitted: string, top: TopRows, column: ArchiveColumn) {
  const [write, read] = formatsOf(column) ?? [];
  const [, select, from, key = '', direction, count] = SHAPE.exec(admitted) ?? [];
  const isMeant = direction === (top.isDescending ? 'DESC' : 'ASC') && Number(count) === top.count;
  const quoted = quoteIdentifier(top.column);
  if (!write || !read || !isMeant || ![top.column, quoted].includes(key)) return undefined;
  const [last, sign] = top.isDescending ? ['min', '>='] : ['max', '<='];
  const rows = `${select}, ${quoted} AS ${KEY} ${from} ORDER BY ${quoted} ${direction} LIMIT ${count}`;
  return {
    sql: `SELECT countIf(${KEY} = ${KEY}) AS rows, toString(${write(`${last}(${KEY})`)}) AS bound FROM (${rows})`,
    describeBound: (bound: string) => (/^-?\d+$/.test(bound) ? `${quoted} ${sign} ${read(bound)}` : undefined),
  };
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
