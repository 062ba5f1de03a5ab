/**
 * Brings the Iceberg table of a dataset up to date with the ledger: a sealed date is an append, a restated one an
 * overwrite, a date that is no longer sealed a delete. Invariant: the table is derived. It is committed after the
 * manifests, each snapshot once, and a commit that was killed or lost to another worker is made by the next one.
 */
import { isFault } from '../../core/errors.ts';
import { dropKeyOf, manifestKey } from '../layout.ts';
import type { Ledger } from '../ledger.ts';
import type { Manifest } from '../manifest.ts';
import { locateTable, openTableLog, readHint, settleHint } from './table-log.ts';
import { createMetadata, listTableDates, type TableDate, type TableMetadata } from './table-metadata.ts';
import { listTableFields } from './table-schema.ts';
import { GrowingTable, type TableChange } from './table-snapshots.ts';

export interface TableCommit {
  /** The version that is in the store now; 0 without a table. */
  readonly version: number;
  /** Dates that this call added, replaced or removed. */
  readonly dates: readonly string[];
  /** Dates that the table cannot take, with the reason in words. */
  readonly unfit: ReadonlyMap<string, string>;
}

/**
 * Costs a listing and three reads when there is nothing to do. The dates are those of `condition.json`, so call it after
 * that is written. @throws StoreFault; Fault `TABLE_DAMAGED`, `DOCUMENT_BUSY`
 */
export async function commitTable(ledger: Ledger, nowMs: number): Promise<TableCommit> {
  const { store, dataset } = ledger;
  const unfit = new Map<string, string>();
  let dates: readonly string[] = [];
  const { version } = await openTableLog(store, dataset).update(async (before) => {
    const grown = await growTable(ledger, before, await findChanges(ledger, before, nowMs));
    for (const [date, reason] of grown.unfit) unfit.set(date, reason);
    dates = grown.dates;
    return dates.length === 0 ? undefined : grown.metadata;
  });
  // Needed also when nothing is committed: a worker may have been killed between the two.
  if (version > 0 && (dates.length > 0 || (await readHint(store, dataset)) !== version))
    await settleHint(store, dataset, version);
  return { version, dates, unfit };
}

export interface GrownTable {
  /** `undefined` without any snapshot. */
  readonly metadata: TableMetadata | undefined;
  readonly dates: readonly string[];
  readonly unfit: ReadonlyMap<string, string>;
}

/** Adds a snapshot for each change, in memory and in files that nothing names yet. */
export async function growTable(
  { store, dataset }: Ledger,
  before: TableMetadata | undefined,
  changes: readonly TableChange[],
): Promise<GrownTable> {
  const unfit = new Map<string, string>();
  const dates: string[] = [];
  let table = before && new GrowingTable(store, dataset, before);
  for (const change of changes) {
    const date = change.kind === 'put' ? change.manifest.date : change.date;
    try {
      // A table without snapshots has no document.
      if (table === undefined && change.kind === 'put') {
        const fields = listTableFields(change.manifest);
        const fresh = new GrowingTable(store, dataset, createMetadata(locateTable(store, dataset), fields));
        await fresh.add(change);
        table = fresh;
      } else await table?.add(change);
      dates.push(date);
    } catch (error) {
      if (!isFault(error) || error.code !== 'TABLE_UNFIT') throw error;
      unfit.set(date, error.message);
    }
  }
  return { metadata: table?.metadata, dates, unfit };
}

/** What the table lacks, in the order in which it was sealed. */
async function findChanges(
  ledger: Ledger,
  metadata: TableMetadata | undefined,
  nowMs: number,
): Promise<readonly TableChange[]> {
  const { entries } = await ledger.conditions();
  const inTable = metadata === undefined ? new Map<string, TableDate>() : listTableDates(metadata);
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
      removed.push({ kind: 'remove', date, revision, atMs: nowMs });
  }
  const sealed = toPut.sort((a, b) => compareTexts(a.sealed_at, b.sealed_at) || compareTexts(a.date, b.date));
  return [...sealed.map((manifest) => ({ kind: 'put' as const, manifest, key: dropKeyOf(manifest) })), ...removed];
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
