/**
 * The guardrails: which SQL may run. Invariant: the engine's own parser decides what the text means. Its canonical
 * formatting of the text is what is examined (as a syntax tree, node by node, against lists of what is allowed) and
 * exactly that formatting is what runs. Rows are not this module's matter: the views keep hidden rows hidden.
 *
 * The specification allows one SELECT over the whitelisted tables; UNION, other statements, settings, formats and table
 * functions are refused.
 */
import type { Engine } from '../engine/engine.ts';
import { EngineFault } from '../engine/fault.ts';
import { quoteString } from '../engine/literal.ts';
import { TABLES } from '../wire/limits.ts';
import { listSubqueryNames, listTokens, spellTables } from './canonical-text.ts';
import { type ApiFailure, invalidSql, toApiFailure } from './failure.ts';
import { type FunctionList, readFunctionList } from './functions.ts';
import { parseSyntaxTree, type SyntaxNode, walkTree } from './syntax-tree.ts';

/** Longer statements cost the parser more than they can be worth. */
const MAX_SQL_BYTES = 64 * 1024;

/** Nodes that only join or hold others; those with rules of their own are in `assertNode`. */
const PLAIN_NODES: ReadonlySet<string> = new Set([
  'ArrayJoin',
  'Asterisk',
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

/** Functions whose second argument may be a table's name. */
const TABLE_OPERANDS = /^(global)?(not)?(null)?in(ignoreset)?$/i;
/** Functions whose second argument is a type's name; a computed one would get past the check of literals. */
const TYPE_OPERANDS = /^(_?cast|accuratecast\w*|reinterpret)$/i;
/** First words of statements that are not queries, for texts that the engine cannot parse either. */
const OTHER_STATEMENT =
  /^(alter|attach|backup|begin|call|check|commit|create|delete|describe|desc|detach|drop|exchange|exec|execute|exists|explain|grant|insert|kill|merge|move|optimize|rename|replace|restore|revoke|rollback|set|show|system|truncate|undrop|update|use|watch)\b/i;
/** White space, comments and opening parentheses before the first word of the caller's text. */
const BEFORE_FIRST_WORD = /^(?:\s|\(|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\/\*.*?\*\/)+/s;

const ONLY_SELECT = 'Only SELECT queries are allowed.';

export interface Guard {
  /** The canonical text of a statement that may run. @throws ApiFailure */
  admit(sql: string): Promise<string>;
}

/** @param databases names of databases that no identifier may begin with */
export async function openGuard(engine: Pick<Engine, 'rows'>, databases: readonly string[]): Promise<Guard> {
  const functions = await readFunctionList(engine);
  const known = await engine.rows<{ name: string }>('SELECT name FROM system.databases');
  const closed = new Set([...databases, ...known.map(({ name }) => name)].map((name) => name.toLowerCase()));
  return { admit: (sql) => admitStatement(engine, { functions, databases: closed }, sql) };
}

interface Rules {
  readonly functions: FunctionList;
  readonly databases: ReadonlySet<string>;
}

async function admitStatement(engine: Pick<Engine, 'rows'>, rules: Rules, sql: string): Promise<string> {
  if (sql.includes('\0')) throw invalidSql('The SQL contains a NUL character.');
  if (Buffer.byteLength(sql) > MAX_SQL_BYTES) throw invalidSql(`The SQL is longer than ${MAX_SQL_BYTES} bytes.`);
  const firstWord = sql.replace(BEFORE_FIRST_WORD, '');
  const canonical = await formatStatement(engine, sql, firstWord);
  // The word is optional to the engine; the specification's rule is about the word.
  if (!/^(select|with)\b/i.test(firstWord) || !/^(SELECT|WITH)\b/.test(canonical)) throw invalidSql(ONLY_SELECT);
  const tokens = listTokens(canonical);
  if (tokens.some((token) => token.kind === 'name' && /[\\\p{Cc}]/u.test(token.value))) {
    throw invalidSql('A quoted name contains a control character or a backslash.');
  }
  const tables = new Set([...TABLES.map((table) => table.toLowerCase()), ...listSubqueryNames(tokens)]);
  const tree = parseSyntaxTree(await explainStatement(engine, canonical));
  if (tree.kind !== 'SelectWithUnionQuery') throw invalidSql(ONLY_SELECT);
  for (const node of walkTree(tree)) assertNode(node, rules, tables);
  return spellTables(tokens);
}

/** The engine's one-line formatting: no comments, one statement. */
async function formatStatement(engine: Pick<Engine, 'rows'>, sql: string, firstWord: string): Promise<string> {
  try {
    const [formatted] = await engine.rows<{ text: string }>(
      `SELECT formatQuerySingleLine(${quoteString(sql)}) AS text`,
    );
    return formatted?.text ?? '';
  } catch (error) {
    if (error instanceof EngineFault && error.message.includes('Multi-statements')) {
      throw invalidSql('Only one statement is allowed.');
    }
    if (OTHER_STATEMENT.test(firstWord)) throw invalidSql(ONLY_SELECT);
    throw toApiFailure(error, sql);
  }
}

async function explainStatement(engine: Pick<Engine, 'rows'>, canonical: string): Promise<readonly string[]> {
  try {
    const lines = await engine.rows<{ explain: string }>(`EXPLAIN AST ${canonical}`);
    return lines.map((line) => line.explain);
  } catch (error) {
    throw toApiFailure(error, canonical);
  }
}

function assertNode(node: SyntaxNode, rules: Rules, tables: ReadonlySet<string>): void {
  switch (node.kind) {
    case 'SelectWithUnionQuery':
      assertOneSelect(node);
      return;
    case 'TableExpression':
      assertTableExpression(node);
      return;
    case 'TableIdentifier':
      if (!tables.has(node.value.toLowerCase())) throw unknownTable(node.value);
      return;
    case 'Identifier':
      assertIdentifier(node.value, rules);
      return;
    case 'Function':
      assertFunction(node, rules, tables);
      return;
    case 'Literal':
      if (/AggregateFunction\s*\(/i.test(node.value)) throw invalidSql('Aggregate states are not available.');
      return;
    default:
      if (!PLAIN_NODES.has(node.kind)) throw invalidSql('The query uses a construct that is not available.');
  }
}

/** Further children are FORMAT and INTO OUTFILE; a second query is a UNION. */
function assertOneSelect(node: SyntaxNode): void {
  const [queries, ...others] = node.children;
  if (others.length > 0) throw invalidSql('FORMAT and INTO OUTFILE are not allowed.');
  const [query, ...more] = queries?.children ?? [];
  if (more.length > 0 || query?.kind !== 'SelectQuery')
    throw invalidSql('UNION, INTERSECT and EXCEPT are not allowed.');
  if (query.children.some((child) => child.kind === 'Set')) throw invalidSql('SETTINGS is not allowed.');
}

function assertTableExpression(node: SyntaxNode): void {
  for (const child of node.children) {
    if (child.kind === 'Function') throw invalidSql(`Table function ${child.value} is not available.`);
    if (child.kind !== 'TableIdentifier' && child.kind !== 'Subquery') {
      throw invalidSql('Only the whitelisted tables and subqueries may be read.');
    }
  }
}

function assertIdentifier(name: string, rules: Rules): void {
  const first = name.split('.')[0]?.toLowerCase() ?? '';
  if (name.includes('.') && rules.databases.has(first)) throw unknownTable(name);
}

function assertFunction(node: SyntaxNode, rules: Rules, tables: ReadonlySet<string>): void {
  if (!rules.functions.isAllowed(node.value)) throw invalidSql(`Function ${node.value} is not available.`);
  const [, second] = node.children[0]?.children ?? [];
  // The right side of IN may be a table's name.
  if (TABLE_OPERANDS.test(node.value) && second?.kind === 'Identifier' && !tables.has(second.value.toLowerCase())) {
    throw unknownTable(second.value);
  }
  if (TYPE_OPERANDS.test(node.value) && second?.kind !== 'Literal')
    throw invalidSql('A cast takes the name of a type.');
}

function unknownTable(name: string): ApiFailure {
  return invalidSql(`Table ${name} is not available; allowed are ${TABLES.join(' and ')}.`);
}
