/** The versions of a table's metadata in the store, as a `Document`; `version-hint.text` follows the newest. */
import { isFault } from '../../core/errors.ts';
import { Document } from '../../store/document.ts';
import type { Store } from '../../store/store.ts';
import { tableHintKey, tablePrefix, tableVersionsPrefix } from '../layout.ts';
import { listDatasets } from '../ledger.ts';
import { damagedTable } from './table-avro.ts';
import { formatMetadata, parseMetadata, type TableMetadata } from './table-metadata.ts';

/**
 * A slow reader may still be at one of these while a backfill seals date after date.
 * Iceberg's own default (`write.metadata.previous-versions-max`, https://iceberg.apache.org/docs/latest/configuration/).
 */
export const KEPT_VERSIONS = 100;

/** Of writing the hint. */
const MAX_HINTS = 3;

interface TableVersion {
  readonly version: number;
  readonly metadata: TableMetadata;
}

/** How readers address an object of the store: the store's URL, or `file://` and the path of a directory. */
export function locate(store: Pick<Store, 'url'>, key: string): string {
  return `${store.url.startsWith('/') ? 'file://' : ''}${store.url}/${key}`;
}

/** The key of an object that the table names. @throws Fault `TABLE_DAMAGED` if it is in another place */
export function keyOf(store: Pick<Store, 'url'>, location: string): string {
  const root = locate(store, '');
  if (location.startsWith(root)) return location.slice(root.length);
  throw damagedTable(`the table names ${location}, which is not in ${store.url}`);
}

export function locateTable(store: Pick<Store, 'url'>, dataset: string): string {
  return locate(store, tablePrefix(dataset)).replace(/\/$/, '');
}

/** Names of the datasets with a table, ascending. Costs a listing for each dataset. */
export async function listTables(store: Store): Promise<readonly string[]> {
  const tables: string[] = [];
  for (const dataset of await listDatasets(store))
    if ((await openTableLog(store, dataset).listVersions()).length > 0) tables.push(dataset);
  return tables.sort();
}

export function openTableLog(store: Store, dataset: string): Document<TableMetadata> {
  return new Document(store, {
    prefix: tableVersionsPrefix(dataset),
    suffix: '.metadata.json',
    kept: KEPT_VERSIONS,
    parse: parseMetadata,
    format: formatMetadata,
  });
}

/** The newest version, or `undefined` if there is no table. @throws Fault `TABLE_DAMAGED` */
export async function readTable(store: Store, dataset: string): Promise<TableVersion | undefined> {
  const { version, value } = await openTableLog(store, dataset).read();
  return value && { version, metadata: value };
}

/** Number in `version-hint.text`, by which some readers find the newest version. */
export async function readHint(store: Store, dataset: string): Promise<number | undefined> {
  const bytes = await store.get(tableHintKey(dataset));
  return bytes === undefined ? undefined : Number(Buffer.from(bytes).toString('utf8'));
}

/**
 * Lets the hint name the newest version. Whoever writes it looks again afterwards, so the last one writes the newest.
 */
export async function settleHint(store: Store, dataset: string, known: number): Promise<void> {
  let newest = known;
  for (let hints = 1; hints <= MAX_HINTS; hints += 1) {
    const isWritten = await writeHint(store, dataset, newest, hints === MAX_HINTS);
    const latest = (await openTableLog(store, dataset).listVersions()).at(-1) ?? newest;
    if (isWritten && latest === newest) return;
    newest = latest;
  }
}

/** @returns whether it was kept: the store's own check notices when another worker writes it at the same moment */
async function writeHint(store: Store, dataset: string, version: number, isLast: boolean): Promise<boolean> {
  try {
    await store.put(tableHintKey(dataset), { bytes: Buffer.from(String(version)) });
    return true;
  } catch (error) {
    if (!isFault(error) || error.code !== 'STORE_FAILED' || isLast) throw error;
    return false;
  }
}
