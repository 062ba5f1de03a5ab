/**
 * Keeps a table of a REST catalog the same as the table in the store. The first time the table is registered; later versions
 * are committed as the snapshots that it lacks, so that readers change over in one step and the catalog keeps the table's
 * grants and tags (dropping and registering it again would lose both). Invariant: what to do follows from what the catalog
 * says now, so whatever one call could not do is made up by the next. Snapshots that are not ours are never removed.
 */
import { createHash } from 'node:crypto';
import { Fault } from '../core/errors.ts';
import { formatMetadata, locate, readTable, type TableMetadata } from '../ledger/iceberg/table-metadata.ts';
import { registeredVersionKey } from '../ledger/layout.ts';
import type { Store } from '../store/store.ts';
import type { LoadedMetadata, RestCatalog, TableChangeRequest } from './rest-catalog.ts';

/** Each is lost to another worker that does the same. */
const MAX_TRIES = 5;

/** The catalog writes a metadata file for each commit beside ours, and removes all but the newest. */
const CATALOG_PROPERTIES = {
  'write.metadata.delete-after-commit.enabled': 'true',
  'write.metadata.previous-versions-max': '10',
};

/** In the summary of every snapshot of ours. */
const OWN_MARK = 'flowdrop.date';

/** `none`: there is no table yet. `replaced`: the table was rebuilt, so it was registered again. */
type CatalogUpdate = 'none' | 'current' | 'registered' | 'committed' | 'replaced';

/** @throws Fault `CATALOG_FAILED`, `CATALOG_CONFLICT`, `TABLE_DAMAGED`; StoreFault */
export async function updateCatalog(
  store: Store,
  dataset: string,
  catalog: RestCatalog,
  signal?: AbortSignal,
): Promise<CatalogUpdate> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    // The catalog first: whatever it has was in the store before, so a snapshot that is not there now was removed.
    const theirs = await catalog.load(signal);
    const found = await readTable(store, dataset);
    if (found === undefined) return 'none';
    const ours = withCatalogProperties(found.metadata);
    if (theirs === undefined) {
      if (await register(store, dataset, ours, catalog, signal)) return 'registered';
      continue;
    }
    assertOurs(theirs, ours, catalog.place);
    const change = describeChange(theirs, ours);
    if (change === 'rebuilt') {
      await catalog.drop(signal);
      if (await register(store, dataset, ours, catalog, signal)) return 'replaced';
    } else if (change === undefined) return 'current';
    else if (await catalog.commit(change, signal)) return 'committed';
  }
  throw new Fault('CATALOG_CONFLICT', `${catalog.place}: other workers keep changing the table`, {
    hint: 'The drops are sealed; the next run commits them to the catalog.',
  });
}

/** Not a version of ours, which is removed after some commits: the catalog reads it until its own first commit. */
async function register(
  store: Store,
  dataset: string,
  metadata: TableMetadata,
  catalog: RestCatalog,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const bytes = formatMetadata(metadata);
  const key = registeredVersionKey(dataset, createHash('sha256').update(bytes).digest('hex').slice(0, 32));
  await store.put(key, { bytes });
  return await catalog.register(locate(store, key), signal);
}

function withCatalogProperties(metadata: TableMetadata): TableMetadata {
  return { ...metadata, properties: { ...metadata.properties, ...CATALOG_PROPERTIES } };
}

/** @throws Fault `CATALOG_CONFLICT` */
function assertOurs(theirs: LoadedMetadata, ours: TableMetadata, place: string): void {
  if (theirs['table-uuid'] !== ours['table-uuid']) {
    throw new Fault('CATALOG_CONFLICT', `${place} is another table: it has UUID ${theirs['table-uuid']}`, {
      hint: 'Set another `drop.catalog.table` or `namespace`; or drop that table if it belongs to an earlier location of the store.',
    });
  }
  const foreign = (theirs.snapshots ?? []).find(({ summary }) => summary?.[OWN_MARK] === undefined);
  if (foreign === undefined) return;
  throw new Fault('CATALOG_CONFLICT', `${place} has snapshot ${foreign['snapshot-id']}, which flowdrop did not make`, {
    hint: 'Another program wrote to the table. Drop it from the catalog without purging files; the next run registers it again.',
  });
}

/** What the catalog lacks; `undefined`: nothing; `rebuilt`: it has snapshots that the table does not have any more. */
function describeChange(theirs: LoadedMetadata, ours: TableMetadata): TableChangeRequest | 'rebuilt' | undefined {
  const lists = new Map(ours.snapshots.map((one) => [one['snapshot-id'], one['manifest-list']]));
  const isKept = (theirs.snapshots ?? []).every((one) => lists.get(one['snapshot-id']) === one['manifest-list']);
  const at = ours.snapshots.findIndex((one) => one['snapshot-id'] === theirs['current-snapshot-id']);
  if (!isKept || at < 0) return 'rebuilt';
  const last = ours.snapshots.at(-1);
  if (last === undefined || at === ours.snapshots.length - 1) return undefined;
  // Somebody may have taken the table back to an older snapshot; then it has the newer ones already.
  const known = new Set((theirs.snapshots ?? []).map((one) => one['snapshot-id']));
  const missing = ours.snapshots.slice(at + 1).filter((one) => !known.has(one['snapshot-id']));
  // Compared by content: catalogs give schemas numbers of their own.
  const describe = (schema: { readonly fields: readonly Readonly<Record<string, unknown>>[] }) =>
    JSON.stringify(schema.fields.map(({ id, name, type }) => [id, name, type]));
  const described = new Set(theirs.schemas.map(describe));
  const schemas = ours.schemas.filter((schema) => !described.has(describe(schema)));
  const properties = Object.entries(ours.properties).filter(([name, value]) => theirs.properties?.[name] !== value);
  return {
    requirements: [
      { type: 'assert-table-uuid', uuid: ours['table-uuid'] },
      { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': theirs['current-snapshot-id'] },
    ],
    updates: [
      ...schemas.map((schema) => ({ action: 'add-schema', schema, 'last-column-id': ours['last-column-id'] })),
      // The newest is the current one, and -1 stands for the last one added.
      ...(schemas.length > 0 ? [{ action: 'set-current-schema', 'schema-id': -1 }] : []),
      ...(properties.length > 0 ? [{ action: 'set-properties', updates: Object.fromEntries(properties) }] : []),
      ...missing.map((snapshot) => ({ action: 'add-snapshot', snapshot })),
      { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': last['snapshot-id'] },
    ],
  };
}
