/**
 * Which dates and times each table read of a statement can touch, from its resolved tree. Invariant: what is left out
 * cannot be in any answer; if a condition is not understood, everything is kept. A condition counts only if it is in
 * the WHERE or PREWHERE of the query that reads the table. In a join, it counts only for a side whose filtered rows the
 * join cannot bring back. Pure.
 */

import { argumentsOf, childrenUnder, columnsOf, momentOf, type TreeNode, textsOf } from './resolved-query.ts';
import { completeTime, intersect, isBefore, type TimeBounds, UNBOUNDED, unite } from './time-bounds.ts';

/** A table that a statement may read. */
export interface ReadableTable {
  readonly name: string;
  readonly columns: readonly string[];
  /** Whether its column `date` is the date of the file, not one of the file's own. */
  readonly isDated: boolean;
}

/** One read of a table. */
export interface TableRead {
  readonly table: string;
  /** Whether rows of the date can be in the answer. */
  mayTouch(date: string): boolean;
  /** Bounds of the text of `time` for all rows that can be in the answer, both inclusive; `undefined`: no bound. */
  readonly time: TimeBounds;
  /** Columns that are read; `undefined`: all. */
  readonly columns: readonly string[] | undefined;
}

/** A read without known limits. */
export function wholeRead(table: string): TableRead {
  return { table, mayTouch: () => true, time: UNBOUNDED, columns: undefined };
}

/** @returns `undefined` if the tree names a table that is not ours: then nothing is known about the reads */
export function listReads(root: TreeNode, tables: readonly ReadableTable[]): readonly TableRead[] | undefined {
  const bound = new Map<TreeNode, readonly TreeNode[]>();
  const reads: TableRead[] = [];
  const visit = (node: TreeNode): boolean => {
    if (node.kind === 'query') {
      const conditions = ['WHERE', 'PREWHERE'].flatMap((heading) => childrenUnder(node, heading));
      for (const table of childrenUnder(node, 'JOIN TREE').flatMap(listFilteredTables)) bound.set(table, conditions);
    }
    if (node.kind === 'other' && /^TABLE(_FUNCTION)? /.test(node.text)) return false;
    if (node.kind === 'table') {
      const table = tables.find(({ name }) => name === node.name);
      if (table === undefined) return false;
      const read = { ...describeRead(table.name, node.id, bound.get(node) ?? []), columns: columnsOf(root, node.id) };
      reads.push(table.isDated ? read : { ...read, mayTouch: () => true });
    }
    return node.children.every(visit);
  };
  return visit(root) ? reads : undefined;
}

/** Tables below a FROM whose rows the WHERE filters: a row that it rejects cannot bring another row into the answer. */
function listFilteredTables(node: TreeNode): readonly TreeNode[] {
  if (node.kind === 'table') return [node];
  if (node.kind !== 'join' || !node.isPlain) return [];
  const sides = [
    ...(/^(INNER|LEFT)$/.test(node.join) ? childrenUnder(node, 'LEFT TABLE EXPRESSION') : []),
    ...(/^(INNER|RIGHT)$/.test(node.join) ? childrenUnder(node, 'RIGHT TABLE EXPRESSION') : []),
  ];
  return sides.flatMap(listFilteredTables);
}

function describeRead(table: string, id: number, conditions: readonly TreeNode[]): Omit<TableRead, 'columns'> {
  return {
    table,
    mayTouch: (date) => conditions.every((condition) => judge(condition, id, date) !== false),
    time: conditions.map((condition) => boundTime(condition, id)).reduce(intersect, UNBOUNDED),
  };
}

/** The value of a condition for all rows of a date; `undefined` if it depends on more than the date. */
function judge(node: TreeNode, id: number, date: string): boolean | undefined {
  if (node.kind !== 'function') return undefined;
  const args = argumentsOf(node);
  const judged = () => args.map((argument) => judge(argument, id, date));
  switch (node.name) {
    case 'and':
      return judgeAll(judged(), false);
    case 'or':
      return judgeAll(judged(), true);
    case 'not': {
      const [inner] = judged();
      return inner === undefined ? undefined : !inner;
    }
    case 'in':
    case 'notIn': {
      const list = isColumn(args[0], 'date', id) ? readOperands(args[0], args[1]) : undefined;
      return list && list.includes(date) === (node.name === 'in');
    }
    case 'startsWith': {
      const [prefix] = (isColumn(args[0], 'date', id) && textsOf(args[1])) || [];
      return prefix === undefined ? undefined : date.startsWith(prefix);
    }
    default: {
      const comparison = readComparison(node.name, args, 'date', id);
      return comparison && compare(date, comparison);
    }
  }
}

/** `dominant`: the value that decides the result alone. */
function judgeAll(values: readonly (boolean | undefined)[], dominant: boolean): boolean | undefined {
  if (values.includes(dominant)) return dominant;
  return values.includes(undefined) ? undefined : !dominant;
}

function boundTime(node: TreeNode, id: number): TimeBounds {
  if (node.kind !== 'function') return UNBOUNDED;
  const args = argumentsOf(node);
  if (node.name === 'and') return args.map((argument) => boundTime(argument, id)).reduce(intersect, UNBOUNDED);
  if (node.name === 'or') return args.map((argument) => boundTime(argument, id)).reduce(unite);
  const comparison = readComparison(node.name, args, 'time', id);
  switch (comparison?.operator) {
    case 'equals':
      return { from: comparison.text, to: comparison.text };
    case 'greater':
    case 'greaterOrEquals':
      return { from: comparison.text, to: undefined };
    case 'less':
    case 'lessOrEquals':
      return { from: undefined, to: comparison.text };
    default:
      return UNBOUNDED;
  }
}

type Operator = 'equals' | 'notEquals' | 'less' | 'lessOrEquals' | 'greater' | 'greaterOrEquals';

interface Comparison {
  readonly operator: Operator;
  readonly text: string;
}

const MIRRORED: Readonly<Record<Operator, Operator>> = {
  equals: 'equals',
  notEquals: 'notEquals',
  less: 'greater',
  lessOrEquals: 'greaterOrEquals',
  greater: 'less',
  greaterOrEquals: 'lessOrEquals',
};

/** Reads a comparison of a column with one literal, in either order. */
function readComparison(
  name: string,
  [left, right]: readonly TreeNode[],
  column: string,
  id: number,
): Comparison | undefined {
  if (!(name in MIRRORED)) return undefined;
  const operator = name as Operator; // `name` is a key of `MIRRORED`.
  const isMirrored = isColumn(right, column, id);
  if (!isMirrored && !isColumn(left, column, id)) return undefined;
  const [text, ...more] = (isMirrored ? readOperands(right, left) : readOperands(left, right)) ?? [];
  if (text === undefined || more.length > 0) return undefined;
  return { operator: isMirrored ? MIRRORED[operator] : operator, text };
}

/**
 * The values that a column is compared with, as texts in whose order its values stand. A typed column reads a text in
 * many ways; only those count that are written as the column's own values are.
 */
function readOperands(column: TreeNode | undefined, operand: TreeNode | undefined): readonly string[] | undefined {
  if (column?.kind !== 'column') return undefined;
  if (column.type === 'String') return textsOf(operand);
  const moment = momentOf(operand);
  const texts = moment === undefined ? textsOf(operand) : [moment];
  const isOwn = (text: string) => completeTime(text) !== undefined && (column.type !== 'Date32' || text.length === 10);
  return texts?.every(isOwn) ? texts : undefined;
}

function compare(value: string, { operator, text }: Comparison): boolean {
  switch (operator) {
    case 'equals':
      return value === text;
    case 'notEquals':
      return value !== text;
    case 'less':
      return isBefore(value, text);
    case 'lessOrEquals':
      return !isBefore(text, value);
    case 'greater':
      return isBefore(text, value);
    case 'greaterOrEquals':
      return !isBefore(value, text);
    default:
      return operator satisfies never;
  }
}

function isColumn(node: TreeNode | undefined, name: string, id: number): boolean {
  return node?.kind === 'column' && node.name === name && node.source === id;
}
