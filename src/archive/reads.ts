/**
 * Which dates, times and columns an admitted statement can touch, by the engine's resolved tree. Invariants: what is left
 * out cannot be in any answer; if a condition is not understood, everything is kept. The statement is resolved against
 * empty tables, so no value that the engine computes from them may count. A condition counts only if it is in the WHERE or
 * PREWHERE of the query that reads the table; in a join, only for a side whose filtered rows the join cannot bring back.
 */
import { EngineFault } from '../engine/engine-fault.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import {
  argumentsOf,
  calledOf,
  childrenUnder,
  columnOf,
  columnsOf,
  conditionsOf,
  joinOf,
  momentOf,
  numberTextOf,
  type ParserRows,
  readResolvedTree,
  readSyntaxTree,
  TAKES_SET,
  type TreeNode,
  tableOf,
  textsOf,
} from '../guard/engine-tree.ts';
import type { ArchiveColumn } from './archive-column.ts';
import { readTopRows, type TopRows } from './top-rows.ts';

/** A table that a statement may read. */
interface ReadableTable {
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
  readonly numbers: readonly Comparison[];
  /** Only of a statement whose answer is the first rows of this table. */
  readonly top: TopRows | undefined;
}

interface TimeBounds {
  readonly from: string | undefined;
  readonly to: string | undefined;
}

const UNBOUNDED: TimeBounds = { from: undefined, to: undefined };

/**
 * Names whose value can change between resolving and running: the time, random values, and functions that show how a
 * column is stored, because the empty tables store columns differently. Not `today` and `yesterday`: the caller sees to
 * it that the day is the same.
 */
const MOVES = /^(now|curdate|current|utc|local|time|rand|generate|totypename|tocolumntypename|isconstant)/i;

/**
 * Asks the engine what an admitted statement reads.
 * @param tables of ours that the statement may read
 * @returns `undefined` if the engine rejects the statement: it is wrong, or the empty tables lack a column
 * @throws EngineFault only if the engine is gone
 */
export async function resolveReads(
  engine: ParserRows,
  admitted: string,
  tables: readonly ReadableTable[],
): Promise<readonly TableRead[] | undefined> {
  const whole = readAll(tables);
  const tree = await readSyntaxTree(engine, admitted);
  if (isComputed(tree, new Set(tables.flatMap(({ columns }) => columns)))) return whole;
  try {
    const root = await readResolvedTree(engine, admitted);
    return (root && listReads(root, tables)) ?? whole;
  } catch (error) {
    if (error instanceof EngineFault && error.clickhouseCode !== 0) return undefined;
    throw error;
  }
}

/** Reads of everything, for a statement about which nothing is known. */
export function readAll(tables: readonly Pick<ReadableTable, 'name'>[]): readonly TableRead[] {
  return tables.map(({ name: table }) => ({
    ...{ table, mayTouch: () => true, time: UNBOUNDED, columns: undefined, numbers: [], top: undefined },
  }));
}

/**
 * Whether a value in the statement is known only when it runs: a subquery that is not a table, or a name in `MOVES`
 * other than a column's.
 */
function isComputed(node: TreeNode, columns: ReadonlySet<string>, isTable = false): boolean {
  const isOne = (child: TreeNode, holdsTable = false) => isComputed(child, columns, holdsTable);
  if (node.kind === 'Subquery' && !isTable) return true;
  if (node.kind === 'Function' && MOVES.test(node.value)) return true;
  if (node.kind === 'Identifier' && MOVES.test(node.value) && !columns.has(node.value)) return true;
  const holdsTables = node.kind === 'TableExpression' || node.kind === 'WithElement';
  // The engine does not compute the set while it resolves.
  if (node.kind === 'Function' && TAKES_SET.test(node.value)) {
    const [value, set, ...rest] = node.children[0]?.children ?? [];
    const others = [value, ...rest, ...node.children.slice(1)].filter((child) => child !== undefined);
    return (set !== undefined && isOne(set, true)) || others.some((child) => isOne(child));
  }
  return node.children.some((child) => isOne(child, holdsTables));
}

/** @returns `undefined` if the tree names a table that is not ours: then nothing is known about the reads */
function listReads(root: TreeNode, tables: readonly ReadableTable[]): readonly TableRead[] | undefined {
  const bound = new Map<TreeNode, readonly TreeNode[]>();
  const reads: TableRead[] = [];
  const visit = (node: TreeNode): boolean => {
    if (node.kind === 'QUERY') {
      for (const table of childrenUnder(node, 'JOIN TREE').flatMap(listFilteredTables))
        bound.set(table, conditionsOf(node));
    }
    const name = tableOf(node);
    if (node.kind === 'TABLE_FUNCTION' || (node.kind === 'TABLE' && name === undefined)) return false;
    if (name) {
      const table = tables.find((one) => one.name === name);
      if (table === undefined) return false;
      reads.push(describeRead(root, node.id ?? 0, table, bound.get(node) ?? []));
    }
    return node.children.every(visit);
  };
  return visit(root) ? reads : undefined;
}

/** Tables below a FROM whose rows the WHERE filters: a row that it rejects cannot bring another row into the answer. */
function listFilteredTables(node: TreeNode): readonly TreeNode[] {
  if (node.kind === 'TABLE') return [node];
  const join = joinOf(node) ?? '';
  const sides = [
    ...(/^(INNER|LEFT)$/.test(join) ? childrenUnder(node, 'LEFT TABLE EXPRESSION') : []),
    ...(/^(INNER|RIGHT)$/.test(join) ? childrenUnder(node, 'RIGHT TABLE EXPRESSION') : []),
  ];
  return sides.flatMap(listFilteredTables);
}

function describeRead(
  root: TreeNode,
  id: number,
  { name, isDated }: ReadableTable,
  conditions: readonly TreeNode[],
): TableRead {
  const tests = isDated ? conditions.map((condition) => readDateTest(condition, id)) : [];
  const columns = columnsOf(root, id);
  return {
    table: name,
    mayTouch: (date) => tests.every((test) => test(date) !== false),
    time: conditions.map((condition) => boundTime(condition, id)).reduce(intersect, UNBOUNDED),
    columns,
    numbers: conditions.flatMap((condition) => listNumberConditions(condition, id)),
    top: readTopRows(root, id, columns),
  };
}

/** The value of a condition for all rows of a date; `undefined` if it depends on more than the date. */
type DateTest = (date: string) => boolean | undefined;

function readDateTest(node: TreeNode, id: number): DateTest {
  const called = calledOf(node);
  const args = argumentsOf(node);
  const column = columnOf(args[0]);
  const operands = column?.source === id ? readDates(column, args[1]) : undefined;
  const prefix = operands?.[0];
  const tests = () => args.map((argument) => readDateTest(argument, id));
  switch (called) {
    case 'and':
      return joinTests(tests(), false);
    case 'or':
      return joinTests(tests(), true);
    case 'not': {
      const [inner] = tests();
      return (date) => {
        const value = inner?.(date);
        return value === undefined ? undefined : !value;
      };
    }
    case 'in':
    case 'notIn':
      return (date) => operands && operands.includes(date) === (called === 'in');
    case 'startsWith':
      return (date) => (prefix === undefined ? undefined : date.startsWith(prefix));
    default: {
      const comparison = readComparison(node, id, readDates);
      return (date) => comparison && OPERATORS[comparison.operator].holds(date, comparison.value);
    }
  }
}

/** `dominant`: the value that decides the result alone. */
function joinTests(tests: readonly DateTest[], dominant: boolean): DateTest {
  return (date) => {
    const values = tests.map((test) => test(date));
    if (values.includes(dominant)) return dominant;
    return values.includes(undefined) ? undefined : !dominant;
  };
}

function boundTime(node: TreeNode, id: number): TimeBounds {
  const bounds = () => argumentsOf(node).map((argument) => boundTime(argument, id));
  const called = calledOf(node);
  if (called === 'and') return bounds().reduce(intersect, UNBOUNDED);
  if (called === 'or') return bounds().reduce(unite);
  const comparison = readComparison(node, id, readTexts('time'));
  if (comparison === undefined) return UNBOUNDED;
  const { value, operator } = comparison;
  const { isAtLeast, isAtMost } = OPERATORS[operator];
  return { from: isAtLeast ? value : undefined, to: isAtMost ? value : undefined };
}

function listNumberConditions(node: TreeNode, id: number): readonly Comparison[] {
  if (calledOf(node) === 'and') return argumentsOf(node).flatMap((argument) => listNumberConditions(argument, id));
  const comparison = readComparison(node, id, (_, other) => {
    const value = numberTextOf(other);
    return value === undefined ? undefined : [value];
  });
  return comparison === undefined ? [] : [comparison];
}

type Operator = 'equals' | 'notEquals' | 'less' | 'lessOrEquals' | 'greater' | 'greaterOrEquals';

/** Of a column with one literal. */
interface Comparison {
  readonly column: string;
  readonly operator: Operator;
  readonly value: string;
}

interface OperatorRow {
  readonly sign: string;
  readonly mirrored: Operator;
  readonly holds: (value: string, other: string) => boolean;
  /** Whether what the comparison accepts is not below, or not above, the literal. */
  readonly isAtLeast?: true;
  readonly isAtMost?: true;
}

const isSame = (value: string, other: string) => value === other;
const isAfter = (value: string, other: string) => isBefore(other, value);

const OPERATORS: Readonly<Record<Operator, OperatorRow>> = {
  equals: { sign: '=', mirrored: 'equals', holds: isSame, isAtLeast: true, isAtMost: true },
  notEquals: { sign: '!=', mirrored: 'notEquals', holds: (value, other) => value !== other },
  less: { sign: '<', mirrored: 'greater', holds: isBefore, isAtMost: true },
  lessOrEquals: { sign: '<=', mirrored: 'greaterOrEquals', holds: (a, b) => !isAfter(a, b), isAtMost: true },
  greater: { sign: '>', mirrored: 'less', holds: isAfter, isAtLeast: true },
  greaterOrEquals: { sign: '>=', mirrored: 'lessOrEquals', holds: (a, b) => !isBefore(a, b), isAtLeast: true },
};

/**
 * The conditions on `columns` that are numbers in the files. The view has them first: the engine decodes a few pages of
 * texts after them, but all of the texts before them.
 */
export function describeNumbers({ numbers }: TableRead, columns: readonly ArchiveColumn[]): readonly string[] {
  const isNumber = ({ name, value, readAs }: ArchiveColumn) =>
    value === quoteIdentifier(name) && /^(Nullable\()?(Int32|Int64|Float64)\b/.test(readAs ?? '');
  return numbers.flatMap(({ column, operator, value }) => {
    const isRead = columns.some((each) => each.name === column && isNumber(each));
    return isRead ? [`${quoteIdentifier(column)} ${OPERATORS[operator].sign} ${value}`] : [];
  });
}

/** Reads a comparison of a column of the table with one literal, in either order. */
function readComparison(node: TreeNode, id: number, read: ReadOperands): Comparison | undefined {
  const called = calledOf(node) ?? '';
  if (!Object.hasOwn(OPERATORS, called)) return undefined;
  const operator = called as Operator; // A key of the table.
  const [left, right] = argumentsOf(node);
  const { mirrored } = OPERATORS[operator];
  for (const [side, other, meant] of [[left, right, operator] as const, [right, left, mirrored] as const]) {
    const column = columnOf(side);
    const [value, ...more] = (column?.source === id && read(column, other)) || [];
    if (column && value !== undefined && more.length === 0) return { column: column.name, operator: meant, value };
  }
  return undefined;
}

/** The values that a column is compared with, as texts in whose order its values stand; `undefined`: not understood. */
type ReadOperands = (
  column: NonNullable<ReturnType<typeof columnOf>>,
  operand: TreeNode | undefined,
) => readonly string[] | undefined;

/** A typed column reads a text in many ways; only those count that are written as the column's own values are. */
const readTexts =
  (wanted: 'date' | 'time'): ReadOperands =>
  ({ name, type }, operand) => {
    if (name !== wanted) return undefined;
    if (type === 'String') return textsOf(operand);
    if (type !== 'Date32' && type !== 'DateTime64(6)') return undefined;
    const moment = momentOf(operand);
    const texts = moment === undefined ? textsOf(operand) : [moment];
    const isOwn = (text: string) => completeTime(text) !== undefined && (type !== 'Date32' || text.length === 10);
    return texts?.every(isOwn) ? texts : undefined;
  };
const readDates = readTexts('date');

/**
 * Whether rows of a date can be in the answer. @param first @param last of the times of its rows, which the text of `time`
 * has in whole seconds; `undefined`: not known
 */
export function mayTouch(
  { mayTouch: mayTouchDate, time: { from, to } }: TableRead,
  date: string,
  first: string | undefined,
  last: string | undefined,
): boolean {
  const isTooEarly = from !== undefined && last !== undefined && isBefore(last, from);
  const isTooLate = to !== undefined && first !== undefined && isBefore(to, first);
  return mayTouchDate(date) && !isTooEarly && !isTooLate;
}

/** Bounds of rows that satisfy both. */
function intersect(a: TimeBounds, b: TimeBounds): TimeBounds {
  const from = a.from === undefined || (b.from !== undefined && isBefore(a.from, b.from)) ? b.from : a.from;
  const to = a.to === undefined || (b.to !== undefined && isBefore(b.to, a.to)) ? b.to : a.to;
  return { from, to };
}

/** Bounds of rows that satisfy either. */
export function unite(a: TimeBounds, b: TimeBounds): TimeBounds {
  const from = a.from === undefined || b.from === undefined ? undefined : isBefore(b.from, a.from) ? b.from : a.from;
  const to = a.to === undefined || b.to === undefined ? undefined : isBefore(a.to, b.to) ? b.to : a.to;
  return { from, to };
}

/** Compares by bytes, as the engine compares texts. */
function isBefore(a: string, b: string): boolean {
  return Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
}

/** Conditions on the files' times that all rows within the bounds satisfy; a bound that is not a time gives none. */
export function describeBounds({ from, to }: TimeBounds): readonly string[] {
  const first = from === undefined ? undefined : completeTime(from);
  const last = to === undefined ? undefined : completeTime(to);
  return [
    ...(first === undefined ? [] : [`time >= toDateTime64(${quoteString(first)}, 6, 'UTC')`]),
    // The text has whole seconds; the file may have fractions.
    ...(last === undefined ? [] : [`time < toDateTime64(${quoteString(last)}, 6, 'UTC') + toIntervalSecond(1)`]),
  ];
}

/** Texts whose text order is the order of their times; `completeTime` fills in the missing parts. */
const TIME_TEXT = /^(\d{4}-\d{2}-\d{2})(?: (\d{2})(?::(\d{2})(?::(\d{2}))?)?)?$/;
const FIRST_YEAR = 1970;
const LAST_YEAR = 2200;

/**
 * The first second whose text begins with `text`. A text at or after `text` is a time at or after this second, and a
 * text at or before `text` is a time at or before it. `undefined` if `text` is not a time.
 */
function completeTime(text: string): string | undefined {
  const [, date, hour = '00', minute = '00', second = '00'] = TIME_TEXT.exec(text) ?? [];
  if (date === undefined) return undefined;
  const year = Number(date.slice(0, 4));
  if (year < FIRST_YEAR || year > LAST_YEAR) return undefined;
  const complete = `${date} ${hour}:${minute}:${second}`;
  const epochMs = Date.parse(`${complete.replace(' ', 'T')}Z`);
  // February 30 sorts as a text, but is not a time.
  if (Number.isNaN(epochMs)) return undefined;
  return new Date(epochMs).toISOString().slice(0, 19).replace('T', ' ') === complete ? complete : undefined;
}
