/**
 * The sealed drop that a report is built from: its manifest, and its file on this machine, whose bytes always match it.
 */
import { dirname } from 'node:path';
import { hashFile, makeFolder } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { dropKeyOf } from '../ledger/layout.ts';
import { Ledger } from '../ledger/ledger.ts';
import { listDoubts, type Manifest, type ManifestFile } from '../ledger/manifest.ts';
import type { SealedDrop } from '../report/model.ts';
import type { Run } from '../run/run.ts';

/** The manifest to report on. Without a date: the newest sealed one, or `undefined` if nothing is sealed yet. */
export async function findDrop(
  { ledger }: Pick<Run, 'ledger'>,
  job: Job,
  date: string | undefined,
): Promise<Manifest | undefined> {
  const wanted = date ?? (await ledger.dates()).at(-1);
  if (wanted === undefined) return undefined;
  const manifest = await ledger.manifest(wanted);
  if (manifest) return manifest;
  throw new Fault(
    'REPORT_PENDING',
    `${wanted} of ${job.drop.dataset} is not sealed, so there is nothing to report on yet`,
    {
      hint: `Run \`flowdrop run ${job.name}\` first; \`flowdrop status\` shows what is sealed.`,
    },
  );
}

/** Brings the drop's file to `path`, unless it is there already, as after a run. Its bytes always match the manifest. */
export async function fetchDrop(
  context: Pick<Run, 'ledger' | 'signal'>,
  manifest: Manifest,
  path: string,
): Promise<void> {
  const [file] = manifest.files;
  const kept = await hashFile(path).catch(() => undefined);
  if (kept !== undefined && file.hash === `sha256:${kept}`) return;
  if (await fetchSealed(context, manifest, file, path)) return;
  const next = await new Ledger(context.ledger.store, manifest.dataset).successor(manifest);
  if (next) {
    throw new Fault('DROP_RESTATING', `${manifest.date} is being replaced by revision ${next.revision}`, {
      hint: `Try again in a minute. If nothing changes, the run that began it has died: \`flowdrop run ${manifest.job_id}\` finishes it.`,
    });
  }
  throw new Fault('DROP_DAMAGED', `${context.ledger.store.url}/${dropKeyOf(manifest)} does not match its manifest`, {
    hint: `Run \`flowdrop verify ${manifest.job_id} --date ${manifest.date}\`. No report is made from it.`,
  });
}

/** Brings a file of a date to `path`; `false` if its bytes are not those of the manifest. */
export async function fetchSealed(
  { ledger: { store }, signal }: Pick<Run, 'ledger' | 'signal'>,
  manifest: Manifest,
  file: ManifestFile,
  path: string,
): Promise<boolean> {
  await makeFolder(dirname(path));
  return await new Ledger(store, manifest.dataset).fetchFile(manifest.date, file, path, signal);
}

export function describeDrop(storeUrl: string, manifest: Manifest, path: string): SealedDrop {
  return {
    dataset: manifest.dataset,
    date: manifest.date,
    revision: manifest.revision,
    condition: manifest.condition,
    degraded_reason: manifest.degraded_reason,
    doubts: listDoubts(manifest),
    filter: manifest.filter,
    rows: manifest.rows,
    ids: manifest.ids,
    min_time: manifest.min_time,
    max_time: manifest.max_time,
    sealed_at: manifest.sealed_at,
    sha256: manifest.files[0].hash.replace('sha256:', ''),
    location: `${storeUrl}/${dropKeyOf(manifest)}`,
    path,
  };
}
