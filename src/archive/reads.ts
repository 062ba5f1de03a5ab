/**
 * Which dates and times each table read of a statement can touch, from its resolved tree. Invariant: what is left out
 * cannot be in any answer; if a condition is not understood, everything is kept. A condition counts only if it is in
 * the WHERE or PREWHERE of the query that reads the table. In a join, it counts only for a side whose filtered rows the
 * join cannot bring back. Pure.
 */
import { quoteIdentifier } from '../engine/literal.ts';
import type { ArchiveColumn } from './archive-column.ts';
import {
  argumentsOf,
  childrenUnder,
  columnOf,
  columnsOf,
  momentOf,
  numberOf,
  type TreeNode,
  textsOf,
} from './resolved-query.ts';
import { completeTime, intersect, isBefore, type TimeBounds, UNBOUNDED, unite } from './time-bounds.ts';
import { readTopRows, type TopRows } from './top-rows.ts';

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
  /** Conditions on numbers that are true for all rows that can be in the answer. */
  readonly numbers: readonly NumberCondition[];
  /** Only of a statement whose answer is the first rows of this table. */
  readonly top: TopRows | undefined;
}

/** A comparison of a column with a number. */
interface NumberCondition {
  readonly column: string;
  readonly operator: Operator;
  readonly number: string;
}

/** A read without known limits. */
export function wholeRead(table: string): TableRead {
  return { table, mayTouch: () => true, time: UNBOUNDED, columns: undefined, numbers: [], top: undefined };
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
      const columns = columnsOf(root, node.id);
      const top = readTopRows(root, node.id, columns);
      const read = { ...describeRead(table.name, node.id, bound.get(node) ?? []), columns, top };
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

function describeRead(table: string, id: number, conditions: readonly TreeNode[]): Omit<TableRead, 'columns' | 'top'> {
  return {
    table,
    mayTouch: (date) => conditions.every((condition) => judge(condition, id, date) !== false),
    time: conditions.map((condition) => boundTime(condition, id)).reduce(intersect, UNBOUNDED),
    numbers: conditions.flatMap((condition) => listNumberConditions(condition, id)),
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

function listNumberConditions(node: TreeNode, id: number): readonly NumberCondition[] {
  if (node.kind !== 'function') return [];
  const args = argumentsOf(node);
  if (node.name === 'and') return args.flatMap((argument) => listNumberConditions(argument, id));
  if (!(node.name in MIRRORED)) return [];
  const operator = node.name as Operator; // `name` is a key of `MIRRORED`.
  const [left, right] = args;
  const isMirrored = numberOf(left) !== undefined;
  const column = columnOf(isMirrored ? right : left);
  const number = numberOf(isMirrored ? left : right);
  if (column?.source !== id || number === undefined) return [];
  return [{ column: column.name, operator: isMirrored ? MIRRORED[operator] : operator, number }];
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

const SIGNS: Readonly<Record<Operator, string>> = {
  ...{ equals: '=', notEquals: '!=', less: '<', lessOrEquals: '<=', greater: '>', greaterOrEquals: '>=' },
};

/**
 * The conditions on `columns` that are numbers in the files. The view has them first: the engine decodes a few pages of
 * texts after them, but all of the texts before them.
 */
export function describeNumbers({ numbers }: TableRead, columns: readonly ArchiveColumn[]): readonly string[] {
  const isNumber = ({ name, value, readAs }: ArchiveColumn) =>
    value === quoteIdentifier(name) && /^(Nullable\()?(Int32|Int64|Float64)\b/.test(readAs ?? '');
  return numbers.flatMap(({ column, operator, number }) => {
    const isRead = columns.some((each) => each.name === column && isNumber(each));
    return isRead ? [`${quoteIdentifier(column)} ${SIGNS[operator]} ${number}`] : [];
  });
}

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
