/** What a process may have, and what is made of it. That runs heed it is tested in `test/flow/bounds.slow.test.ts`. */
import { describe, expect, it } from 'vitest';
import { checkLimits } from '../../src/cli/doctor/checks.ts';
import { assertEnoughFiles, planEngineMemory, planWorkerMemory } from '../../src/core/machine.ts';

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

it('open files are not judged where the system does not tell their limit', () => {
  assertEnoughFiles(undefined);
});

it.each([
  [4_000_000_000, 1024, ['memory: ok', 'open files: ok']],
  [4_000_000_000, undefined, ['memory: ok', 'open files: ok']],
  [700_000_000, 1024, ['memory: warn', 'open files: ok']],
  [500_000_000, 160, ['memory: fail', 'open files: fail']],
] as const)('doctor finds of %i bytes and %s files: %j', async (memoryBytes, files, found) => {
  const checks = await checkLimits(memoryBytes, files);
  expect(checks.map(({ check, status }) => `${check}: ${status}`)).toEqual(found);
});
