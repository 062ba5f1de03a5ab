/** Checks of a job file: what must hold of a date before it is sealed. Pure; `seal/run-checks.ts` carries them out. */
import type { JobCheck } from './job.ts';
import { ResolveFault } from './resolve-fault.ts';
import { JOB_DEFAULTS, type JobFile } from './shape.ts';

/** Columns that a check needs beside those it names. */
const NEEDED: Readonly<Record<JobCheck['check'], readonly string[]>> = {
  'min-rows': [],
  'max-nulls': [],
  premium: ['premium', 'price', 'size'],
  'unique-id': ['id'],
  dates: ['date'],
};

/** @param columns of the drop @throws ResolveFault when the check is of a column that the job has not */
export function resolveCheck(
  written: NonNullable<JobFile['checks']>[number],
  index: number,
  columns: readonly string[],
): JobCheck {
  const { on_failure: onFailure = JOB_DEFAULTS.onFailure, ...check } = written;
  const needed = check.check === 'max-nulls' ? [check.column] : NEEDED[check.check];
  for (const name of needed) {
    if (columns.includes(name)) continue;
    throw new ResolveFault(
      ['checks', index, check.check === 'max-nulls' ? 'column' : 'check'],
      `needs the column "${name}", which this job does not export; its columns are ${columns.join(', ')}`,
    );
  }
  if (check.check !== 'premium') return { ...check, onFailure };
  return { check: 'premium', tolerance: check.tolerance ?? JOB_DEFAULTS.premiumTolerance, onFailure };
}
