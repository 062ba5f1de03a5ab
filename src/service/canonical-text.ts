/**
 * Reads the engine's own formatting of a statement: one line, no comments, strings in single quotes, odd names in back
 * quotes, both with backslash escapes. Invariant: works on nothing else; the caller's raw text is never scanned for
 * meaning. Pure.
 */
import { TABLES } from '../wire/limits.ts';

export interface Token {
  readonly kind: 'name' | 'string' | 'other';
  /** As it stands in the text. */
  readonly text: string;
  /** What a name says, without its quotes. */
  readonly value: string;
}

const TOKEN = /'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|[A-Za-z_][A-Za-z0-9_]*|\d[\w.]*|\s+|./gs;
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Every character of `text` in one token each. */
export function listTokens(text: string): readonly Token[] {
  return Array.from(text.matchAll(TOKEN), ([token]) => {
    if (token.length > 1 && token.startsWith("'")) return { kind: 'string', text: token, value: token };
    if (token.length > 1 && token.startsWith('`')) return { kind: 'name', text: token, value: token.slice(1, -1) };
    return { kind: PLAIN_NAME.test(token) ? 'name' : 'other', text: token, value: token };
  });
}

/** Names of the common table expressions, lower case: `name AS (SELECT` or `name AS (WITH` is nothing else. */
export function listSubqueryNames(tokens: readonly Token[]): ReadonlySet<string> {
  const solid = tokens.filter((token) => token.text.trim() !== '');
  const names = new Set<string>();
  for (const [index, token] of solid.entries()) {
    const [as, open, select] = [1, 2, 3].map((step) => solid[index + step]?.text);
    const isSubquery = as === 'AS' && open === '(' && (select === 'SELECT' || select === 'WITH');
    if (isSubquery && PLAIN_NAME.test(token.value)) names.add(token.value.toLowerCase());
  }
  return names;
}

/** The text with every spelling of a table's name as the service's views spell it. */
export function spellTables(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      if (token.kind !== 'name') return token.text;
      return TABLES.find((table) => table.toLowerCase() === token.value.toLowerCase()) ?? token.text;
    })
    .join('');
}
