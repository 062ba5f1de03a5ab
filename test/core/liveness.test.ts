/** Whether a process is there, asked of real ones. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { pid } from 'node:process';
import { expect, it } from 'vitest';
import { isProcessAlive } from '../../src/core/liveness.ts';

it('a process lives until it has ended', async () => {
  const child = spawn('sleep', ['60']);
  await once(child, 'spawn');
  const childPid = child.pid ?? Number.NaN;
  expect(isProcessAlive(childPid)).toBe(true);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(isProcessAlive(childPid)).toBe(false);
  expect(isProcessAlive(pid)).toBe(true);
});

it.each([0, -pid, Number.NaN, 1.5, Number.MAX_SAFE_INTEGER + 1])(
  '%d is no process, whatever group it may name',
  (no) => {
    expect(isProcessAlive(no)).toBe(false);
  },
);
