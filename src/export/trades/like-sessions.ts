/** What the sealed sessions of a dataset show about another session of it. Reads the store only, never the source. */
import type { Job } from '../../job/job.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import { listSealedDates } from '../../ledger/sealed-dates.ts';
import { readManifestIfValid } from '../../ledger/update-conditions.ts';
import type { ExportContext } from '../export-context.ts';

/** Sessions that are looked at: a habit is what most of them have. */
const LIKE_SESSIONS = 5;

type StoreDeps = Pick<ExportContext, 'store' | 'log'>;

/** Manifests of the complete dates nearest to a date, on either side. */
export async function readNeighbours(deps: StoreDeps, job: Job, date: string): Promise<readonly Manifest[]> {
  const apart = (other: string) => Math.abs(Date.parse(other) - Date.parse(date));
  const sealed = await listSealedDates(deps.store, job.drop.dataset);
  const nearest = sealed.filter((other) => other !== date).sort((a, b) => apart(a) - apart(b));
  const found: Manifest[] = [];
  for (const other of nearest.slice(0, LIKE_SESSIONS)) {
    const manifest = await readManifestIfValid(deps, job, other);
    if (manifest?.condition === 'available') found.push(manifest);
  }
  return found;
}
