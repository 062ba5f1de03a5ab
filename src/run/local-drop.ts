/** The sealed drop that a report is made from: its manifest, and its file on this machine, always the bytes of the manifest. */
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Fault } from '../core/errors.ts';
import { hashFile } from '../core/file-hash.ts';
import type { Job } from '../job/job.ts';
import type { SealedDrop } from '../report/drop.ts';
import { listSealedDates, readManifest } from '../seal/ledger.ts';
import type { Manifest } from '../seal/manifest.ts';
import { dropKey } from '../store/layout.ts';
import type { RunContext } from './context.ts';

/** The manifest to report on. Without a date: the newest sealed one, or `undefined` when nothing is sealed yet. */
export async function findDrop(
  context: Pick<RunContext, 'store'>,
  job: Job,
  date: string | undefined,
): Promise<Manifest | undefined> {
  const wanted = date ?? (await listSealedDates(context.store, job.drop.dataset)).at(-1);
  if (wanted === undefined) return undefined;
  const manifest = await readManifest(context.store, job.drop.dataset, wanted);
  if (manifest) return manifest;
  throw new Fault(
    'REPORT_PENDING',
    `${wanted} of ${job.drop.dataset} is not sealed, so there is nothing to report on yet`,
    {
      hint: `Run \`flowdrop run ${job.name}\` first; \`flowdrop status\` shows what is sealed.`,
    },
  );
}

/** The drop's file on this machine: the one just sealed, or a fresh copy of the object; always the bytes of the manifest. */
export async function fetchDrop(
  context: Pick<RunContext, 'store' | 'state' | 'signal'>,
  job: Job,
  manifest: Manifest,
): Promise<string> {
  const path = context.state.drop(manifest.date);
  const { hash } = manifest.files[0];
  const kept = await hashFile(path).catch(() => undefined);
  if (kept !== undefined && hash === `sha256:${kept}`) return path;
  const key = dropKey(job.drop.dataset, manifest.date);
  await mkdir(dirname(path), { recursive: true });
  const found = await context.store.download(key, path, context.signal);
  if (found && hash === `sha256:${await hashFile(path)}`) return path;
  throw new Fault(
    'DROP_DAMAGED',
    `${context.store.url}/${key} ${found ? 'is not the file that its manifest describes' : 'is missing'}`,
    {
      hint: `Run \`flowdrop verify ${job.name} --date ${manifest.date}\`. No report is made from it.`,
    },
  );
}

export function describeDrop(storeUrl: string, manifest: Manifest, path: string): SealedDrop {
  return {
    dataset: manifest.dataset,
    date: manifest.date,
    revision: manifest.revision,
    condition: manifest.condition,
    rows: manifest.rows,
    min_time: manifest.min_time,
    max_time: manifest.max_time,
    sealed_at: manifest.sealed_at,
    sha256: manifest.files[0].hash.replace('sha256:', ''),
    location: `${storeUrl}/${dropKey(manifest.dataset, manifest.date)}`,
    path,
  };
}
