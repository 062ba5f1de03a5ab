/**
 * Reads the engine's own formatting of a statement: one line, no comments, strings in single quotes, unusual names in
 * backquotes, both with backslash escapes. Invariant: it reads only this format; the meaning is never taken from the
 * caller's raw text. Pure.
 */
import { TABLES } from '../api-contract/published-limits.ts';

export interface SqlToken {
  readonly kind: 'name' | 'string' | 'other';
  /** The token as written in the text. */
  readonly text: string;
  /** The name without its quotes. */
  readonly value: string;
}

const TOKEN = /'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|[A-Za-z_][A-Za-z0-9_]*|\d[\w.]*|\s+|./gs;
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** In the embedded engine a table name can be a file name: no dots, no slashes. */
const HARMLESS_NAME = /^[\p{L}\p{N}_$%# -]+$/u;

/** Splits `text` into tokens; every character is in exactly one token. */
export function listTokens(text: string): readonly SqlToken[] {
  return Array.from(text.matchAll(TOKEN), ([token]) => {
    if (token.length > 1 && token.startsWith("'")) return { kind: 'string', text: token, value: token };
    if (token.length > 1 && token.startsWith('`')) return { kind: 'name', text: token, value: token.slice(1, -1) };
    return { kind: PLAIN_NAME.test(token) ? 'name' : 'other', text: token, value: token };
  });
}

/**
 * Names of the common table expressions, lower case, in text order; names that could be paths are left out. Only common
 * table expressions have one of these forms: `name AS (SELECT`, `name(a, b) AS (SELECT`,
 * `name AS MATERIALIZED (SELECT`.
 */
export function listSubqueryNames(tokens: readonly SqlToken[]): readonly string[] {
  const solid = tokens.filter(isSolid);
  const names: string[] = [];
  for (const [index, token] of solid.entries()) {
    if (token.text !== 'AS' || token.kind !== 'name') continue;
    const open = solid[index + 1]?.text === 'MATERIALIZED' ? index + 2 : index + 1;
    const first = solid[open + 1]?.text;
    if (solid[open]?.text !== '(' || (first !== 'SELECT' && first !== 'WITH')) continue;
    const named = solid[findNameBefore(solid, index)];
    if (named && isHarmlessName(named)) names.push(named.value.toLowerCase());
  }
  return names;
}

/** Names that the statement gives to expressions, lower case, without those that could be paths. */
export function listAliases(tokens: readonly SqlToken[]): ReadonlySet<string> {
  const solid = tokens.filter(isSolid);
  const named = solid.filter((token, index) => solid[index - 1]?.text === 'AS' && isHarmlessName(token));
  return new Set(named.map((token) => token.value.toLowerCase()));
}

/** Names that are aliases of text literals only, lower case. */
export function listTextAliases(tokens: readonly SqlToken[]): ReadonlySet<string> {
  const solid = tokens.filter(isSolid);
  const isText = (index: number) =>
    solid[index]?.kind === 'string' && /^(WITH|SELECT|,)$/.test(solid[index - 1]?.text ?? '');
  const given = solid.flatMap((token, index) =>
    solid[index - 1]?.text === 'AS' ? [{ name: token.value.toLowerCase(), isText: isText(index - 2) }] : [],
  );
  // A name that is also an alias of something else has that meaning in some places.
  const others = new Set(given.filter((alias) => !alias.isText).map(({ name }) => name));
  return new Set(given.filter(({ name }) => !others.has(name)).map(({ name }) => name));
}

/**
 * Functions that `APPLY` calls, which the syntax tree does not contain; `undefined` for anything but a plain name with
 * optional literals after it. If something else is named APPLY, the list has extra entries.
 */
export function listAppliedFunctions(tokens: readonly SqlToken[]): readonly (string | undefined)[] {
  const solid = tokens.filter(isSolid);
  return solid.flatMap((token, index) => {
    if (token.text !== 'APPLY') return [];
    const applied = solid[index + 1];
    const last = solid[index + 2]?.text === '(' ? findClose(solid, index + 2) : index + 1;
    const isPlain = applied?.kind === 'name' && last !== undefined && endsTransformer(solid[last + 1]);
    return [isPlain ? applied.value : undefined];
  });
}

/** Index of the parenthesis that closes a list of literals. */
function findClose(solid: readonly SqlToken[], open: number): number | undefined {
  for (let place = open + 1; place < solid.length; place += 1) {
    const token = solid[place];
    if (token?.text === ')') return place;
    if (token?.kind === 'name') return undefined;
  }
  return undefined;
}

/**
 * A transformer is followed by a word, a comma, a parenthesis or nothing; the parameter name of a lambda by an arrow.
 */
function endsTransformer(next: SqlToken | undefined): boolean {
  return next === undefined || next.kind === 'name' || next.text === ',' || next.text === ')';
}

/** Names directly before an opening parenthesis: functions and keywords. */
export function listCalledNames(tokens: readonly SqlToken[]): readonly string[] {
  return tokens
    .filter((token, index) => token.kind === 'name' && tokens[index + 1]?.text === '(')
    .map(({ value }) => value);
}

function isSolid(token: SqlToken): boolean {
  return token.text.trim() !== '';
}

/**
 * Index of the name that the `AS` at `index` defines: directly before it, or before the column names in parentheses.
 */
function findNameBefore(solid: readonly SqlToken[], index: number): number {
  if (solid[index - 1]?.text !== ')') return index - 1;
  let place = index - 1;
  while (place >= 0 && solid[place]?.text !== '(') place -= 1;
  return place - 1;
}

function isHarmlessName(token: SqlToken): boolean {
  return token.kind === 'name' && HARMLESS_NAME.test(token.value);
}

/** The text with each table name in the spelling of the service's views. */
export function spellTables(tokens: readonly SqlToken[]): string {
  return tokens
    .map((token) => {
      if (token.kind !== 'name') return token.text;
      return TABLES.find((table) => table.toLowerCase() === token.value.toLowerCase()) ?? token.text;
    })
    .join('');
}
