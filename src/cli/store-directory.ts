/**
 * Checks that a store in a directory exists. Opening it would create it: a wrong path would become an empty archive.
 */
import { stat } from 'node:fs/promises';
import { Fault } from '../core/errors.ts';
import { parseLocation } from '../store/object-key.ts';

/** @param to as in a job file; S3 is not checked @throws Fault `STORE_MISSING`, `LOCATION_INVALID` (usage) */
export async function assertDirectory(cwd: string, to: string, hint: string): Promise<void> {
  const location = parseLocation(to, cwd);
  if (location.kind === 's3') return;
  const found = await stat(location.path).catch(() => undefined);
  if (found?.isDirectory()) return;
  throw new Fault('STORE_MISSING', `there is no directory ${location.path}`, { hint });
}
