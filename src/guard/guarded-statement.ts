/**
 * Parses a caller's text with the engine's own parser: the canonical one-line text, without comments, and the syntax
 * tree of exactly that text. Invariant: the result is one SELECT statement without FORMAT and INTO OUTFILE. This module
 * does not check what the statement may read and call. The cost of parsing is bounded.
 */
import { EngineFault } from '../engine/engine-fault.ts';
import { quoteString } from '../engine/literal.ts';
import { listTokens, type SqlToken } from './canonical-text.ts';
import { type ParserRows, readSyntaxTree, type TreeNode } from './engine-tree.ts';
import { refuseSql, toRefusal } from './refusal.ts';

/** Longer statements cost too much to parse. */
const MAX_SQL_BYTES = 64 * 1024;
/**
 * With the engine's default, a hostile text of 300 bytes can keep the parser busy for two seconds. A statement with the
 * maximum number of terms needs half of this.
 */
const MAX_PARSER_BACKTRACKS = 50_000;
/** The engine's own default; set here because a server may have raised it. */
const MAX_PARSER_DEPTH = 1_000;
/** First words of statements that are not queries, to recognize texts that the engine cannot parse. */
const OTHER_STATEMENT =
  /^(alter|attach|backup|begin|call|check|commit|create|delete|describe|desc|detach|drop|exchange|exec|execute|exists|explain|grant|insert|kill|merge|move|optimize|parallel|prepare|rename|replace|restore|revoke|rollback|set|show|system|truncate|undrop|update|use|watch)\b/i;
/** White space, comments and opening parentheses before the first word of the caller's text. */
const BEFORE_FIRST_WORD = /^(?:\s|\(|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|\/\*.*?\*\/)+/s;

/**
 * ClickHouse's error codes for text that is not allowed inside parentheses, and for a UNION without ALL or DISTINCT.
 */
const NOT_PLAIN: readonly number[] = [62, 557, 558];

const ONLY_SELECT = 'Only SELECT queries are allowed.';
const ONLY_PLAIN_SELECT = 'Only one SELECT query is allowed, without UNION, FORMAT and INTO OUTFILE.';

export interface SelectStatement {
  /** The canonical text. */
  readonly text: string;
  /** Tokens of the canonical text; every character is in one of them. */
  readonly tokens: readonly SqlToken[];
  readonly tree: TreeNode;
}

/** @throws Refusal */
export async function parseSelect(engine: ParserRows, sql: string): Promise<SelectStatement> {
  if (sql.includes('\0')) throw refuseSql('The SQL contains a NUL character.');
  if (Buffer.byteLength(sql) > MAX_SQL_BYTES) throw refuseSql(`The SQL is longer than ${MAX_SQL_BYTES} bytes.`);
  const firstWord = sql.replace(BEFORE_FIRST_WORD, '');
  const canonical = await formatStatement(engine, sql, firstWord);
  // The engine accepts queries that do not begin with SELECT or WITH, but the specification's rule is about the first
  // word.
  if (!/^(select|with)\b/i.test(firstWord) || !/^(SELECT|WITH)\b/.test(canonical)) throw refuseSql(ONLY_SELECT);
  const tokens = listTokens(canonical);
  // Such a name could pass for several lines of the EXPLAIN output.
  if (tokens.some((token) => token.kind === 'name' && /[\\\p{Cc}]/u.test(token.value))) {
    throw refuseSql('A quoted name contains a control character or a backslash.');
  }
  const tree = await readSyntaxTree(engine, canonical).catch((error: unknown) => {
    // It was parsed before, but not in parentheses.
    if (error instanceof EngineFault && NOT_PLAIN.includes(error.clickhouseCode)) throw refuseSql(ONLY_PLAIN_SELECT);
    throw toRefusal(error, canonical);
  });
  return { text: canonical, tokens, tree };
}

/** The engine's one-line formatting: one statement without comments. */
async function formatStatement(engine: ParserRows, sql: string, firstWord: string): Promise<string> {
  try {
    const [formatted] = await engine.rows<{ text: string }>(
      `SELECT formatQuerySingleLine(${quoteString(sql)}) AS text
       SETTINGS max_parser_backtracks = ${MAX_PARSER_BACKTRACKS}, max_parser_depth = ${MAX_PARSER_DEPTH}`,
    );
    return formatted?.text ?? '';
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error;
    if (error.message.includes('Multi-statements')) throw refuseSql('Only one statement is allowed.');
    if (OTHER_STATEMENT.test(firstWord)) throw refuseSql(ONLY_SELECT);
    throw toRefusal(error, sql);
  }
}
