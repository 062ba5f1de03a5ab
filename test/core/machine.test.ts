/** What a process may have, and what is made of it. That runs heed it is tested in `test/flow/bounds.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import { checkLimits } from '../../src/cli/doctor/checks.ts';
import {
  assertEnoughFiles,
  planEngineMemory,
  planWorkerMemory,
  readFileLimit,
  readMemoryBytes,
} from '../../src/core/machine.ts';

describe('the memory of the engine', () => {
  it.each([
    [24_000_000_000, 21_600_000_000],
    [4_000_000_000, 3_600_000_000],
    [1_000_000_000, 600_000_000],
    [700_000_000, 300_000_000],
    [550_000_000, 150_000_000],
  ])('of %i bytes in all is %i', (memoryBytes, engineBytes) => {
    expect(planEngineMemory(memoryBytes)).toBe(engineBytes);
  });

  it('in a process of its own is four fifths', () => {
    expect(planWorkerMemory(1_000_000_000)).toBe(800_000_000);
  });

  it('is refused where too little would be left for it, with what there is and what is needed', () => {
    expect(() => planEngineMemory(512_000_000)).toThrow(/512\.0 MB of memory; it needs at least 550\.0 MB/);
  });
});

describe('open files', () => {
  it('are refused below what a run needs', () => {
    expect(() => assertEnoughFiles(255)).toThrow(/255 files; it needs at least 256/);
    assertEnoughFiles(256);
    assertEnoughFiles(undefined);
  });

  it.skipIf(process.platform !== 'linux')('and memory are read of this process', () => {
    expect(readFileLimit()).toBeGreaterThan(0);
    expect(readMemoryBytes()).toBeGreaterThan(0);
  });
});

describe('doctor', () => {
  const statuses = async (memoryBytes: number, files: number | undefined) =>
    (await checkLimits(memoryBytes, files)).map(({ check, status }) => `${check}: ${status}`);

  it.each([
    [4_000_000_000, 1024, ['memory: ok', 'open files: ok']],
    [4_000_000_000, undefined, ['memory: ok', 'open files: ok']],
    [700_000_000, 1024, ['memory: warn', 'open files: ok']],
    [500_000_000, 160, ['memory: fail', 'open files: fail']],
  ] as const)('finds of %i bytes and %s files: %j', async (memoryBytes, files, found) => {
    expect(await statuses(memoryBytes, files)).toEqual(found);
  });
});
