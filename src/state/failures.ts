/** Dates whose last attempt failed. */
import { z } from 'zod';
import type { DateResult } from './run-result.ts';

/** By date. */
export const failuresSchema = z.record(z.string(), z.object({ code: z.string(), at: z.string() }));

export type Failures = z.infer<typeof failuresSchema>;

/** Adds the failures of a run, and removes dates that it exported. @param at when the run ended */
export function addFailures(before: Failures, results: readonly DateResult[], at: string): Failures {
  const after = { ...before };
  for (const { date, error } of results) {
    if (error) after[date] = { code: error.code, at };
    else delete after[date];
  }
  return after;
}
