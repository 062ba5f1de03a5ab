/** Failures as an operator reads them. What each command fails with is tested where the command is. */
import { describe, expect, it } from 'vitest';
import { describeFailure } from '../../src/cli/failure.ts';
import { Fault } from '../../src/core/errors.ts';

describe('a failure', () => {
  it('of the local disk says so, with what to do, and is no fault of flowdrop', () => {
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), {
      code: 'ENOSPC',
      syscall: 'write',
    });
    expect(describeFailure(full, false)).toMatchObject({ exitCode: 1, json: { error: { code: 'DISK_FAILED' } } });
    expect(describeFailure(full, false).text).toMatch(/disk .* is full: make room/);
    const readOnly = Object.assign(new Error('ENOENT: mkdir'), { code: 'ENOENT', syscall: 'mkdir' });
    expect(describeFailure(readOnly, false).json.error).toMatchObject({
      code: 'DISK_FAILED',
      hint: expect.stringContaining('right to write'),
    });
  });

  it.each(['ENOTDIR', 'EEXIST', 'ENAMETOOLONG', 'EISDIR', 'EACCES'])(
    '%s is one of the folders that the settings name',
    (code) => {
      const error = Object.assign(new Error(`${code}: mkdir '/srv/state'`), { code, syscall: 'mkdir' });
      expect(describeFailure(error, false)).toMatchObject({
        exitCode: 1,
        json: {
          error: { code: 'DISK_FAILED', hint: expect.stringContaining('FLOWDROP_STATE_DIR and FLOWDROP_OUTBOX_DIR') },
        },
      });
    },
  );

  it('that is no fault and not of the disk is one of flowdrop', () => {
    expect(describeFailure(new TypeError('x is undefined'), false).json.error.code).toBe('UNEXPECTED');
    const missing = Object.assign(new Error('ENOENT: no such file'), { code: 'ENOENT', syscall: 'open' });
    expect(describeFailure(missing, false).json.error.code).toBe('UNEXPECTED');
  });

  it('that is a fault keeps its own code and hint', () => {
    const fault = new Fault('STORE_FAILED', 'the disk is full', { hint: 'Make room.', cause: new Error('ENOSPC') });
    expect(describeFailure(fault, false).json.error).toEqual({
      code: 'STORE_FAILED',
      message: 'the disk is full',
      hint: 'Make room.',
    });
  });
});
