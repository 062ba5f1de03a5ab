/**
 * Makes the Iceberg table of a dataset again from the ledger: every sealed and every replaced revision, in the order in
 * which they were sealed, as the next version. Needed when metadata was lost or damaged, or when a directory store was
 * moved to another path. Drops and manifests are only read.
 */
import type { Store } from '../../store/store.ts';
import {
  dropKey,
  dropsPrefix,
  historyKey,
  historyPrefix,
  MANIFEST_FILENAME,
  parseDatasetKey,
  tableMetadataPrefix,
} from '../layout.ts';
import type { Ledger } from '../ledger.ts';
import { type Manifest, readSigned } from '../manifest.ts';
import { growTable } from './commit-table.ts';
import { keyOf, openTableLog, settleHint } from './table-log.ts';
import { readManifestList, type TableChange } from './table-snapshots.ts';

/** A commit that is under way has files that nothing names yet; none takes a day. */
const STALE_AFTER_MS = 24 * 3_600_000;

export interface RebuiltTable {
  /** The version that was written; 0 if nothing is sealed that a table can take. */
  readonly version: number;
  readonly snapshots: number;
  /** Dates, or dates with a revision, that the table cannot have, with the reason in words. */
  readonly left: ReadonlyMap<string, string>;
  /** Files of earlier versions that nothing names any more. */
  readonly removed: number;
}

/** @throws StoreFault; Fault `DOCUMENT_BUSY` */
export async function rebuildTable(ledger: Ledger, nowMs: number): Promise<RebuiltTable> {
  const { store, dataset } = ledger;
  const left = new Map<string, string>();
  const changes: { readonly manifest: Manifest; readonly change: TableChange }[] = [];
  const files = await listSizes(store, dropsPrefix(dataset));
  for (const date of await ledger.dates()) {
    const sealed = await ledger.validManifest(date, ({ message }) => left.set(date, message));
    const replaced = await readReplaced(ledger, date, sealed?.revision ?? 0);
    const taken = new Set<string>();
    for (const manifest of [...(sealed ? [sealed] : []), ...replaced]) {
      const [file] = manifest.files;
      const inPlace = dropKey(dataset, date, file.filename);
      const isInPlace = !taken.has(inPlace) && files.get(inPlace) === file.size;
      taken.add(inPlace);
      const kept = historyKey(dataset, date, manifest.revision, file.filename);
      if (isInPlace || (await store.head(kept))?.sizeBytes === file.size)
        changes.push({ manifest, change: { kind: 'put', manifest, key: isInPlace ? inPlace : kept } });
      else left.set(`${date} revision ${manifest.revision}`, `${store.url}/${inPlace} is missing or has another size`);
    }
  }
  changes.sort((a, b) => compareSealed(a.manifest, b.manifest));
  const grown = await growTable(
    ledger,
    undefined,
    changes.map(({ change }) => change),
  );
  for (const [date, reason] of grown.unfit) left.set(date, reason);
  if (grown.metadata === undefined) return { version: 0, snapshots: 0, left, removed: 0 };
  const version = await openTableLog(store, dataset).replace(grown.metadata);
  await settleHint(store, dataset, version);
  const removed = await removeUnnamed(store, dataset, grown.metadata, nowMs);
  return { version, snapshots: grown.metadata.snapshots.length, left, removed };
}

/** Of a date, newest first. Revisions whose manifest is damaged are left out; `verify` reports them. */
async function readReplaced({ store, dataset }: Ledger, date: string, sealed: number): Promise<readonly Manifest[]> {
  const manifests: Manifest[] = [];
  for await (const { key } of store.list(historyPrefix(dataset, date))) {
    const place = parseDatasetKey(dataset, key);
    if (place?.kind !== 'history' || key !== historyKey(dataset, date, place.revision, MANIFEST_FILENAME)) continue;
    if (place.revision >= sealed) continue;
    const of = { dataset, date, revision: place.revision };
    const { manifest, findings } = readSigned((await store.get(key)) ?? new Uint8Array(), `${store.url}/${key}`, of);
    if (manifest && findings.length === 0) manifests.push(manifest);
  }
  return manifests.sort((a, b) => b.revision - a.revision);
}

/** Revisions of a date in their order, whatever the clocks of their workers said. */
function compareSealed(a: Manifest, b: Manifest): number {
  if (a.date === b.date) return a.revision - b.revision;
  if (a.sealed_at === b.sealed_at) return a.date < b.date ? -1 : 1;
  return a.sealed_at < b.sealed_at ? -1 : 1;
}

async function listSizes(store: Store, prefix: string): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>();
  for await (const { key, sizeBytes } of store.list(prefix)) sizes.set(key, sizeBytes);
  return sizes;
}

async function removeUnnamed(
  store: Store,
  dataset: string,
  metadata: Parameters<typeof listNamed>[1],
  nowMs: number,
): Promise<number> {
  const named = await listNamed(store, metadata);
  const stale: string[] = [];
  for await (const { key, modifiedAtMs } of store.list(tableMetadataPrefix(dataset))) {
    if (key.endsWith('.avro') && !named.has(key) && nowMs - modifiedAtMs > STALE_AFTER_MS) stale.push(key);
  }
  for (const key of stale) await store.remove(key);
  return stale.length;
}

/** Keys of all manifest lists and manifests of a table. */
async function listNamed(
  store: Store,
  { snapshots }: { readonly snapshots: readonly Parameters<typeof readManifestList>[1][] },
): Promise<ReadonlySet<string>> {
  const named = new Set<string>();
  for (const snapshot of snapshots) {
    named.add(keyOf(store, snapshot['manifest-list']));
    for (const { manifest_path: path } of await readManifestList(store, snapshot)) named.add(keyOf(store, path));
  }
  return named;
}
