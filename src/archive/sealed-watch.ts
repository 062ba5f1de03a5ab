/**
 * Which dates of a dataset are sealed at the moment, for a reader that stays open while others seal, restate and
 * remove: each version of a manifest is read once. Invariant: if a date is unchanged between a set and a later look, no byte of its drop was replaced in between.
 * So whatever was read meanwhile is one sealed revision of it. It takes no lock: writers never wait for readers.
 */
import { type Clock, elapsedMs } from '../core/clock.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { Store } from '../store/store.ts';
import { DatasetDrops, type ReadManifest } from './drops.ts';

/** The sealed dates of one moment. */
export interface SealedSet {
  readonly drops: DatasetDrops;
  /** Opaque text that changes when the date is restated; `undefined`: it is not sealed. */
  versionOf(date: string): string | undefined;
}

interface WatchParts {
  readonly store: Store;
  readonly dataset: string;
  readonly readManifest: ReadManifest;
  readonly clock: Clock;
}

/** How old a set may be: what is sealed appears this much later. Each listing of an archive of years costs some requests. */
const MAX_AGE_MS = 1_000;
/** Up to this many dates are looked at one by one, which costs two requests each. */
const MAX_SINGLE_LOOKS = 8;

export class SealedWatch {
  readonly #parts: WatchParts;
  /** The last whole listing, and when it began. */
  #last: { readonly set: SealedSet; readonly beganMs: number } | undefined;
  #running: Promise<SealedSet> | undefined;
  #next: Promise<SealedSet> | undefined;
  /** Manifests by date, each of one version, without what only audits need. */
  readonly #manifests = new Map<string, { readonly version: string; readonly manifest: Manifest }>();

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** A set that is at most `MAX_AGE_MS` old. @throws StoreFault */
  async current(): Promise<SealedSet> {
    const { clock } = this.#parts;
    const last = this.#last;
    return last && elapsedMs(clock) - last.beganMs < MAX_AGE_MS ? last.set : await this.list();
  }

  /** Whether all `dates` still are what they were in `set`, judged by a look that begins now. @throws StoreFault */
  async isUnchanged(set: SealedSet, dates: readonly string[]): Promise<boolean> {
    const { store, dataset } = this.#parts;
    if (dates.length > MAX_SINGLE_LOOKS) {
      const now = await this.list();
      return dates.every((date) => now.versionOf(date) === set.versionOf(date));
    }
    const looks = await Promise.all(dates.map((date) => new Ledger(store, dataset).list(date)));
    const isUnchanged = dates.every((date, k) => looks[k]?.[0]?.version === set.versionOf(date));
    // What the other callers read is old too.
    if (!isUnchanged) this.#last = undefined;
    return isUnchanged;
  }

  /** A set that is listed after this call. Callers that wait share one. @throws StoreFault */
  async list(): Promise<SealedSet> {
    if (this.#running === undefined) return await this.#start();
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    );
    return await this.#next;
  }

  async #start(): Promise<SealedSet> {
    this.#next = undefined;
    const beganMs = elapsedMs(this.#parts.clock);
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
    const { store, dataset } = this.#parts;
    const sealed = await new Ledger(store, dataset).list();
    const versions = new Map(sealed.map(({ date, version }) => [date, version]));
    for (const date of this.#manifests.keys()) if (!versions.has(date)) this.#manifests.delete(date);
    const read: ReadManifest = async (_dataset, date, drops) =>
      await this.#readManifest(date, drops, versions.get(date) ?? '');
    return { drops: new DatasetDrops(dataset, sealed, read), versionOf: (date) => versions.get(date) };
  }

  /** Reads each version of a manifest once. */
  async #readManifest(
    date: string,
    drops: ReadonlyMap<string, number>,
    version: string,
  ): Promise<Manifest | undefined> {
    const known = this.#manifests.get(date);
    if (known?.version === version) return known.manifest;
    const found = await this.#parts.readManifest(this.#parts.dataset, date, drops);
    if (found === undefined) return undefined;
    // Large days have megabytes of windows.
    const manifest = { ...found, windows: [] };
    this.#manifests.set(date, { version, manifest });
    return manifest;
  }
}
