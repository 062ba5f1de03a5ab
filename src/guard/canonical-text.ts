/**
 * Reads the engine's own formatting of a statement: one line, no comments, strings in single quotes, odd names in back
 * quotes, both with backslash escapes. Invariant: works on nothing else; the caller's raw text is never scanned for
 * meaning. Pure.
 */
import { TABLES } from '../api-contract/published-limits.ts';

export interface SqlToken {
  readonly kind: 'name' | 'string' | 'other';
  /** As it stands in the text. */
  readonly text: string;
  /** What a name says, without its quotes. */
  readonly value: string;
}

const TOKEN = /'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|[A-Za-z_][A-Za-z0-9_]*|\d[\w.]*|\s+|./gs;
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** To the embedded engine a table's name can be a file's: no dots, no slashes. */
const HARMLESS_NAME = /^[\p{L}\p{N}_$%# -]+$/u;

/** Every character of `text` in one token each. */
export function listTokens(text: string): readonly SqlToken[] {
  return Array.from(text.matchAll(TOKEN), ([token]) => {
    if (token.length > 1 && token.startsWith("'")) return { kind: 'string', text: token, value: token };
    if (token.length > 1 && token.startsWith('`')) return { kind: 'name', text: token, value: token.slice(1, -1) };
    return { kind: PLAIN_NAME.test(token) ? 'name' : 'other', text: token, value: token };
  });
}

/**
 * Names of the common table expressions, lower case, in the order of the text: `name AS (SELECT`, `name(a, b) AS (SELECT`
 * or `name AS MATERIALIZED (SELECT` is nothing else. A name that could be a path is left out.
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

/** Names that the statement itself gives to expressions, lower case; one that could be a path is left out. */
export function listAliases(tokens: readonly SqlToken[]): ReadonlySet<string> {
  const solid = tokens.filter(isSolid);
  const named = solid.filter((token, index) => solid[index - 1]?.text === 'AS' && isHarmlessName(token));
  return new Set(named.map((token) => token.value.toLowerCase()));
}

/** Names that stand for nothing but a text literal, lower case. */
export function listTextAliases(tokens: readonly SqlToken[]): ReadonlySet<string> {
  const solid = tokens.filter(isSolid);
  const isText = (index: number) =>
    solid[index]?.kind === 'string' && /^(WITH|SELECT|,)$/.test(solid[index - 1]?.text ?? '');
  const given = solid.flatMap((token, index) =>
    solid[index - 1]?.text === 'AS' ? [{ name: token.value.toLowerCase(), isText: isText(index - 2) }] : [],
  );
  // A name that is also given to something else means that somewhere.
  const others = new Set(given.filter((alias) => !alias.isText).map(({ name }) => name));
  return new Set(given.filter(({ name }) => !others.has(name)).map(({ name }) => name));
}

/**
 * Functions that `APPLY` calls, which the syntax tree does not show; `undefined` stands for what is not a plain name with
 * literals behind it. More is found than is there when something else is called APPLY.
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

/** Index of the parenthesis that ends a list of literals. */
function findClose(solid: readonly SqlToken[], open: number): number | undefined {
  for (let place = open + 1; place < solid.length; place += 1) {
    const token = solid[place];
    if (token?.text === ')') return place;
    if (token?.kind === 'name') return undefined;
  }
  return undefined;
}

/** What stands behind a transformer is a word, a comma, a parenthesis or nothing; behind the name of a lambda, an arrow. */
function endsTransformer(next: SqlToken | undefined): boolean {
  return next === undefined || next.kind === 'name' || next.text === ',' || next.text === ')';
}

/** Names directly before an opening parenthesis: functions, and words of the language. */
export function listCalledNames(tokens: readonly SqlToken[]): readonly string[] {
  return tokens
    .filter((token, index) => token.kind === 'name' && tokens[index + 1]?.text === '(')
    .map(({ value }) => value);
}

function isSolid(token: SqlToken): boolean {
  return token.text.trim() !== '';
}

/** Index of the name that `AS` at `index` gives a meaning to: before it, or before the column names in parentheses. */
function findNameBefore(solid: readonly SqlToken[], index: number): number {
  if (solid[index - 1]?.text !== ')') return index - 1;
  let place = index - 1;
  while (place >= 0 && solid[place]?.text !== '(') place -= 1;
  return place - 1;
}

function isHarmlessName(token: SqlToken): boolean {
  return token.kind === 'name' && HARMLESS_NAME.test(token.value);
}

/** The text with every spelling of a table's name as the service's views spell it. */
export function spellTables(tokens: readonly SqlToken[]): string {
  return tokens
    .map((token) => {
      if (token.kind !== 'name') return token.text;
      return TABLES.find((table) => table.toLowerCase() === token.value.toLowerCase()) ?? token.text;
    })
    .join('');
}
