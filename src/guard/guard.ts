/**
 * The guardrails: which SQL may run. Invariant: the engine's own parser decides what the text means. The guard checks
 * the parser's canonical formatting of the text (as a syntax tree, node by node, against allow-lists), and exactly that
 * formatting runs. It does not filter rows: the views keep hidden rows hidden.
 *
 * The specification allows one SELECT over the whitelisted tables. UNION, other statements, settings, formats and table
 * functions are refused.
 */

import { TABLES } from '../api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import { systemClock } from '../core/clock.ts';
import { findNearest } from '../core/nearest.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/engine-fault.ts';
import type { PoolRequest } from '../engine/pool.ts';
import {
  listAliases,
  listAppliedFunctions,
  listCalledNames,
  listSubqueryNames,
  listTextAliases,
  spellTables,
} from './canonical-text.ts';
import { type ParserRows, TAKES_SET, type TreeNode, walkTree } from './engine-tree.ts';
import { type FunctionList, hasPlainZones, namesHostZone, readFunctionList } from './functions.ts';
import { parseSelect } from './guarded-statement.ts';
import { type Refusal, refuseSql, refuseTooBroad } from './refusal.ts';

/** The engine plans each table read again wherever its subquery is used, and nested subqueries multiply. */
const MAX_TABLE_READS = 100;

/** Nodes that only join or contain other nodes; `assertNode` has the rules for the rest. */
const PLAIN_NODES: ReadonlySet<string> = new Set([
  'ArrayJoin',
  'Asterisk',
  'ColumnsApplyTransformer',
  'ColumnsExceptTransformer',
  'ColumnsListMatcher',
  'ColumnsRegexpMatcher',
  'ColumnsReplaceTransformer',
  'ColumnsReplaceTransformer::Replacement',
  'ColumnsTransformerList',
  'ExpressionList',
  'InterpolateElement',
  'OrderByElement',
  'QualifiedAsterisk',
  'QualifiedColumnsListMatcher',
  'QualifiedColumnsRegexpMatcher',
  'SelectQuery',
  'StorageOrderByElement',
  'Subquery',
  'TableJoin',
  'TablesInSelectQuery',
  'TablesInSelectQueryElement',
  'WindowDefinition',
  'WindowListElement',
  'WithElement',
]);

/** Allowed parts of a table expression; `ExpressionList` holds the column names of `FROM t AS x (a, b)`. */
const TABLE_PARTS: ReadonlySet<string> = new Set(['ExpressionList', 'Subquery', 'TableIdentifier']);
/** Functions that reveal server details and that the engine calls without parentheses. */
const CALLED_BARE =
  /^(current_?(user|database|schemas?|roles?|catalog)|session_user|system_user|database|schema|user)$/i;
/** Functions whose second argument is a type name; a computed name would escape the check of literals. */
const TYPE_OPERANDS = /^(_?cast|accuratecast\w*|reinterpret)$/i;
/** Types of aggregate states, and types with quoted names, which can be spelled in many ways. */
const TYPE_REFUSED = /aggregatefunction|["`\\]/i;
/** Columns of every table that reveal the database behind the views. */
const SERVICE_COLUMN = /^_(database|table)$/i;

export interface Guard {
  /**
   * Returns the canonical text of a statement that may run.
   * @param asker the caller on whose behalf the engine is used
   * @throws Refusal
   */
  admit(sql: string, asker: PoolRequest): Promise<string>;
}

/**
 * @param parser parses callers' SQL, and never runs it; one process is enough. Another engine may run the admitted text
 * @param databases names of databases with which no identifier may begin
 * @param functionNames functions of that other engine, if it runs the admitted text
 * @param tables the only ones that a statement may read
 */
export async function openGuard(
  parser: ParserPool,
  databases: readonly string[],
  functionNames: readonly string[] = [],
  tables: readonly string[] = TABLES,
): Promise<Guard> {
  const engine = parseFor(parser, { owner: 'start', signal: new AbortController().signal });
  const functions = await readFunctionList(engine, functionNames);
  const known = await engine.rows<{ name: string }>('SELECT name FROM system.databases');
  const closed = new Set([...databases, ...known.map(({ name }) => name)].map((name) => name.toLowerCase()));
  return {
    admit: (sql, asker) => admitStatement(parseFor(parser, asker), { functions, databases: closed, tables }, sql),
  };
}

interface ParserPool {
  use<T>(request: PoolRequest, task: (engine: ParserRows) => Promise<T>): Promise<T>;
}

/** Texts are short; one that takes longer than this to parse was built to be slow, and is given up with its process. */
const PARSE_TIMEOUT_MS = 5_000;

/** The parser on behalf of one caller; callers share it fairly. */
function parseFor(pool: ParserPool, { owner, signal }: PoolRequest): ParserRows {
  return {
    async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
      const late = new AbortController();
      const over = new AbortController();
      try {
        return await pool.use({ owner, signal: AbortSignal.any([signal, late.signal]) }, async (engine) => {
          // The time limit starts when the parser is free for this text.
          const giveUp = () => late.abort(new EngineFault(CLICKHOUSE_CODES.TIMEOUT_EXCEEDED, 'parsing took too long'));
          systemClock.sleep(PARSE_TIMEOUT_MS, over.signal).then(giveUp, () => {}); // Parsed in time.
          return await engine.rows<Row>(sql);
        });
      } finally {
        over.abort();
      }
    },
  };
}

interface Rules {
  readonly functions: FunctionList;
  readonly databases: ReadonlySet<string>;
  readonly tables: readonly string[];
}

/** Meanings of the names in one statement, lower case. */
interface Names {
  readonly tables: ReadonlySet<string>;
  /** Columns, and names that the statement gives to expressions. */
  readonly values: ReadonlySet<string>;
  /** Names that the statement gives to text literals. */
  readonly texts: ReadonlySet<string>;
}

async function admitStatement(engine: ParserRows, rules: Rules, sql: string): Promise<string> {
  const { tokens, tree } = await parseSelect(engine, sql);
  const subqueries = listSubqueryNames(tokens);
  const tables = new Set([...rules.tables.map((table) => table.toLowerCase()), ...subqueries]);
  const values = new Set([...TRADE_COLUMNS.map((column) => column.name), ...listAliases(tokens)]);
  const names: Names = { tables, values, texts: listTextAliases(tokens) };
  for (const node of walkTree(tree)) assertNode(node, rules, names);
  // `EXPLAIN AST` omits some expressions, so check the tokens too.
  for (const name of listCalledNames(tokens)) assertCall(name, rules);
  if (Array.from(walkTree(tree)).some(({ kind }) => kind === 'ColumnsApplyTransformer')) {
    for (const name of listAppliedFunctions(tokens)) assertApplied(name, rules);
  }
  if (countTableReads(tree, subqueries) > MAX_TABLE_READS) {
    throw refuseTooBroad(
      `The query reads tables more than ${MAX_TABLE_READS} times, counting subqueries wherever they are used.`,
    );
  }
  return spellTables(tokens);
}

function assertNode(node: TreeNode, rules: Rules, names: Names): void {
  switch (node.kind) {
    case 'SelectWithUnionQuery':
      assertOneSelect(node);
      return;
    case 'TableExpression':
      assertTableExpression(node);
      return;
    case 'TableIdentifier':
      if (!names.tables.has(node.value.toLowerCase())) throw unknownTable(node.value, rules);
      return;
    case 'Identifier':
      assertIdentifier(node.value, rules, names);
      return;
    case 'Function':
      assertFunction(node, rules, names);
      return;
    case 'Literal':
      assertLiteral(node.value);
      return;
    default:
      if (!PLAIN_NODES.has(node.kind)) throw refuseSql('The query uses a construct that is not available.');
  }
}

/** Extra children are FORMAT and INTO OUTFILE; a second query is a UNION. */
function assertOneSelect(node: TreeNode): void {
  const [queries, ...others] = node.children;
  if (others.length > 0) throw refuseSql('FORMAT and INTO OUTFILE are not allowed.');
  const [query, ...more] = queries?.children ?? [];
  if (more.length > 0 || query?.kind !== 'SelectQuery') throw refuseSql('UNION, INTERSECT and EXCEPT are not allowed.');
  if (query.children.some((child) => child.kind === 'Set')) throw refuseSql('SETTINGS is not allowed.');
}

function assertTableExpression(node: TreeNode): void {
  for (const child of node.children) {
    if (child.kind === 'Function') throw refuseSql(`Table function ${child.value} is not available.`);
    if (!TABLE_PARTS.has(child.kind)) throw refuseSql('Only the whitelisted tables and subqueries may be read.');
  }
}

function assertIdentifier(name: string, rules: Rules, names: Names): void {
  const parts = name.toLowerCase().split('.');
  const first = parts[0] ?? '';
  if (parts.length > 1 && rules.databases.has(first)) throw unknownTable(name, rules);
  if (parts.some((part) => SERVICE_COLUMN.test(part))) throw refuseSql(`Column ${name} is not available.`);
  if (parts.length > 1) return;
  // An alias holds only in its own scope: elsewhere the engine would call the function, so these are refused as aliases
  // too.
  const isFunction = CALLED_BARE.test(first) || (rules.functions.isRefused(first) && !names.values.has(first));
  if (isFunction) throw refuseSql(`Function ${name} is not available.`);
}

function assertFunction(node: TreeNode, rules: Rules, names: Names): void {
  assertCall(node.value, rules);
  const [, second] = node.children[0]?.children ?? [];
  // The right side of IN may be a table name.
  if (TAKES_SET.test(node.value) && second?.kind === 'Identifier') {
    const name = second.value.toLowerCase();
    if (!names.tables.has(name) && !names.values.has(name)) throw unknownTable(second.value, rules);
  }
  const mayTakeZone = rules.functions.mayTakeZone(node.value);
  if (!hasPlainZones(node, names.texts, mayTakeZone)) throw refuseSql('A time zone must be a text, not an expression.');
  if (!TYPE_OPERANDS.test(node.value)) return;
  if (second?.kind !== 'Literal') throw refuseSql('The type of a cast must be its name, not an expression.');
  if (TYPE_REFUSED.test(readLiteral(second.value))) throw refuseSql('That type is not available.');
}

function assertApplied(name: string | undefined, rules: Rules): void {
  if (name === undefined) throw refuseSql('APPLY takes the name of a function.');
  assertCall(name, rules);
}

function assertCall(name: string, rules: Rules): void {
  if (!rules.functions.isAllowed(name)) throw refuseSql(`Function ${name} is not available.`);
}

function assertLiteral(value: string): void {
  const text = readLiteral(value);
  if (/aggregatefunction/i.test(text)) throw refuseSql('Aggregate states are not available.');
  if (namesHostZone(text)) throw refuseSql('That time zone is not available.');
}

/** A literal of the syntax tree without its backslash escapes. */
function readLiteral(value: string): string {
  return value.replace(/\\(.)/gs, '$1');
}

function unknownTable(name: string, { tables }: Rules): Refusal {
  // Who has tables of its own lists them beside the refusal.
  const allowed = tables === TABLES ? `; allowed are ${tables.join(' and ')}` : '';
  const nearest = findNearest(name, tables);
  const hint = nearest === undefined ? '' : ` (did you mean ${nearest}?)`;
  return refuseSql(`Table ${name} is not available${hint}${allowed}.`);
}

/** Tables, and right sides of IN, which may be tables. */
const TABLE_NODES: ReadonlySet<string> = new Set(['Identifier', 'TableIdentifier']);

/**
 * Counts the table reads after named subqueries are expanded wherever they are used. The count is never too small; the
 * cost is linear in the tree.
 * @param subqueries names of the common table expressions, lower case, in text order
 */
function countTableReads(tree: TreeNode, subqueries: readonly string[]): number {
  const reads = new Map<string, number>();
  let next = 0;
  return count(tree);

  function count(node: TreeNode): number {
    if (node.kind === 'WithElement') {
      const name = subqueries[next] ?? '';
      next += 1;
      const inside = sum(node.children);
      // Nested scopes may define the same name twice: count the more expensive one.
      reads.set(name, Math.max(inside, reads.get(name) ?? 0));
      return 0;
    }
    const inside = sum(node.children);
    if (!TABLE_NODES.has(node.kind)) return inside;
    const own = reads.get(node.value.toLowerCase()) ?? (node.kind === 'TableIdentifier' ? 1 : 0);
    return inside + own;
  }

  function sum(nodes: readonly TreeNode[]): number {
    return nodes.reduce((total, node) => total + count(node), 0);
  }
}
