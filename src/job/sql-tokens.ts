/**
 * The words and signs of SQL in ClickHouse's dialect, each with its place and its depth in brackets. Invariant: what two
 * versions of the server could read differently (a comment in a comment, curly quotes, a number with letters) is refused,
 * so that nothing is taken for a text here that is SQL there. It knows no grammar. Pure.
 */
import { ResolveFault } from './resolve-fault.ts';

/** Where the condition of a window goes. */
export const WINDOW_MARK = '{window}';

export interface SqlToken {
  /** A `word` is bare: a name, or a keyword; a `name` is quoted. */
  readonly kind: 'word' | 'name' | 'string' | 'number' | 'sign' | 'window';
  /** As it stands in the text. */
  readonly text: string;
  /** Of a word what it is as a keyword, in capitals; of a name what is between the quotes; else the text. */
  readonly value: string;
  /** Offset of its first character. */
  readonly at: number;
  /** Brackets that are open around it; a bracket itself is outside of what it encloses. */
  readonly depth: number;
}

const SPACE = /[ \t\r\n\f\v]+/y;
const LINE_COMMENT = /(?:--|#[ !])[^\n]*/y;
const COMMENT = /\/\*[\s\S]*?\*\//y;
const STRING = /'(?:[^'\\]|\\[\s\S]|'')*'/y;
const NAME = /`(?:[^`\\]|\\[\s\S]|``)*`|"(?:[^"\\]|\\[\s\S]|"")*"/y;
const HEREDOC = /\$(\w*)\$[\s\S]*?\$\1\$/y;
const WORD = /[A-Za-z_][A-Za-z0-9_$]*/y;
const NUMBER = /0[xX][0-9a-fA-F]+|0[bB][01]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?/y;
const SIGN = /->|::|\|\||[<>!=]=|<>|[()[\],;.*+\-/%=<>?:]/y;
const CLOSING: Readonly<Record<string, string>> = { ')': '(', ']': '[' };
/** Of a text that is shown to say where something stands. */
const MAX_SHOWN = 48;

/** @throws ResolveFault of `source.sql` for what cannot be read, a bracket left open, and a `{window}` in a text or comment */
export function listSqlTokens(sql: string): readonly SqlToken[] {
  const tokens: SqlToken[] = [];
  const open: SqlToken[] = [];
  let at = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(sql)?.[0];
  };
  const add = (kind: SqlToken['kind'], text: string, value = text) => {
    tokens.push({ kind, text, value, at, depth: open.length });
    at += text.length;
  };
  while (at < sql.length) {
    const skipped = match(SPACE) ?? match(LINE_COMMENT) ?? match(COMMENT);
    if (skipped !== undefined) {
      assertPlainComment(sql, at, skipped);
      at += skipped.length;
      continue;
    }
    if (sql.startsWith(WINDOW_MARK, at)) {
      add('window', WINDOW_MARK);
      continue;
    }
    const string = match(STRING) ?? match(HEREDOC);
    if (string !== undefined) {
      assertNoMark(sql, at, string, 'a text');
      assertNotHex(sql, at, tokens.at(-1));
      add('string', string);
      continue;
    }
    const name = match(NAME);
    if (name !== undefined) {
      assertNoMark(sql, at, name, 'a quoted name');
      if (name.includes('\\')) throw refuse(sql, at, 'name has a backslash, which can spell any other name');
      add('name', name, name.slice(1, -1));
      continue;
    }
    const word = match(WORD);
    if (word !== undefined) {
      add('word', word, word.toUpperCase());
      continue;
    }
    const number = match(NUMBER);
    if (number !== undefined) {
      if (/^[\w$]/.test(sql.slice(at + number.length))) throw refuse(sql, at, 'is neither a number nor a name');
      add('number', number);
      continue;
    }
    const sign = sql.startsWith('/*', at) ? undefined : match(SIGN);
    if (sign === undefined) throw refuseCharacter(sql, at);
    if (CLOSING[sign] !== undefined && open.pop()?.text !== CLOSING[sign]) {
      throw refuse(sql, at, `closes no "${CLOSING[sign]}"`);
    }
    add('sign', sign);
    const last = tokens.at(-1);
    if (last && (sign === '(' || sign === '[')) open.push(last);
  }
  const left = open.at(-1);
  if (left) throw refuse(sql, left.at, 'is never closed');
  return tokens;
}

/** The text from an offset on, on one line and short, in quotes. */
export function showSql(sql: string, from: number, to = sql.length): string {
  const line = sql
    .slice(from, to)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  return `"${line.length > MAX_SHOWN ? `${line.slice(0, MAX_SHOWN - 3)}...` : line}"`;
}

function refuse(sql: string, at: number, problem: string): ResolveFault {
  return new ResolveFault(['source', 'sql'], `at ${showSql(sql, at)}: this ${problem}`);
}

/** ClickHouse reads one comment in another as its part or as its end, by version. */
function assertPlainComment(sql: string, at: number, skipped: string): void {
  if (skipped.trim() === '') return;
  assertNoMark(sql, at, skipped, 'a comment');
  if (skipped.startsWith('/*') && skipped.indexOf('/*', 2) > 0) {
    throw refuse(sql, at, 'comment has another in it, which servers read differently; leave one out');
  }
}

function assertNoMark(sql: string, at: number, text: string, what: string): void {
  if (!text.includes(WINDOW_MARK)) return;
  throw refuse(sql, at, `is ${what} with ${WINDOW_MARK} in it, where it would be no condition; take it out`);
}

/** `x'...'` and `b'...'` know no backslash, unlike every other text. */
function assertNotHex(sql: string, at: number, before: SqlToken | undefined): void {
  if (before?.kind !== 'word' || before.at + before.text.length !== at) return;
  throw refuse(sql, before.at, 'text has letters before its quote; write a space between, or unhex(...) for bytes');
}

function refuseCharacter(sql: string, at: number): ResolveFault {
  const character = String.fromCodePoint(sql.codePointAt(at) ?? 0);
  if (character === '{') return refuse(sql, at, `brace is not allowed; braces are for ${WINDOW_MARK} only`);
  if (/['"`$]/.test(character)) return refuse(sql, at, 'quote is never closed');
  if (sql.startsWith('/*', at)) return refuse(sql, at, 'comment is never closed');
  return refuse(sql, at, 'character is not allowed outside of texts and quoted names');
}
