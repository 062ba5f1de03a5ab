/**
 * Brings the Iceberg table of a dataset up to date with the ledger: a sealed date is an append, a restated one an
 * overwrite, a date that is no longer sealed a delete. Invariant: the table is derived. It is committed after the
 * manifests, each snapshot once, and a commit that was killed or lost to another worker is made by the next one.
 */
import { isFault } from '../../core/errors.ts';
import type { Store } from '../../store/store.ts';
import { dropKeyOf, dropsPrefix, historyKey, historyPrefix, manifestKey, tableMetadataPrefix } from '../layout.ts';
import type { Ledger } from '../ledger.ts';
import type { Manifest } from '../manifest.ts';
import type { ManifestEntry } from './table-avro.ts';
import {
  currentSnapshot,
  keyOf,
  listTableDates,
  openTableLog,
  readHint,
  readTable,
  settleHint,
  type TableMetadata,
} from './table-metadata.ts';
import {
  GrowingTable,
  isLive,
  readManifestList,
  readTableManifest,
  sealedChange,
  type TableChange,
} from './table-snapshots.ts';

/**
 * Costs a listing and three reads when there is nothing to do. The dates are those of `condition.json`, so call it after
 * that is written.
 * @returns the version that is in the store now (0 without a table), the dates that this call added, replaced or removed,
 *   and those that the table cannot take, with the reason in words
 * @throws StoreFault; Fault `TABLE_DAMAGED`, `DOCUMENT_BUSY`
 */
export async function commitTable(ledger: Ledger, nowMs: number) {
  const { store, dataset } = ledger;
  const unfit = new Map<string, string>();
  let dates: readonly string[] = [];
  const { version } = await openTableLog(store, dataset).update(async (before) => {
    const changes = await findChanges(ledger, before, nowMs);
    const grown = await growTable(ledger, before, changes, unfit);
    dates = grown.dates;
    return dates.length === 0 ? undefined : grown.metadata;
  });
  // Needed also when nothing is committed: a worker may have been killed between the two.
  if (version > 0 && (await readHint(store, dataset)) !== version) await settleHint(store, dataset);
  return { version, dates, unfit };
}

/** Adds a snapshot for each change, in memory and in files that nothing names yet. @param unfit gets what a table cannot have */
async function growTable(
  { store, dataset }: Ledger,
  before: TableMetadata | undefined,
  changes: readonly TableChange[],
  unfit: Map<string, string>,
) {
  const dates: string[] = [];
  const table = new GrowingTable(store, dataset, before);
  for (const change of changes) {
    try {
      await table.add(change);
      dates.push(change.date);
    } catch (error) {
      if (!isFault(error) || error.code !== 'TABLE_UNFIT') throw error;
      unfit.set(change.date, error.message);
    }
  }
  return { metadata: table.metadata, dates };
}

/** What the table lacks, in the order in which it was sealed. */
async function findChanges(ledger: Ledger, metadata: TableMetadata | undefined, nowMs: number) {
  const { entries } = await ledger.conditions();
  const inTable = listTableDates(metadata ?? { snapshots: [] });
  const toPut: Manifest[] = [];
  for (const { date, revision, rows, size } of entries.values()) {
    if (revision === null) continue;
    const known = inTable.get(date);
    if (known?.revision === revision && known.rows === rows && known.sizeBytes === size) continue;
    // A damaged one is reported by the run; the table keeps what it has of the date.
    const manifest = await ledger.validManifest(date);
    if (manifest && manifest.manifest_hash !== known?.manifestHash) toPut.push(manifest);
  }
  const removed: TableChange[] = [];
  for (const [date, { revision }] of inTable) {
    if ((entries.get(date)?.revision ?? null) !== null) continue;
    // The document may be outdated: what counts is whether the date has a manifest.
    if ((await ledger.store.head(manifestKey(ledger.dataset, date))) === undefined)
      removed.push({ date, revision, atMs: nowMs });
  }
  return [...toPut.sort(compareSealed).map((manifest) => sealedChange(manifest, dropKeyOf(manifest))), ...removed];
}

/** A commit that is under way has files that nothing names yet; none takes a day. */
const STALE_AFTER_MS = 24 * 3_600_000;

/**
 * Makes the table again from the ledger: every sealed and every replaced revision, in the order in which they were sealed,
 * as the next version. Needed when metadata was lost or damaged, or when a directory store was moved to another path.
 * Drops and manifests are only read.
 * @returns the version that was written, 0 if nothing is sealed that a table can take; what it cannot have, with the reason
 *   in words; and the number of files of earlier versions that nothing names any more
 * @throws StoreFault; Fault `DOCUMENT_BUSY`
 */
export async function rebuildTable(ledger: Ledger, nowMs: number) {
  const { store, dataset } = ledger;
  const left = new Map<string, string>();
  const found = new Map<Manifest, string>();
  const files = new Map<string, number>();
  for await (const { key, sizeBytes } of store.list(dropsPrefix(dataset))) files.set(key, sizeBytes);
  for (const date of await ledger.dates()) {
    const sealed = await ledger.validManifest(date, ({ message }) => left.set(date, message));
    const manifests = sealed ? [sealed] : [];
    // Newest first. Revisions whose manifest is damaged are left out; `verify` reports them.
    for (let revision = (sealed?.revision ?? 0) - 1; revision > 0; revision -= 1) {
      const kept = await ledger.kept(date, revision);
      if (kept?.manifest) manifests.push(kept.manifest);
    }
    const taken = new Set<string>();
    for (const manifest of manifests) {
      const [file] = manifest.files;
      const inPlace = dropKeyOf(manifest);
      const isInPlace = !taken.has(inPlace) && files.get(inPlace) === file.size;
      taken.add(inPlace);
      const kept = historyKey(dataset, date, manifest.revision, file.filename);
      if (isInPlace || (await store.head(kept))?.sizeBytes === file.size)
        found.set(manifest, isInPlace ? inPlace : kept);
      else left.set(`${date} revision ${manifest.revision}`, `${store.url}/${inPlace} is missing or has another size`);
    }
  }
  const changes = [...found].sort(([a], [b]) => compareSealed(a, b)).map((one) => sealedChange(...one));
  const { metadata } = await growTable(ledger, undefined, changes, left);
  if (metadata === undefined) return { version: 0, snapshots: 0, left, removed: 0 };
  const version = await openTableLog(store, dataset).replace(metadata);
  await settleHint(store, dataset);
  const removed = await removeUnnamed(store, dataset, metadata, nowMs);
  return { version, snapshots: metadata.snapshots.length, left, removed };
}

/** Revisions of a date in their order, whatever the clocks of their workers said. */
function compareSealed(a: Manifest, b: Manifest): number {
  if (a.date === b.date) return a.revision - b.revision;
  const [first, second] = a.sealed_at === b.sealed_at ? [a.date, b.date] : [a.sealed_at, b.sealed_at];
  return first < second ? -1 : 1;
}

/** Removes manifests and their lists that no snapshot of the table names. */
async function removeUnnamed(store: Store, dataset: string, table: TableMetadata, nowMs: number): Promise<number> {
  const named = new Set<string>();
  for (const snapshot of table.snapshots) {
    named.add(keyOf(store, snapshot['manifest-list']));
    for (const { manifest_path: path } of await readManifestList(store, snapshot)) named.add(keyOf(store, path));
  }
  const stale: string[] = [];
  for await (const { key, modifiedAtMs } of store.list(tableMetadataPrefix(dataset))) {
    if (key.endsWith('.avro') && !named.has(key) && nowMs - modifiedAtMs > STALE_AFTER_MS) stale.push(key);
  }
  for (const key of stale) await store.remove(key);
  return stale.length;
}

/**
 * Compares the table with the ledger: the current snapshot must have exactly the sealed dates, and everything that any
 * snapshot names must be in the store with its size. Changes nothing.
 * @param manifests of all sealed dates; `undefined` where it is damaged, which is reported elsewhere
 * @returns in words what is wrong, and what the next run brings up to date (`behind`)
 */
export async function auditTable({ store, dataset }: Ledger, manifests: ReadonlyMap<string, Manifest | undefined>) {
  try {
    const found = await readTable(store, dataset);
    if (found === undefined)
      return { findings: [], behind: manifests.size === 0 ? [] : ['there is no Iceberg table yet'] };
    const sizes = new Map<string, number>();
    for (const prefix of [tableMetadataPrefix(dataset), dropsPrefix(dataset), historyPrefix(dataset)])
      for await (const { key, sizeBytes } of store.list(prefix)) sizes.set(key, sizeBytes);
    const findings: string[] = [];
    const current = currentSnapshot(found.metadata);
    let live: readonly ManifestEntry[] = [];
    const read = new Map<string, readonly ManifestEntry[]>();
    for (const snapshot of found.metadata.snapshots) {
      const entries: ManifestEntry[] = [];
      for (const { manifest_path: path } of await readManifestList(store, snapshot)) {
        const known = read.get(path) ?? (await readTableManifest(store, path));
        read.set(path, known);
        entries.push(...known.filter(isLive));
      }
      if (snapshot === current) live = entries;
      for (const { data_file: file } of entries) {
        const key = keyOf(store, file.file_path);
        if (sizes.get(key) === file.file_size_in_bytes) continue;
        findings.push(
          `snapshot ${snapshot['snapshot-id']} of the Iceberg table names ${key} with ${file.file_size_in_bytes} bytes; the store has ${sizes.get(key) ?? 'none'}`,
        );
      }
    }
    const hint = await readHint(store, dataset);
    const behind = hint === found.version ? [] : [`version-hint.text names version ${hint}, not ${found.version}`];
    return { findings: [...new Set(findings)], behind: [...behind, ...compareDates(store, live, manifests)] };
  } catch (error) {
    if (!isFault(error) || error.code !== 'TABLE_DAMAGED') throw error;
    return { findings: [`${error.message}; run \`flowdrop iceberg rebuild JOB\``], behind: [] };
  }
}

function compareDates(
  store: Store,
  live: readonly ManifestEntry[],
  manifests: ReadonlyMap<string, Manifest | undefined>,
): readonly string[] {
  const rows = new Map(live.map(({ data_file: file }) => [keyOf(store, file.file_path), file.record_count]));
  const sealed = [...manifests.values()].filter((manifest) => manifest !== undefined);
  const expected = new Map(sealed.map((manifest) => [dropKeyOf(manifest), manifest]));
  const behind = [...expected].flatMap(([key, { revision, date, rows: count }]) =>
    rows.get(key) === count ? [] : [`the Iceberg table lacks revision ${revision} of ${date}`],
  );
  if (manifests.size === 0 || sealed.length < manifests.size) return behind;
  const unsealed = [...rows.keys()].filter((key) => !expected.has(key));
  return [...behind, ...unsealed.map((key) => `the Iceberg table has ${key}, which is not sealed`)];
}
