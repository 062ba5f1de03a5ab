/**
 * The sealed dates of a dataset: two listings, and the manifests of the dates that a statement touches. Invariant: a
 * date counts as sealed if it has a manifest. If an object that the statement reads is missing or differs in size from
 * the manifest, the statement is refused with that date before anything is computed.
 */
import { Fault } from '../core/errors.ts';
import type { SealedDate } from '../ledger/ledger.ts';
import type { Manifest, ManifestFile } from '../ledger/manifest.ts';
import type { Store } from '../store/store.ts';

/**
 * Reads the manifest of a sealed date, given the sizes of its files with rows; see `Ledger.manifestOf`.
 * @throws Fault `MANIFEST_INVALID`
 */
export type ReadManifest = (
  dataset: string,
  date: string,
  drops: ReadonlyMap<string, number>,
) => Promise<Manifest | undefined>;

/** Manifests read concurrently. */
const MAX_READS = 16;

/** A dataset at the time of one statement. */
export class DatasetDrops {
  readonly dataset: string;
  readonly #sealed: ReadonlyMap<string, SealedDate>;
  readonly #read: ReadManifest;
  readonly #manifests = new Map<string, Manifest>();

  constructor(dataset: string, sealed: readonly SealedDate[], read: ReadManifest) {
    this.dataset = dataset;
    this.#sealed = new Map(sealed.map((one) => [one.date, one]));
    this.#read = read;
  }

  /** Sealed dates, ascending. */
  get dates(): readonly string[] {
    return [...this.#sealed.keys()];
  }

  /** The manifests of `dates`, in the same order; each is read once. @throws Fault `MANIFEST_INVALID`, `DROP_DAMAGED` */
  async readManifests(dates: readonly string[]): Promise<readonly Manifest[]> {
    const unread = dates.filter((date) => !this.#manifests.has(date));
    for (let first = 0; first < unread.length; first += MAX_READS) {
      const some = await Promise.all(unread.slice(first, first + MAX_READS).map((date) => this.#readWhole(date)));
      for (const manifest of some) this.#manifests.set(manifest.date, manifest);
    }
    return dates.flatMap((date) => this.#manifests.get(date) ?? []);
  }

  /** The summary of a date, or `undefined` if it has none. @throws Fault `DROP_DAMAGED` */
  summaryOf({ date, files, summary }: Manifest): ManifestFile | undefined {
    const file = files.find(({ filename }) => filename === summary);
    if (file !== undefined) assertSize(date, file, this.#sealed.get(date)?.beside);
    return file;
  }

  async #readWhole(date: string): Promise<Manifest> {
    const drops = this.#sealed.get(date)?.drops ?? new Map<string, number>();
    const manifest = await this.#read(this.dataset, date, drops);
    if (manifest === undefined) throw dropDamaged(date, 'its manifest was removed after it was listed');
    assertSize(date, manifest.files[0], drops);
    return manifest;
  }
}

/** @throws Fault `ARCHIVE_EMPTY` */
export function assertSealed(store: Store, { dataset, dates }: Pick<DatasetDrops, 'dataset' | 'dates'>): void {
  if (dates.length > 0) return;
  throw new Fault('ARCHIVE_EMPTY', `nothing is sealed in ${store.url}/${dataset}`, {
    hint: 'Run the job first, or check the names of store and dataset; `flowdrop status` shows what is sealed.',
  });
}

/** @throws Fault `DROP_DAMAGED` */
export function assertSize(date: string, file: ManifestFile, sizes: ReadonlyMap<string, number> | undefined): void {
  const size = sizes?.get(file.filename);
  if (size === undefined) throw dropDamaged(date, `${file.filename} is missing`);
  if (size !== file.size)
    throw dropDamaged(date, `${file.filename} has ${size} bytes where the manifest says ${file.size}`);
}

export function dropDamaged(date: string, what: string): Fault {
  return new Fault('DROP_DAMAGED', `${date}: ${what}`, {
    hint: `If a run has just replaced it, query again; otherwise run \`flowdrop verify JOB --date ${date}\`, or leave the date out of the query.`,
  });
}
