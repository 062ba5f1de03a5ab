/** Which function names a query may use: by kind, by alias, by combination, and with a second engine's names. */
import { describe, expect, test } from 'vitest';
import { FunctionList } from '../../src/guard/functions.ts';

const called = (name: string, category: string, is_aggregate = 0, alias_to = '') => ({
  name,
  category,
  is_aggregate,
  alias_to,
});

const ENGINE = [
  called('sum', 'Aggregate Functions', 1),
  called('groupArray', 'Aggregate Functions', 1),
  called('aggThrow', 'Aggregate Functions', 1),
  called('round', 'Rounding'),
  called('chdb', 'String'),
  called('hostName', 'Other'),
  called('rand', 'Random Number'),
  called('formatReadableSize', 'Other'),
  called('newKind', 'Something New'),
  called('FORMAT_BYTES', '', 0, 'formatReadableSize'),
  called('array_concat_agg', '', 1, 'groupArrayArray'),
  called('fullHostName', '', 0, 'hostName'),
  called('currentUser', 'Other'),
];

describe('a function list', () => {
  const functions = new FunctionList(ENGINE);

  test.each([
    'sum',
    'SUM',
    'sumIf',
    'sumOrNullIf',
    'groupArrayArrayIf',
    'round',
    'rand',
    'FORMAT_BYTES',
    'array_concat_agg',
  ])('allows %s', (name) => {
    expect(functions.isAllowed(name)).toBe(true);
    expect(functions.isRefused(name)).toBe(false);
  });

  test.each(['hostName', 'chdb', 'newKind', 'fullHostName', 'aggThrow'])('refuses %s', (name) => {
    expect(functions.isAllowed(name)).toBe(false);
    expect(functions.isRefused(name)).toBe(true);
  });

  test.each([
    'sumState',
    'sumStateIf',
    'sumMergeIf',
    'sumSimpleState',
    'sumMergeStateOrNull',
    'aggThrowIf',
    '__internal',
  ])('refuses %s, which no engine lists by that name', (name) => {
    expect(functions.isAllowed(name)).toBe(false);
  });

  test('lets a name through that no engine has, so that the engine can say so', () => {
    expect(functions.isAllowed('no_such_function')).toBe(true);
    expect(functions.isRefused('no_such_function')).toBe(false);
  });

  test('refuses names that only another engine has, and none that both have', () => {
    const both = new FunctionList(ENGINE, ['my_udf', 'sum', 'round']);
    expect(
      ['my_udf', 'MY_UDF', 'sum', 'round', 'sumIf', 'no_such_function'].map((name) => both.isAllowed(name)),
    ).toEqual([false, false, true, true, true, true]);
  });
});
