/** What is made of a run's end: exit codes, and output that may be anything. Runs as such are in `start.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import { readEnd } from '../../src/daemon/run-process.ts';

const end = (code: number | undefined, stdout: string, signal?: string) => readEnd({ code, signal, stdout });

describe('the end of a run', () => {
  it.each([
    [0, 'done'],
    [1, 'failed'],
    [2, 'usage'],
    [3, 'incomplete'],
    [4, 'active'],
    [130, 'interrupted'],
    [7, 'died'],
    [undefined, 'died'],
  ] as const)('with exit code %s is %s', (code, outcome) => {
    expect(end(code, '{}').outcome).toBe(outcome);
  });

  it.each(['', 'null', '[]', '{"job":', '{"dates":7}', '\u0000\uffff', '{"error":{"code":1}}'])(
    'with the output %j has neither result nor error',
    (stdout) => {
      expect(end(1, stdout)).toMatchObject({ result: undefined, error: undefined });
    },
  );

  it('has the error that it printed, or that of a date', () => {
    const error = { code: 'API_DOWN', message: 'away', hint: 'wait' };
    expect(end(1, JSON.stringify({ error })).error).toEqual(error);
    expect(end(1, JSON.stringify({ dates: [{ date: '2026-11-19' }, { date: '2026-11-20', error }] })).error).toEqual(
      error,
    );
    expect(end(1, 'Segmentation fault').hasSpoken).toBe(false);
  });
});
