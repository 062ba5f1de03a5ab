/** What is said of a job file that is refused, for the tests of its sections. */
import { expect } from 'vitest';
import { isFault } from '../../src/core/errors.ts';
import { parseJob } from '../../src/job/parse.ts';

/** @throws when it is not refused */
export function readJobFaults(text: string): string {
  try {
    parseJob('jobs/x.yaml', text);
  } catch (error) {
    if (isFault(error) && error.code === 'JOB_INVALID' && error.kind === 'usage') return error.message;
    throw error;
  }
  throw new Error('the job was accepted');
}

/** @param fault key path, what came, what is allowed; parts with `…` between */
export function expectJobFault(text: string, line: number, fault: string): void {
  const message = readJobFaults(text);
  for (const part of `jobs/x.yaml:${line}: ${fault}`.split('…')) expect(message).toContain(part.trim());
}
