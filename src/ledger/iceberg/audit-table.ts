/**
 * Compares the Iceberg table of a dataset with the ledger: the current snapshot must have exactly the sealed dates, and
 * everything that any snapshot names must be in the store with its size. Changes nothing.
 */
import { isFault } from '../../core/errors.ts';
import type { Store } from '../../store/store.ts';
import { dropKeyOf, dropsPrefix, historyPrefix, tableMetadataPrefix } from '../layout.ts';
import type { Ledger } from '../ledger.ts';
import type { Manifest } from '../manifest.ts';
import type { ManifestEntry } from './table-avro.ts';
import { keyOf, readHint, readTable } from './table-log.ts';
import { currentSnapshot } from './table-metadata.ts';
import { isLive, readManifestList, readTableManifest } from './table-snapshots.ts';

export interface TableAudit {
  /** What is wrong, in words. */
  readonly findings: readonly string[];
  /** What the next run brings up to date, in words. */
  readonly behind: readonly string[];
}

/** @param manifests of all sealed dates; `undefined` where it is damaged, which is reported elsewhere */
export async function auditTable(
  { store, dataset }: Ledger,
  manifests: ReadonlyMap<string, Manifest | undefined>,
): Promise<TableAudit> {
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
  const behind: string[] = [];
  const expected = new Set<string>();
  for (const [date, manifest] of manifests) {
    if (manifest === undefined) continue;
    const key = dropKeyOf(manifest);
    expected.add(key);
    if (rows.get(key) !== manifest.rows)
      behind.push(`the Iceberg table lacks revision ${manifest.revision} of ${date}`);
  }
  const isKnown = manifests.size > 0 && [...manifests.values()].every((manifest) => manifest !== undefined);
  for (const key of rows.keys())
    if (isKnown && !expected.has(key)) behind.push(`the Iceberg table has ${key}, which is not sealed`);
  return behind;
}
