/** Which word somebody meant. Where it is suggested is tested with job files, jobs and settings. */
import { describe, expect, test } from 'vitest';
import { findNearest } from '../../src/core/nearest.ts';

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
