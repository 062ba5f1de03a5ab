/**
 * Checks a job's SQL with one `{window}`: may it be queried in windows, so that all windows together return the rows of
 * the whole date? Invariants: the engine's own parser decides what the text means, and exactly its formatting is
 * queried. Accepted SQL reads one table, and `{window}` only restricts its rows. No row of the answer depends on rows
 * of another window: single trades are computed one by one, and each group lies in one window
 * (`whole-groups.ts`). Clauses are an allow-list.
 */
import { EngineFault } from '../engine/engine-fault.ts';
import {
  aliasOf,
  argumentsOf,
  attributesOf,
  childrenUnder,
  functionOf,
  identifierOf,
  type ParserRows,
  readQueryTree,
  type TreeNode,
  walkTree,
} from './engine-tree.ts';
import { parseSelect, type SelectStatement } from './guarded-statement.ts';
import { Refusal, refuseSql } from './refusal.ts';
import { assertGroups, type GroupKeys, nameOfItem } from './whole-groups.ts';

/** Placeholder for the condition of a window. */
const WINDOW_MARK = '{window}';

export interface WindowedSql {
  /** Contains one `{window}`. */
  readonly sql: string;
  readonly table: string;
  /** For SQL with groups; `undefined`: single trades. */
  readonly groups: GroupKeys | undefined;
  /** Columns that the answer must have. */
  readonly columns: readonly string[];
}

/**
 * Replaces the mark while parsing. With its parentheses it is as long as the mark, so positions in the text do not
 * change.
 */
const STAND_IN_NAME = '__mark';
const STAND_IN = `(${STAND_IN_NAME})`;
const MAX_SHOWN = 48;
/** Columns that a window's condition uses. */
const WINDOW_COLUMNS: readonly string[] = ['id', 'symbol', 'date', 'time'];

const SHAPE = `one SELECT ... FROM table WHERE ${WINDOW_MARK} ...`;
const ONE_EXPRESSION = 'one expression';
const PLACE_OF_WINDOW = `write it as a separate condition: WHERE ${WINDOW_MARK} AND (...)`;
const WHOLE_ANSWER = 'it uses the whole answer, but each window is a separate answer; leave it out';
const ONE_TABLE =
  'only one table may be read, because windows split its rows; write the other table as a condition: WHERE {window} AND symbol IN (SELECT ...)';
const ONE_SELECT =
  'only one SELECT is allowed, because {window} restricts only the SELECT that contains it; make two jobs';
const SUMS = 'it adds totals over several groups, which windows split; compute totals when you read the drop';
const ROWS_READ = 'it changes which rows are read; put the condition into WHERE, beside {window}';
const OF_THE_SERVER = 'flowdrop sets this itself; leave it out';

const CLAUSES: ReadonlySet<string> = new Set([
  ...['WITH', 'PROJECTION', 'JOIN TREE', 'WHERE', 'GROUP BY', 'HAVING', 'ORDER BY'],
]);
/** Advice for refused clauses; any other refused clause gets a general one. */
const REFUSED_CLAUSES: ReadonlyMap<string, string> = new Map([
  ...['LIMIT', 'OFFSET', 'LIMIT BY', 'QUALIFY', 'WINDOW', 'INTERPOLATE'].map((name) => [name, WHOLE_ANSWER] as const),
  ['PREWHERE', ROWS_READ],
  ['SETTINGS', OF_THE_SERVER],
]);
/** Flags of a query in the tree, besides its clauses: the allowed ones, and names and advice for refused ones. */
const QUERY_FLAGS: ReadonlySet<string> = new Set(['is_subquery', 'is_recursive_with', 'is_order_by_all']);
const REFUSED_FLAGS: ReadonlyMap<string, readonly [string, string]> = new Map([
  ['is_distinct', ['DISTINCT', WHOLE_ANSWER]],
  ['is_limit_with_ties', ['WITH TIES', WHOLE_ANSWER]],
  ['is_group_by_with_totals', ['WITH TOTALS', SUMS]],
  ['group_by_type', ['ROLLUP, CUBE or GROUPING SETS', SUMS]],
]);
const TABLE_FLAGS: ReadonlySet<string> = new Set(['identifier', 'alias', 'final']);

interface ReadSql {
  /** In the engine's formatting, with its `{window}`. */
  readonly sql: string;
  /** Names of the SELECT's columns, empty for an expression without one; `undefined` with a star or `COLUMNS(...)`. */
  readonly selected: readonly string[] | undefined;
}

/** @throws Refusal that names the clause and a remedy */
export async function readWindowedSql(
  engine: ParserRows,
  { sql, table, groups, columns }: WindowedSql,
): Promise<ReadSql> {
  assertOneMark(sql);
  const { text, query } = await readStatement(engine, SHAPE, sql.replace(WINDOW_MARK, STAND_IN));
  assertClauses(query);
  assertTable(query, table);
  assertNames(query, table);
  assertRowByRow(query);
  assertWindow(query);
  if (groups) assertGroups(query, groups);
  else assertSingleRows(query, table);
  return { sql: text.replace(STAND_IN_NAME, WINDOW_MARK), selected: readColumns(query, columns) };
}

/**
 * Checks a condition of a job, to be added to the window's condition: one expression that looks at one row at a time.
 * @returns the condition in the engine's formatting
 * @throws Refusal
 */
export async function readCondition(engine: ParserRows, where: string): Promise<string> {
  if (where.includes(WINDOW_MARK)) throw refuseSql(`${WINDOW_MARK} is added to the condition; leave it out`);
  // The line break after `where` ends a comment in it.
  const before = `SELECT 1 FROM t WHERE ${STAND_IN} AND `;
  const { text, query } = await readStatement(engine, ONE_EXPRESSION, `${before}(${where}\n)`);
  const [condition] = childrenUnder(query, 'WHERE');
  const parts = condition && isPlainAnd(condition) ? argumentsOf(condition) : [];
  const clauses = query.children.map(({ kind }) => kind).join();
  // The engine parses empty parentheses, or several expressions in parentheses, as a tuple.
  const isOne = parts.length === 2 && parts.every((part) => functionOf(part) !== 'tuple');
  if (!isOne || clauses !== 'PROJECTION,JOIN TREE,WHERE' || !text.startsWith(before)) {
    throw refuseSql(`must be ${ONE_EXPRESSION} with balanced brackets`);
  }
  assertNames(query, 't');
  assertRowByRow(query);
  return text.slice(before.length);
}

interface Statement {
  readonly text: string;
  readonly query: TreeNode;
}

async function readStatement(engine: ParserRows, shape: string, sql: string): Promise<Statement> {
  const select = await parseSelect(engine, sql).catch((error: unknown) => {
    throw error instanceof Refusal ? addPlace(error, shape, sql) : error;
  });
  assertReadable(select);
  return { text: select.text, query: await readQueryTree(engine, select.text) };
}

/**
 * Refuses what the tree misrepresents: it prints names and patterns without quotes, and omits the columns of
 * `FROM t AS x (a, b)`.
 */
function assertReadable({ tokens, tree }: SelectStatement): void {
  if (tokens.some(({ kind, value }) => kind === 'name' && value.includes(','))) {
    throw refuseSql('a quoted name has a comma; give it another name with AS');
  }
  const nodes = [...walkTree(tree)];
  if (nodes.some(({ kind }) => /^(Qualified)?Columns/.test(kind)) && tokens.some(isTextOfLines)) {
    throw refuseSql('a text has a line break, which is not allowed beside COLUMNS, EXCEPT, REPLACE and APPLY');
  }
  const isRenaming = nodes.some(
    ({ kind, children }) => kind === 'TableExpression' && children.some((child) => child.kind === 'ExpressionList'),
  );
  if (isRenaming) throw refuseSql('FROM gives a table other names for its columns; use their own');
}

function isTextOfLines({ kind, text }: SelectStatement['tokens'][number]): boolean {
  return kind === 'string' && /\\[nrbfv0]|\n/.test(text);
}

/** Adds the place where parsing failed, from the byte position in the engine's message. */
function addPlace(refusal: Refusal, shape: string, sql: string): Refusal {
  const { cause } = refusal;
  const position = cause instanceof EngineFault ? /failed at position (\d+)/.exec(cause.message)?.[1] : undefined;
  if (position === undefined) return refuseSql(`must be ${shape}: ${refusal.message}`);
  // The position counts bytes, from 1.
  const rest = Buffer.from(sql)
    .subarray(Number(position) - 1)
    .toString()
    .replace(STAND_IN, WINDOW_MARK);
  const line = rest.replace(/[\s\p{Cc}]+/gu, ' ').trim();
  const shown = line.length > MAX_SHOWN ? `${line.slice(0, MAX_SHOWN - 3)}...` : line;
  return refuseSql(shown === '' ? 'cannot be read: it ends too early' : `cannot be read at "${shown}"`);
}

function assertOneMark(sql: string): void {
  if (sql.includes(STAND_IN_NAME)) throw refuseSql(`the name ${STAND_IN_NAME} is not available`);
  const marks = sql.split(WINDOW_MARK).length - 1;
  if (marks === 0) throw refuseSql(`must contain ${WINDOW_MARK}: ${PLACE_OF_WINDOW}`);
  if (marks === 1) return;
  throw refuseSql(
    `${WINDOW_MARK} appears twice in the SQL: a subquery with it has a different value in every window; leave it out there`,
  );
}

function assertClauses(query: TreeNode): void {
  if (query.kind !== 'QUERY') throw refuseSql(ONE_SELECT);
  for (const [flag] of attributesOf(query)) {
    if (flag === 'is_group_by_all') throw refuseSql('GROUP BY ALL does not name the keys; write them');
    const [name, advice] = REFUSED_FLAGS.get(flag) ?? [flag, 'leave it out'];
    if (!QUERY_FLAGS.has(flag)) throw refuseSql(`${name} is not allowed: ${advice}`);
  }
  for (const { kind } of query.children) {
    if (CLAUSES.has(kind)) continue;
    const found = [...REFUSED_CLAUSES].find(([name]) => kind === name || kind.startsWith(`${name} `));
    const [name, advice] = found ?? [kind, 'leave it out'];
    throw refuseSql(`${name} is not allowed: ${advice}`);
  }
  if (childrenUnder(query, 'ORDER BY').some((item) => attributesOf(item).get('with_fill') !== '0')) {
    throw refuseSql('WITH FILL is not allowed: it makes rows from other rows, which windows split; leave it out');
  }
  if (childrenUnder(query, 'WHERE').length === 0) {
    throw refuseSql(`has no WHERE: must be ${SHAPE}`);
  }
}

/** FROM must be the job's table, optionally with an alias and FINAL. */
function assertTable(query: TreeNode, table: string): void {
  const [source] = childrenUnder(query, 'JOIN TREE');
  const allowed = `allowed is FROM ${table} [AS name] [FINAL]`;
  const name = source && identifierOf(source);
  if (source === undefined || name === undefined) {
    const what = source?.kind.replace('_', ' ').replace(/^(QUERY|UNION)$/, 'a subquery') ?? 'nothing';
    throw refuseSql(`in FROM: ${what} is not allowed: ${ONE_TABLE}; ${allowed}`);
  }
  if (name !== table) {
    throw refuseSql(
      `in FROM: ${name} is not the table; the job counts the rows of \`source.table\`, ${table}: name that table, without its database, or set \`source.table\` to the other`,
    );
  }
  if (attributesOf(source).has('sample_size')) throw refuseSql(`SAMPLE is not allowed: ${ROWS_READ}`);
  const odd = [...attributesOf(source).keys()].find((flag) => !TABLE_FLAGS.has(flag));
  if (odd !== undefined) throw refuseSql(`in FROM: ${odd} is not allowed; ${allowed}`);
}

/**
 * Refuses names inside expressions that would replace the table, or a column by which windows are cut. Names of the
 * answer's columns are not affected.
 */
function assertNames(query: TreeNode, table: string): void {
  const named = new Set([...childrenUnder(query, 'PROJECTION'), ...childrenUnder(query, 'JOIN TREE')]);
  for (const node of walkTree(query, 'expressions')) {
    const alias = aliasOf(node);
    const isColumn = alias !== undefined && WINDOW_COLUMNS.includes(alias);
    const isTable = alias === table || attributesOf(node).get('cte_name') === table;
    if (named.has(node) || (!isColumn && !isTable)) continue;
    const instead = isColumn ? 'column that windows are split by' : 'table';
    throw refuseSql(`"${isTable ? table : alias}" would hide the ${instead}; give it another name`);
  }
}

/** @param columns that must be there; of a star, or `COLUMNS(...)`, only the server knows the columns */
function readColumns(query: TreeNode, columns: readonly string[]): ReadSql['selected'] {
  const items = childrenUnder(query, 'PROJECTION');
  if (items.some(({ kind }) => kind === 'MATCHER')) return undefined;
  const selected = items.map(nameOfItem);
  const missing = columns.filter((name) => !selected.includes(name));
  if (missing.length === 0) return selected;
  const names = selected.filter((name) => name !== '').join(', ');
  throw refuseSql(
    `has no column ${missing.map((name) => `"${name}"`).join(', ')}; its columns are ${names}. Name it with AS, or leave it out of \`types\``,
  );
}

/** Requires `{window}` to be one of the conditions that WHERE joins by AND. */
function assertWindow(query: TreeNode): void {
  const [where] = childrenUnder(query, 'WHERE');
  const conditions = where ? listConditions(where) : [];
  if (conditions.some((node) => isMark(node) && aliasOf(node) === undefined)) return;
  const part = conditions.find((node) => [...walkTree(node, 'expressions')].some(isMark));
  if (part && isMark(part)) throw refuseSql(`${WINDOW_MARK} must be in WHERE without a name; ${PLACE_OF_WINDOW}`);
  if (part === undefined)
    throw refuseSql(`${WINDOW_MARK} must be in WHERE of the outermost SELECT; ${PLACE_OF_WINDOW}`);
  const name = functionOf(part);
  if (name === 'or') {
    throw refuseSql(
      `in WHERE: OR beside ${WINDOW_MARK} lets the rows of every window into each window; put it into parentheses: WHERE ${WINDOW_MARK} AND (... OR ...)`,
    );
  }
  if (name === 'not') {
    throw refuseSql(`in WHERE: NOT ${WINDOW_MARK} gives each window the rows of all others; ${PLACE_OF_WINDOW}`);
  }
  throw refuseSql(
    `in WHERE: ${WINDOW_MARK} is a part of another condition${name === undefined ? '' : ` (${name})`}; ${PLACE_OF_WINDOW}`,
  );
}

function isMark(node: TreeNode): boolean {
  return identifierOf(node) === STAND_IN_NAME;
}

/** A named AND could be used elsewhere, including its window. */
function isPlainAnd(node: TreeNode): boolean {
  return functionOf(node) === 'and' && aliasOf(node) === undefined;
}

function listConditions(node: TreeNode): readonly TreeNode[] {
  return isPlainAnd(node) ? argumentsOf(node).flatMap(listConditions) : [node];
}

const COMPUTE_LATER = 'compute it when you read the drop';
/** Functions whose value depends on other rows of the answer or on its blocks, or that make several rows; in capitals. */
const REFUSED_FUNCTIONS: readonly (readonly [RegExp, string])[] = [
  [
    /^(NEIGHBOR|RUNNING(DIFFERENCE\w*|ACCUMULATE|CONCURRENCY)|ROWNUMBERIN(ALL)?BLOCKS?|BLOCK(NUMBER|SIZE|SERIALIZEDSIZE)|(LAG|LEAD)(INFRAME)?|ROW_NUMBER|(DENSE_|PERCENT_)?RANK|DENSERANK|PERCENTRANK|NTILE|CUME_DIST|NTH_VALUE|NOWINBLOCK|GENERATESERIALID)$/,
    `it uses other rows of the answer, and each window is a separate answer; ${COMPUTE_LATER}`,
  ],
  [
    /^(ARRAYJOIN|UNNEST|EXPLODE)$/,
    'it makes several rows from one, which have the same id or are counted twice; export the array, or use an array function such as arraySum',
  ],
];
/** Aggregate functions with their suffixes, in capitals. */
const AGGREGATES =
  /^(COUNT|SUM|AVG|MIN|MAX|ANY(_VALUE|HEAVY|LAST)?|FIRST_VALUE|LAST_VALUE|ARG(MIN|MAX)|UNIQ\w*|QUANTILE\w*|MEDIAN\w*|GROUP(UNIQ)?ARRAY\w*|STDDEV\w*|VAR(POP|SAMP)\w*|COVAR\w*|CORR|TOPK\w*|SUMWITHOVERFLOW|SUMKAHAN|AVGWEIGHTED|SUMMAP\w*)(IF|DISTINCT|ORNULL|ORDEFAULT|STATE)*$/;

/** Refuses functions that look at other rows, or turn one row into several, at any depth. */
function assertRowByRow(query: TreeNode): void {
  for (const node of walkTree(query)) {
    const name = functionOf(node);
    if (name === undefined) continue;
    if (attributesOf(node).get('function_type') === 'window') {
      throw refuseSql(
        `OVER is not allowed, at ${name}: a window function uses other rows, and rows of other windows are missing; ${COMPUTE_LATER}`,
      );
    }
    const why = REFUSED_FUNCTIONS.find(([pattern]) => pattern.test(name.toUpperCase()))?.[1];
    if (why !== undefined) throw refuseSql(`${name} is not allowed: ${why}`);
  }
}

/**
 * Refuses groups, aggregates and sorting: single trades are queried in windows, which may be cut between any two rows.
 */
function assertSingleRows(query: TreeNode, table: string): void {
  for (const clause of ['GROUP BY', 'HAVING', 'ORDER BY']) {
    if (childrenUnder(query, clause).length === 0) continue;
    throw refuseSql(
      `has ${clause}: SQL without \`grain\` is queried in windows that may end between any two rows, so it must be a plain SELECT ... FROM ${table} WHERE {window} ...; ${
        clause === 'ORDER BY' ? 'order the drop with `drop.sort`' : 'for groups give a `grain`'
      }`,
    );
  }
  for (const node of walkTree(query, 'expressions')) {
    const name = functionOf(node);
    if (name === undefined || !AGGREGATES.test(name.toUpperCase())) continue;
    throw refuseSql(
      `${name} makes one value of many rows, but windows may end between any two rows; for groups give a \`grain\` and a GROUP BY`,
    );
  }
}
