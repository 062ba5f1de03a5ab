/** The folders that trying a store makes: opening one in a directory makes it, and an object makes the folder above it. */
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DOCTOR_PREFIX } from '../ledger/layout.ts';
import { removeEmptyFolders } from '../run/doctor/machine.ts';
import { parseLocation } from '../store/location.ts';

/** Call it before the store is opened; `remove` takes away what is empty and was not there. @throws Fault `LOCATION_INVALID` */
export async function makeTrialFolder(cwd: string, to: string): Promise<{ remove(): Promise<void> }> {
  const location = parseLocation(to, cwd);
  if (location.kind === 's3') return { remove: async () => {} };
  let there = location.path;
  while (there !== dirname(there) && (await stat(there).catch(() => undefined)) === undefined) there = dirname(there);
  return { remove: () => removeEmptyFolders(join(location.path, DOCTOR_PREFIX), there) };
}
