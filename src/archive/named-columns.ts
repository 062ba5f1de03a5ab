/**
 * Which columns an admitted statement may read, from its words: more than it reads, where the words leave it open. It only
 * decides what is said of dates that lack a column, never what is read. Pure.
 */
import { listTokens, type SqlToken } from '../guard/canonical-text.ts';

/** Whether a statement may read a column: it names it, or takes all there are. */
export function isNamed(admitted: string, column: string): boolean {
  const tokens = listTokens(admitted).filter(({ text }) => text.trim() !== '');
  return tokens.some(({ value }, index) => value === column || value === 'COLUMNS' || isAllColumns(tokens, index));
}

/** A `*` behind a value multiplies, and that of `count(*)` reads no column. */
function isAllColumns(tokens: readonly SqlToken[], index: number): boolean {
  if (tokens[index]?.text !== '*') return false;
  const before = tokens[index - 1]?.text ?? '';
  if (before === '(') return tokens[index - 2]?.text.toLowerCase() !== 'count';
  return ['SELECT', 'DISTINCT', ',', '.', '['].includes(before);
}
