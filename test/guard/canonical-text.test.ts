/** Reading the engine's one-line formatting: strings are never taken for names, names of tables are spelled one way. */
import { describe, expect, test } from 'vitest';
import {
  listAliases,
  listAppliedFunctions,
  listCalledNames,
  listSubqueryNames,
  listTokens,
  spellTables,
} from '../../src/guard/canonical-text.ts';

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

  test('names of subqueries may have columns, be quoted, or be materialized; none may be a path', () => {
    const text =
      'WITH t(a, b) AS (SELECT 1), u AS MATERIALIZED (SELECT 2), `big x` AS (SELECT 3), `/a/b` AS (SELECT 4), `c.csv` AS (SELECT 5) SELECT 6';
    expect(listSubqueryNames(listTokens(text))).toEqual(['t', 'u', 'big x']);
  });

  test('aliases are names behind AS, paths and strings left out', () => {
    const text = "SELECT [1] AS Xs, 'AS no' AS `a b`, 1 AS `/etc/x` FROM t AS u";
    expect([...listAliases(listTokens(text))]).toEqual(['xs', 'a b', 'u']);
  });

  test.each([
    ['SELECT * APPLY max FROM t', ['max']],
    ['SELECT * APPLY quantile(0.9), 1', ['quantile']],
    ['SELECT * APPLY max APPLY `sleep`', ['max', 'sleep']],
    ['SELECT * APPLY x -> f(x) FROM t', [undefined]],
    ['SELECT * APPLY (x, y) FROM t', [undefined]],
    ['SELECT * APPLY quantile(f(1)) FROM t', [undefined]],
  ])('functions that a transformer applies are found in %j', (text, expected) => {
    expect(listAppliedFunctions(listTokens(text))).toEqual(expected);
  });

  test('called names are those before a parenthesis, not those in strings', () => {
    expect(listCalledNames(listTokens("SELECT a(1), `b`(2), 'c(3)' AND (x)"))).toEqual(['a', 'b']);
  });
});
