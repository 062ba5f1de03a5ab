/**
 * The sealed dates of a dataset, for a reader that may stay open while others seal, restate and remove: two listings, and each
 * version of a manifest that a statement touches once. Invariants: a date counts as sealed if it has a manifest; if an object
 * that the statement reads is missing or differs in size from the manifest, the statement is refused with that date before
 * anything is computed. If a date is unchanged between a set and a later look, no byte of its drop was replaced in between.
 * It takes no lock: writers never wait for readers.
 */
import { elapsedMs, systemClock } from '../core/clock.ts';
import { Fault } from '../core/errors.ts';
import { inParallel } from '../core/side-by-side.ts';
import { Ledger, type SealedDate } from '../ledger/ledger.ts';
import type { Manifest, ManifestFile } from '../ledger/manifest.ts';
import type { Store } from '../store/store.ts';

/** Manifests read concurrently. */
const MAX_READS = 16;
/** Up to this many dates are looked at one by one, which costs two requests each. */
const MAX_SINGLE_LOOKS = 8;

/** The sealed dates of one moment. */
export type SealedSet = ReturnType<typeof describeSet>;

function describeSet(
  dataset: string,
  listed: readonly SealedDate[],
  read: (sealed: SealedDate) => Promise<Manifest | undefined>,
  recall: (newest: readonly Manifest[]) => readonly Manifest[],
) {
  const sealed = new Map(listed.map((one) => [one.date, one]));
  const readWhole = async (date: string): Promise<Manifest> => {
    const found = sealed.get(date);
    const manifest = found && (await read(found));
    if (manifest === undefined) throw dropDamaged(date, 'its manifest was removed after it was listed');
    assertSize(date, manifest.files[0], found?.drops);
    return manifest;
  };
  const dates: readonly string[] = [...sealed.keys()];
  const readManifests = async (some: readonly string[]): Promise<readonly Manifest[]> =>
    await inParallel(some, MAX_READS, readWhole);
  return {
    dataset,
    /** Ascending. */
    dates,
    /** Opaque text that changes when the date is restated; `undefined`: it is not sealed. */
    versionOf: (date: string) => sealed.get(date)?.version,
    /** The manifests of some dates, in the same order. @throws Fault `MANIFEST_INVALID`, `DROP_DAMAGED` */
    readManifests,
    /**
     * The manifest of the newest date: its columns are those of the dataset. An archive that has lost all dates keeps the
     * last that was seen. @throws Fault `ARCHIVE_EMPTY`; those of `readManifests`
     */
    readNewest: async () => recall(await readManifests(dates.slice(-1))),
    /** The summary of a date, or `undefined` if it has none. @throws Fault `DROP_DAMAGED` */
    summaryOf({ date, files, summary }: Manifest): ManifestFile | undefined {
      const file = files.find(({ filename }) => filename === summary);
      if (file !== undefined) assertSize(date, file, sealed.get(date)?.beside);
      return file;
    },
  };
}

export function watchSealed(store: Store, dataset: string) {
  const ledger = new Ledger(store, dataset);
  /** The last whole listing, and when it began. */
  let last: { readonly set: SealedSet; readonly beganMs: number } | undefined;
  /** The listing that runs, or has run; and the one that begins when it has ended. */
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<SealedSet> | undefined;
  /** Manifests by date, each of one version, without what only audits need. */
  const manifests = new Map<string, { readonly version: string; readonly manifest: Manifest }>();
  let newest: readonly Manifest[] = [];
  return { list, isUnchanged };

  /** A set that is at most so old; 0: listed after this call. @throws StoreFault */
  async function list(maxAgeMs: number): Promise<SealedSet> {
    return last && elapsedMs(systemClock) - last.beganMs < maxAgeMs ? last.set : await listNow();
  }

  /** Whether the dates still are what they were in `set`, judged by a look that begins now. @throws StoreFault */
  async function isUnchanged(set: SealedSet, dates: readonly string[] = set.dates): Promise<boolean> {
    if (dates.length > MAX_SINGLE_LOOKS) {
      const now = await listNow();
      return dates.every((date) => now.versionOf(date) === set.versionOf(date));
    }
    const looks = await Promise.all(dates.map((date) => ledger.list({ only: date })));
    const isSame = dates.every((date, k) => looks[k]?.[0]?.version === set.versionOf(date));
    // What the other callers read is old too.
    if (!isSame) last = undefined;
    return isSame;
  }

  /** A set that is listed after this call. Callers that wait share one. @throws StoreFault */
  async function listNow(): Promise<SealedSet> {
    next ??= running.then(() => {
      const own = read();
      running = own.catch(() => {});
      next = undefined;
      return own;
    });
    return await next;
  }

  async function read(): Promise<SealedSet> {
    const beganMs = elapsedMs(systemClock);
    const set = describeSet(dataset, await ledger.list(), readManifest, recallNewest);
    for (const date of manifests.keys()) if (set.versionOf(date) === undefined) manifests.delete(date);
    last = { set, beganMs };
    return set;
  }

  function recallNewest(found: readonly Manifest[]): readonly Manifest[] {
    if (found.length > 0) newest = found;
    if (newest.length > 0) return newest;
    throw new Fault('ARCHIVE_EMPTY', `nothing is sealed in ${store.url}/${dataset}`, {
      hint: 'Run the job first, or check the names of store and dataset; `flowdrop status` shows what is sealed.',
    });
  }

  /** Reads each version of a manifest once. */
  async function readManifest({ date, drops, version }: SealedDate): Promise<Manifest | undefined> {
    const known = manifests.get(date);
    if (known?.version === version) return known.manifest;
    const found = await ledger.manifestOf(date, drops);
    if (found === undefined) return undefined;
    // Large days have megabytes of windows.
    const manifest = { ...found, windows: [] };
    manifests.set(date, { version, manifest });
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
