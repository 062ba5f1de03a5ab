/** Which word somebody meant. Where it is suggested is tested with job files, jobs and settings. */
import { describe, expect, test } from 'vitest';
import { countEdits, findNearest } from '../../src/core/nearest.ts';

describe('edits', () => {
  test.each([
    ['', '', 0],
    ['', 'abc', 3],
    ['trades', 'trades', 0],
    ['trades', 'trade', 1],
    ['trades', 'tradse', 1],
    ['trades', 'traded', 1],
    ['kitten', 'sitting', 3],
    // Restricted: a swapped pair is not edited again, else this were 2.
    ['ca', 'abc', 3],
  ])('from "%s" to "%s" are %i', (a, b, edits) => {
    expect(countEdits(a, b)).toBe(edits);
    expect(countEdits(b, a)).toBe(edits);
  });
});

describe('the nearest of several words', () => {
  const KEYS = ['name', 'source', 'partition', 'drop', 'checks', 'schedule', 'reports', 'alerts', 'to'];

  test.each([
    ['nmae', 'name'],
    ['Schedule', 'schedule'],
    ['shcedulr', 'schedule'],
    ['report', 'reports'],
    ['partion', 'partition'],
    ['alert', 'alerts'],
    ['t', 'to'],
  ])('to "%s" is "%s"', (word, meant) => {
    expect(findNearest(word, KEYS)).toBe(meant);
  });

  test.each(['', 'x', 'ab', 'cron', 'recipients', 'sauce!'])('to "%s" is none', (word) => {
    expect(findNearest(word, KEYS)).toBeUndefined();
  });

  test('is the first of those that are equally near, and an exact one before all', () => {
    expect(findNearest('jobc', ['joba', 'jobb'])).toBe('joba');
    expect(findNearest('jobb', ['joba', 'jobb'])).toBe('jobb');
  });

  test('of none is none', () => {
    expect(findNearest('name', [])).toBeUndefined();
  });
});
