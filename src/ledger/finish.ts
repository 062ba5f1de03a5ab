/**
 * What earlier workers left under `_sealing/`, tidied at the start of a run. Decisions are carried out, or set aside when
 * they cannot be: damaged, of another place, or of files that are gone. Files that belong to no decision are removed a
 * day after they were written. Invariant: a date that cannot be finished does not keep the others from it, and no
 * decision is thrown away: one that is set aside stays readable, with what lay beside it. Not fenced off: a worker that
 * sleeps between looking at a decision once more and removing it, for as long as another takes to seal the date.
 */
import { type Fault, isFault } from '../core/errors.ts';
import type { ListedObject, Store } from '../store/store.ts';
import { digestDecision, readDecision } from './decision.ts';
import { takeBack } from './history.ts';
import { parseSealingKey, sealingDecisionKey, sealingPrefix, setAsidePrefix } from './layout.ts';
import type { Manifest } from './manifest.ts';
import { carryOut, cleanUp } from './publish.ts';
import { readManifest } from './sealed-dates.ts';

/** No seal takes a day; and a clock that is wrong by hours, here or there, does no harm. */
const STALE_AFTER_MS = 24 * 3_600_000;

interface FinishOptions {
  /** Local path for files on their way. */
  readonly scratch: string;
  readonly nowMs: number;
}

interface RevisionPlace {
  readonly date: string;
  readonly revision: number;
}

/** A decision that cannot be carried out. */
interface SetAside extends RevisionPlace {
  readonly reason: string;
  /** What its objects lie below now. */
  readonly prefix: string;
}

export interface Finished {
  /** What was published here. */
  readonly published: readonly Manifest[];
  readonly setAside: readonly SetAside[];
  /** What the store, or a damaged manifest, kept from being finished; the next run tries again. */
  readonly failed: readonly (RevisionPlace & { readonly error: Fault })[];
  /** Keys of files that were removed because no decision names them. */
  readonly removed: readonly string[];
}

type Group = RevisionPlace & { readonly objects: ListedObject[] };

/** Costs one listing when there is nothing. @throws StoreFault when nothing can be listed */
export async function finishSealing(store: Store, dataset: string, options: FinishOptions): Promise<Finished> {
  const groups = new Map<string, Group>();
  for await (const object of store.list(sealingPrefix(dataset))) {
    const place = parseSealingKey(dataset, object.key);
    if (!place || place.isSetAside) continue;
    const { date, revision } = place;
    const group = groups.get(`${date} ${revision}`) ?? { date, revision, objects: [] };
    groups.set(`${date} ${revision}`, group);
    group.objects.push(object);
  }
  const finished: Notes = { published: [], setAside: [], failed: [], removed: [] };
  for (const group of groups.values()) {
    try {
      await finishRevision(store, dataset, group, options, finished);
    } catch (error) {
      if (!isFault(error) || error.kind === 'interrupted') throw error;
      finished.failed.push({ date: group.date, revision: group.revision, error });
    }
  }
  return finished;
}

/** `Finished` while it is being made. */
interface Notes {
  readonly published: Manifest[];
  readonly setAside: SetAside[];
  readonly failed: Finished['failed'][number][];
  readonly removed: string[];
}

/** @throws StoreFault; Fault `MANIFEST_INVALID` when the sealed manifest is damaged, so that it does not tell what is done */
async function finishRevision(
  store: Store,
  dataset: string,
  group: Group,
  { scratch, nowMs }: FinishOptions,
  notes: Notes,
): Promise<void> {
  const { date, revision, objects } = group;
  // Before the ledger is read: see `decide` in publish.ts.
  const found = await readDecision(store, dataset, date, revision);
  const current = await readManifest(store, dataset, date);
  if (current && current.revision >= revision) return await cleanUp(store, dataset, date, revision);
  if (found.kind === 'none') {
    // A worker may be about to decide: its files are left alone while they are young.
    const stale = objects.filter(({ modifiedAtMs }) => nowMs - modifiedAtMs > STALE_AFTER_MS);
    for (const { key } of stale) await store.remove(key);
    notes.removed.push(...stale.map(({ key }) => key));
    return;
  }
  const setAside = async (reason: string) => {
    const prefix = await moveAside(store, dataset, group, found.bytes, reason);
    if (current) await takeBack(store, current, scratch);
    notes.setAside.push({ date, revision, reason, prefix: `${store.url}/${prefix}` });
  };
  if (found.kind === 'broken') return await setAside(found.reason);
  const { decided } = found;
  if (decided.supersedes !== (current?.revision ?? null)) {
    return await setAside(
      `it is to replace revision ${decided.supersedes ?? 0}, and ${current ? `revision ${current.revision}` : 'none'} is sealed`,
    );
  }
  const outcome = await carryOut(store, decided, current, scratch);
  if (outcome.kind === 'lost') return await setAside(outcome.reason);
  notes.published.push(outcome.manifest);
  await cleanUp(store, dataset, date, revision);
}

/**
 * Copies the decision and what lies beside it, and then removes the decision. The other files stay where they are: they
 * may be of a worker that is about to decide; the next one to seal the date removes them, or they are swept.
 * @returns the prefix of the copies
 */
async function moveAside(
  store: Store,
  dataset: string,
  { date, revision, objects }: Group,
  decision: Uint8Array,
  reason: string,
): Promise<string> {
  const prefix = setAsidePrefix(dataset, date, revision, digestDecision(decision));
  const decisionKey = sealingDecisionKey(dataset, date, revision);
  for (const { key } of objects) {
    if (key === decisionKey || (await store.head(key)) === undefined) continue;
    await store.copy(key, prefix + key.slice(key.lastIndexOf('/') + 1));
  }
  await store.put(`${prefix}reason.txt`, { bytes: Buffer.from(`${reason}\n`) }, { contentType: 'text/plain' });
  await store.put(`${prefix}decision.json`, { bytes: decision }, { contentType: 'application/json' });
  // Another worker may have set it aside as well, and decided anew since.
  const now = await store.get(decisionKey);
  if (now !== undefined && Buffer.compare(now, decision) === 0) await store.remove(decisionKey);
  return prefix;
}
