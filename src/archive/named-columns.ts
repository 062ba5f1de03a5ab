/**
 * Which columns of a table a statement may read, judged by its tokens: a column can be read only by its name or by a sign
 * for all columns. It knows no scopes, so there may be more of them than are read. Pure.
 */
import { listTokens, type SqlToken } from '../guard/canonical-text.ts';

/** Words that stand for columns that they do not name. */
const ALL_COLUMNS: readonly string[] = ['COLUMNS', 'NATURAL'];

/** @param admitted the guard's text @returns whether the statement may read a column of this name */
export function listNamed(admitted: string): (column: string) => boolean {
  const tokens = listTokens(admitted).filter(({ text }) => text.trim() !== '');
  const names = new Set(tokens.map(({ value }) => value));
  const isAll = tokens.some(({ value }, k) => ALL_COLUMNS.includes(value.toUpperCase()) || isAllColumns(tokens, k));
  return (column) => isAll || names.has(column);
}

/** Whether the token is a `*` for all columns. After a value it multiplies; in `count(*)` it reads no column. */
function isAllColumns(tokens: readonly SqlToken[], index: number): boolean {
  if (tokens[index]?.text !== '*') return false;
  const before = tokens[index - 1]?.text ?? '';
  if (before === '(') return tokens[index - 2]?.text.toLowerCase() !== 'count';
  return ['SELECT', 'DISTINCT', ',', '.', '['].includes(before);
}
