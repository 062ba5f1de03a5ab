/** Which conditions a job may add to those of a window, and what is said of the others. */
import { describe, expect, test } from 'vitest';
import { describeError } from '../../src/core/errors.ts';
import { readCondition } from '../../src/job/sql-condition.ts';

describe('a condition', () => {
  test.each([
    'premium > 1000',
    "symbol IN ('SPY', 'QQQ') OR size >= 10",
    'symbol IN (SELECT symbol FROM RawOptionTrades WHERE premium > 1e6)',
    "description = 'a;b -- {c'",
    '(price - 1) * 2 > 3 AND NOT is_cancelled',
  ])('%s is taken as it is', (where) => expect(readCondition(where)).toBe(where));

  test('loses a comment at its end, which would swallow what is written behind it', () => {
    expect(readCondition('premium > 1000 -- large ones')).toBe('premium > 1000');
    expect(readCondition('premium > 1000 /* large */\n')).toBe('premium > 1000');
  });

  test.each([
    ['1) OR (1', 'closes no "("'],
    ['(premium > 1', 'is never closed'],
    ["symbol = 'SPY", 'quote is never closed'],
    ['premium > 1; SELECT 1', 'one expression, without ";"'],
    ['{window} AND premium > 1', 'is added to the condition; leave it out'],
    ['arrayJoin([1, 2]) > 1', 'it makes several rows of one'],
    ['rowNumberInAllBlocks() = 0', 'it looks at other rows'],
    ['premium > /* 1', 'comment is never closed'],
    ['-- nothing', 'has no words'],
  ])('%s is refused', (where, said) => {
    let message = 'accepted';
    try {
      readCondition(where);
    } catch (error) {
      message = describeError(error);
      expect(error).toMatchObject({ path: ['source', 'where'] });
    }
    expect(message).toContain(said);
  });
});
