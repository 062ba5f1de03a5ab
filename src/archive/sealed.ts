/**
 * The sealed dates of a dataset, for a reader that may stay open while others seal, restate and remove: two listings, and each
 * version of a manifest that a statement touches once. Invariants: a date counts as sealed if it has a manifest; if an object
 * that the statement reads is missing or differs in size from the manifest, the statement is refused with that date before
 * anything is computed. If a date is unchanged between a set and a later look, no byte of its drop was replaced in between.
 * It takes no lock: writers never wait for readers.
 */
import { elapsedMs, systemClock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { Ledger, type SealedDate } from '../ledger/ledger.ts';
import type { Manifest, ManifestFile } from '../ledger/manifest.ts';
import type { Store } from '../store/store.ts';

/** Manifests read concurrently. */
const MAX_READS = 16;
/** How old a set may be: what is sealed appears this much later. Each listing of an archive of years costs some requests. */
const MAX_AGE_MS = 1_000;
/** Up to this many dates are looked at one by one, which costs two requests each. */
const MAX_SINGLE_LOOKS = 8;

/** The sealed dates of one moment. */
export class SealedSet {
  readonly dataset: string;
  readonly #dates: ReadonlyMap<string, SealedDate>;
  readonly #read: (sealed: SealedDate) => Promise<Manifest | undefined>;

  constructor(
    dataset: string,
    dates: readonly SealedDate[],
    read: (sealed: SealedDate) => Promise<Manifest | undefined>,
  ) {
    this.dataset = dataset;
    this.#dates = new Map(dates.map((one) => [one.date, one]));
    this.#read = read;
  }

  /** Ascending. */
  get dates(): readonly string[] {
    return [...this.#dates.keys()];
  }

  /** Opaque text that changes when the date is restated; `undefined`: it is not sealed. */
  versionOf(date: string): string | undefined {
    return this.#dates.get(date)?.version;
  }

  /** The manifests of `dates`, in the same order. @throws Fault `MANIFEST_INVALID`, `DROP_DAMAGED` */
  async readManifests(dates: readonly string[]): Promise<readonly Manifest[]> {
    const read: Manifest[] = [];
    for (let first = 0; first < dates.length; first += MAX_READS)
      read.push(...(await Promise.all(dates.slice(first, first + MAX_READS).map((date) => this.#readWhole(date)))));
    return read;
  }

  /** The summary of a date, or `undefined` if it has none. @throws Fault `DROP_DAMAGED` */
  summaryOf({ date, files, summary }: Manifest): ManifestFile | undefined {
    const file = files.find(({ filename }) => filename === summary);
    if (file !== undefined) assertSize(date, file, this.#dates.get(date)?.beside);
    return file;
  }

  async #readWhole(date: string): Promise<Manifest> {
    const sealed = this.#dates.get(date);
    const manifest = sealed && (await this.#read(sealed));
    if (manifest === undefined) throw dropDamaged(date, 'its manifest was removed after it was listed');
    assertSize(date, manifest.files[0], sealed?.drops);
    return manifest;
  }
}

export class SealedWatch {
  readonly #ledger: Ledger;
  /** The last whole listing, and when it began. */
  #last: { readonly set: SealedSet; readonly beganMs: number } | undefined;
  #running: Promise<SealedSet> | undefined;
  #next: Promise<SealedSet> | undefined;
  /** Manifests by date, each of one version, without what only audits need. */
  readonly #manifests = new Map<string, { readonly version: string; readonly manifest: Manifest }>();

  constructor(store: Store, dataset: string) {
    this.#ledger = new Ledger(store, dataset);
  }

  /** A set that is at most `MAX_AGE_MS` old. @throws StoreFault */
  async current(): Promise<SealedSet> {
    const last = this.#last;
    return last && elapsedMs(systemClock) - last.beganMs < MAX_AGE_MS ? last.set : await this.list();
  }

  /** Whether all `dates` still are what they were in `set`, judged by a look that begins now. @throws StoreFault */
  async isUnchanged(set: SealedSet, dates: readonly string[]): Promise<boolean> {
    if (dates.length > MAX_SINGLE_LOOKS) {
      const now = await this.list();
      return dates.every((date) => now.versionOf(date) === set.versionOf(date));
    }
    const looks = await Promise.all(dates.map((date) => this.#ledger.list({ only: date })));
    const isUnchanged = dates.every((date, k) => looks[k]?.[0]?.version === set.versionOf(date));
    // What the other callers read is old too.
    if (!isUnchanged) this.#last = undefined;
    return isUnchanged;
  }

  /** A set that is listed after this call. Callers that wait share one. @throws StoreFault */
  async list(): Promise<SealedSet> {
    if (this.#running === undefined) return await this.#start();
    const start = () => this.#start();
    this.#next ??= this.#running.then(start, start);
    return await this.#next;
  }

  /** The same, of a dataset that has dates. @throws Fault `ARCHIVE_EMPTY`, StoreFault */
  async listSome(): Promise<SealedSet> {
    const set = await this.list();
    if (set.dates.length > 0) return set;
    throw new Fault('ARCHIVE_EMPTY', `nothing is sealed in ${this.#ledger.store.url}/${set.dataset}`, {
      hint: 'Run the job first, or check the names of store and dataset; `flowdrop status` shows what is sealed.',
    });
  }

  async #start(): Promise<SealedSet> {
    this.#next = undefined;
    const beganMs = elapsedMs(systemClock);
    const running = this.#read();
    this.#running = running;
    try {
      const set = await running;
      this.#last = { set, beganMs };
      return set;
    } finally {
      if (this.#running === running) this.#running = undefined;
    }
  }

  async #read(): Promise<SealedSet> {
    const set = new SealedSet(this.#ledger.dataset, await this.#ledger.list(), (one) => this.#readManifest(one));
    for (const date of this.#manifests.keys()) if (set.versionOf(date) === undefined) this.#manifests.delete(date);
    return set;
  }

  /** Reads each version of a manifest once. */
  async #readManifest({ date, drops, version }: SealedDate): Promise<Manifest | undefined> {
    const known = this.#manifests.get(date);
    if (known?.version === version) return known.manifest;
    const found = await this.#ledger.manifestOf(date, drops);
    if (found === undefined) return undefined;
    // Large days have megabytes of windows.
    const manifest = { ...found, windows: [] };
    this.#manifests.set(date, { version, manifest });
    return manifest;
  }
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
