/** The columns that a SELECT gives, as it writes them: what each is called, and the expression behind the name. Pure. */
import type { SqlToken } from './sql-tokens.ts';

export interface SelectItem {
  /** What the answer calls it; empty for an expression without an alias. */
  readonly name: string;
  /** Without the alias. */
  readonly expression: readonly SqlToken[];
}

/** Words that end an expression without being its alias. */
const NO_ALIAS: ReadonlySet<string> = new Set(['END', 'NULL', 'TRUE', 'FALSE', 'ASC', 'DESC']);

export function listSelectItems(tokens: readonly SqlToken[]): readonly SelectItem[] {
  return splitAtCommas(tokens).map((item) => {
    const [last, before] = [item.at(-1), item.at(-2)];
    const isNamed = last !== undefined && isName(last);
    if (!isNamed || before === undefined) return { name: isNamed ? nameOf(last) : '', expression: item };
    if (before.kind === 'word' && before.value === 'AS') return { name: nameOf(last), expression: item.slice(0, -2) };
    if (before.text === '.') return { name: nameOf(last), expression: item };
    // `expression alias`, without AS: behind a sign other than a closing bracket the name is a part of the expression.
    const isAlias = (before.kind !== 'sign' || /^[)\]]$/.test(before.text)) && !NO_ALIAS.has(last.value);
    return isAlias ? { name: nameOf(last), expression: item.slice(0, -1) } : { name: '', expression: item };
  });
}

/** The parts between the commas that stand outside of brackets: of these tokens, whatever their own depth. */
export function splitAtCommas(tokens: readonly SqlToken[]): readonly (readonly SqlToken[])[] {
  const [first] = tokens;
  if (first === undefined) return [];
  const parts: SqlToken[][] = [[]];
  for (const token of tokens) {
    if (token.text === ',' && token.depth === first.depth) parts.push([]);
    else parts.at(-1)?.push(token);
  }
  return parts;
}

/** What a name says, without quotes; names of columns keep their case. */
export function nameOf(token: SqlToken): string {
  return token.kind === 'name' ? token.value : token.text;
}

export function isName(token: SqlToken): boolean {
  return token.kind === 'word' || token.kind === 'name';
}

/** The same words and signs, however they are spaced and quoted. */
export function isSameSql(some: readonly SqlToken[], others: readonly SqlToken[]): boolean {
  return some.length === others.length && some.every((token, index) => canonical(token) === canonical(others[index]));
}

function canonical(token: SqlToken | undefined): string | undefined {
  return token && isName(token) ? nameOf(token) : token?.text;
}
