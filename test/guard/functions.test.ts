/**
 * Functions that neither the attacks nor the queries of `test/service` have: of an unknown kind, behind an alias or in a
 * combination, and those of a second engine.
 */
import { expect, test } from 'vitest';
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
  called('formatReadableSize', 'Other'),
  called('newKind', 'Something New'),
  called('FORMAT_BYTES', '', 0, 'formatReadableSize'),
  called('array_concat_agg', '', 1, 'groupArrayArray'),
];
const functions = new FunctionList(ENGINE);

test.each(['groupArrayArrayIf', 'FORMAT_BYTES', 'array_concat_agg'])('a function list allows %s', (name) => {
  expect([functions.isAllowed(name), functions.isRefused(name)]).toEqual([true, false]);
});

test('a function list refuses a function of a kind that it does not know', () => {
  expect([functions.isAllowed('newKind'), functions.isRefused('newKind')]).toEqual([false, true]);
});

test.each(['sumMergeStateOrNull', 'aggThrowIf', '__internal'])(
  'a function list refuses %s, which no engine lists by that name',
  (name) => {
    expect(functions.isAllowed(name)).toBe(false);
  },
);

test('a function list lets a name through that no engine has, so that the engine can say so', () => {
  expect([functions.isAllowed('no_such_function'), functions.isRefused('no_such_function')]).toEqual([true, false]);
});

test('a function list refuses names that only another engine has, and none that both have', () => {
  const both = new FunctionList(ENGINE, ['my_udf', 'sum', 'formatReadableSize']);
  const names = ['my_udf', 'MY_UDF', 'sum', 'formatReadableSize', 'sumIf', 'no_such_function'];
  expect(names.map((name) => both.isAllowed(name))).toEqual([false, false, true, true, true, true]);
});
