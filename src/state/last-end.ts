/**
 * How the last run of a job ended, and when one last ended well, as the state folder keeps it. Files of their own: the record
 * of a run is written by a run that has finished its export only, before its reports are made, and the daemon takes it for
 * a tick that needs no catching up.
 */
import { z } from 'zod';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { readJsonFile } from '../core/json-file.ts';
import { type RunEnd, runEndSchema } from '../core/run-end.ts';

export async function writeLastEnd(path: string, end: RunEnd): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(end)}\n`);
}

/** `undefined` when none is known to have ended. */
export async function readLastEnd(path: string): Promise<RunEnd | undefined> {
  return await readJsonFile(path, runEndSchema);
}

const lastSuccessSchema = z.object({ run_id: z.string(), finished_at: z.iso.datetime() });

/** When a run of everything unsealed last ended without anything being wrong, its reports included. */
export type LastSuccess = z.infer<typeof lastSuccessSchema>;

/** A file of its own: the next end that is not good must not hide it. */
export async function writeLastSuccess(path: string, success: LastSuccess): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(success)}\n`);
}

/** `undefined` when none is on record. */
export async function readLastSuccess(path: string): Promise<LastSuccess | undefined> {
  return await readJsonFile(path, lastSuccessSchema);
}
