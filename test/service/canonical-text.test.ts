/** Reading the engine's one-line formatting: strings are never taken for names, names of tables are spelled one way. */
import { describe, expect, test } from 'vitest';
import { listSubqueryNames, listTokens, spellTables } from '../../src/service/canonical-text.ts';
import { parseSyntaxTree, walkTree } from '../../src/service/syntax-tree.ts';

describe('canonical text', () => {
  test('tokens add up to the text', () => {
    const text = "SELECT a.`b c`, 'it\\'s `x`', 1.5e3, x'00' FROM t WHERE \\ \"odd";
    expect(
      listTokens(text)
        .map((token) => token.text)
        .join(''),
    ).toBe(text);
  });

  test('tables are spelled as the views are, but not inside strings or longer names', () => {
    const text = "SELECT 'rawoptiontrades', rawoptiontrades.id FROM `RAWOPTIONTRADES` AS rawoptiontrades2";
    expect(spellTables(listTokens(text))).toBe(
      "SELECT 'rawoptiontrades', RawOptionTrades.id FROM RawOptionTrades AS rawoptiontrades2",
    );
  });

  test('names of subqueries are found, aliases of expressions are not', () => {
    const text =
      "WITH First AS (SELECT 1), second AS (WITH third AS (SELECT 2) SELECT 3), 4 AS fourth SELECT 'fifth AS (SELECT' AS sixth";
    expect(listSubqueryNames(listTokens(text))).toEqual(['first', 'second', 'third']);
  });
});

describe('syntax tree', () => {
  test('follows the indentation, and leaves aliases out', () => {
    const tree = parseSyntaxTree([
      'SelectWithUnionQuery (children 1)',
      ' ExpressionList (children 2)',
      '  TableIdentifier db.t (alias x) (children 1)',
      "  Literal 'a (children 1)b'",
    ]);
    expect(Array.from(walkTree(tree), ({ kind, value }) => [kind, value])).toEqual([
      ['SelectWithUnionQuery', ''],
      ['ExpressionList', ''],
      ['TableIdentifier', 'db.t'],
      ['Literal', "'a (children 1)b'"],
    ]);
  });

  test('is refused when a level is left out, or nothing is there', () => {
    expect(() => parseSyntaxTree(['A', '  B'])).toThrow(/not known/);
    expect(() => parseSyntaxTree([])).toThrow(/no syntax tree/);
  });
});
