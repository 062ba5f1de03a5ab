/** Dates at which the last run that tried them failed, in the state folder. */
import { z } from 'zod';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { readJsonFile } from '../core/json-file.ts';
import type { DateResult } from './run-result.ts';

const failuresSchema = z.record(z.string(), z.object({ code: z.string(), at: z.string() }));

/** Dates at which the last run that tried them failed. A record that cannot be read is worth no more than none. */
export async function readFailures(path: string): Promise<ReadonlySet<string>> {
  return new Set(Object.keys(await readRecord(path)));
}

/** Keeps the failures of a run, and forgets those of dates that have been exported since. */
export async function noteFailures(path: string, results: readonly DateResult[], at: string): Promise<void> {
  const before = await readRecord(path);
  const after = { ...before };
  for (const { date, error } of results) {
    if (error) after[date] = { code: error.code, at };
    else delete after[date];
  }
  if (JSON.stringify(before) !== JSON.stringify(after)) await writeFileAtomic(path, `${JSON.stringify(after)}\n`);
}

async function readRecord(path: string): Promise<z.infer<typeof failuresSchema>> {
  return (await readJsonFile(path, failuresSchema)) ?? {};
}
