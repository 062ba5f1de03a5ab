/**
 * How the last run of a job ended, as the state folder keeps it. A file of its own: the record of a run is written by a run
 * that has finished its export only, and the daemon takes it for a tick that needs no catching up.
 */
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { type RunEnd, runEndSchema } from '../core/run-end.ts';

export async function writeLastEnd(path: string, end: RunEnd): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(end)}\n`);
}

/** `undefined` when there was none, or the file is not in shape. */
export async function readLastEnd(path: string): Promise<RunEnd | undefined> {
  const text = await readFileIfExists(path);
  if (text === undefined) return undefined;
  try {
    return runEndSchema.parse(JSON.parse(text));
  } catch {
    // It is for people; the next run that ends writes it anew.
    return undefined;
  }
}
