/** What is said of a child that ended without a word. Which processes are there: `test/state/run-history.test.ts`. */
import { pid } from 'node:process';
import { describe, expect, it } from 'vitest';
import { explainAbort, isProcessAlive } from '../../src/core/liveness.ts';
import { startProcess } from '../../src/daemon/run-process.ts';

const FILLS_MEMORY = 'const kept = []; for (;;) kept.push(new Array(1e5).fill(kept.length));';

const node = (...args: readonly string[]) => ({
  executable: process.execPath,
  args,
  env: { PATH: process.env['PATH'] },
  cwd: process.cwd(),
});

describe('the end of a child', () => {
  it.each([
    ['runs out of memory', ['--max-old-space-size=20', '-e', FILLS_MEMORY]],
    ['aborts', ['-e', 'process.abort()']],
    ['hands on the code of one that aborted', ['-e', 'process.exit(134)']],
  ])('that %s is explained, with what to do', async (_what, args) => {
    const { code, signal } = await startProcess(node(...args)).done;
    expect(explainAbort({ code, signal })).toMatch(
      /ran out of memory.*NODE_OPTIONS=--max-old-space-size=.*FLOWDROP_MAX_RUNS/,
    );
  });

  it.each([
    [1, undefined],
    [undefined, 'SIGKILL'],
    [undefined, 'SIGTERM'],
  ])('with code %s and signal %s needs no explanation', (code, signal) => {
    expect(explainAbort({ code, signal })).toBe('');
  });
});

it.each([0, -pid, Number.NaN, 1.5, Number.MAX_SAFE_INTEGER + 1])(
  '%d is no process, whatever group it may name',
  (no) => {
    expect(isProcessAlive(no)).toBe(false);
  },
);
