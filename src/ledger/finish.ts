/**
 * Cleans up what earlier workers left under `sealing/`, at the start of a run. Decisions are carried out, or set aside
 * when they cannot be: damaged, of another place, or with missing files. Files that belong to no decision are removed
 * when they are a day old. Invariant: a date that cannot be finished does not block the others, and no decision is
 * deleted: one that is set aside stays readable, with the files beside it. Not prevented: a worker pauses between its
 * last check of a decision and the removal, and another worker seals the date meanwhile.
 */
import { createHash } from 'node:crypto';
import type { Fault } from '../core/errors.ts';
import { attempt } from '../store/identity.ts';
import type { ListedObject } from '../store/store.ts';
import { filenameOf, parseSealingKey, sealingDecisionKey, sealingPrefix, setAsidePrefix } from './layout.ts';
import type { Ledger } from './ledger.ts';
import { carryOut, cleanUp, takeBack } from './publish.ts';

/** No seal takes a day, and a clock that is off by hours, here or in the store, does no harm. */
const STALE_AFTER_MS = 24 * 3_600_000;

interface Group {
  readonly date: string;
  readonly revision: number;
  readonly objects: ListedObject[];
}

/** What a call of `finishSealing` did. */
export interface Finished {
  /** Decisions that cannot be carried out; `prefix` is the key prefix of their objects now. */
  readonly setAside: (Pick<Group, 'date' | 'revision'> & { readonly reason: string; readonly prefix: string })[];
  /** Revisions that a store error or a damaged manifest kept from being finished; the next run tries again. */
  readonly failed: (Pick<Group, 'date' | 'revision'> & { readonly error: Fault })[];
  /** Keys of files that were removed because no decision names them. */
  readonly removed: string[];
}

/**
 * Costs one listing when there is nothing to do. @param scratch local path for files in transit
 * @throws StoreFault when the listing fails
 */
export async function finishSealing(ledger: Ledger, scratch: string, nowMs: number): Promise<Finished> {
  const { store, dataset } = ledger;
  const groups = new Map<string, Group>();
  for await (const object of store.list(sealingPrefix(dataset))) {
    const place = parseSealingKey(dataset, object.key);
    if (!place || place.isSetAside) continue;
    const { date, revision } = place;
    const group = groups.get(`${date} ${revision}`) ?? { date, revision, objects: [] };
    groups.set(`${date} ${revision}`, group);
    group.objects.push(object);
  }
  const finished: Finished = { setAside: [], failed: [], removed: [] };
  for (const group of groups.values()) {
    const { date, revision } = group;
    await attempt(
      () => finishRevision(ledger, group, finished, scratch, nowMs),
      (error) => void finished.failed.push({ date, revision, error }),
    );
  }
  return finished;
}

/**
 * @throws StoreFault; Fault `MANIFEST_INVALID` when the sealed manifest is damaged, because it cannot show what is done
 */
async function finishRevision(ledger: Ledger, group: Group, notes: Finished, scratch: string, nowMs: number) {
  const { store } = ledger;
  const { date, revision, objects } = group;
  // Read the decision before the ledger: see `decide` in publish.ts.
  const found = await ledger.decision(date, revision);
  const current = await ledger.manifest(date);
  if (current && current.revision >= revision) return await cleanUp(ledger, date, revision);
  if (found === undefined) {
    // Another worker may be about to decide, so keep files that are younger than a day.
    const stale = objects.filter(({ modifiedAtMs }) => nowMs - modifiedAtMs > STALE_AFTER_MS);
    for (const { key } of stale) await store.remove(key);
    notes.removed.push(...stale.map(({ key }) => key));
    return;
  }
  const setAside = async (reason: string) => {
    const prefix = await moveAside(ledger, group, found.bytes, reason);
    if (current) await takeBack(ledger, current, scratch);
    notes.setAside.push({ date, revision, reason, prefix: `${store.url}/${prefix}` });
  };
  const { decided } = found;
  if (decided === undefined) return await setAside(found.reason);
  if (decided.supersedes !== (current?.revision ?? null)) {
    return await setAside(
      `it must replace revision ${decided.supersedes ?? 0}, but ${current ? `revision ${current.revision}` : 'none'} is sealed`,
    );
  }
  const published = await carryOut(ledger, decided, current, scratch);
  if (typeof published === 'string') return await setAside(published);
  await cleanUp(ledger, date, revision);
}

/**
 * Copies the decision and the files beside it, then removes the decision. The other files stay, because they may belong
 * to a worker that is about to decide. The next worker to seal the date removes them, or a later run does.
 * @returns the prefix of the copies
 */
async function moveAside(
  { store, dataset }: Ledger,
  { date, revision, objects }: Group,
  decision: Uint8Array,
  reason: string,
): Promise<string> {
  const digest = createHash('sha256').update(decision).digest('hex').slice(0, 16);
  const prefix = setAsidePrefix(dataset, date, revision, digest);
  const decisionKey = sealingDecisionKey(dataset, date, revision);
  for (const { key } of objects) {
    if (key === decisionKey || (await store.head(key)) === undefined) continue;
    await store.copy(key, prefix + filenameOf(key));
  }
  await store.put(`${prefix}reason.txt`, { bytes: Buffer.from(`${reason}\n`) });
  await store.put(`${prefix}decision.json`, { bytes: decision });
  // Another worker may also have set it aside, and made a new decision since.
  const now = await store.get(decisionKey);
  if (now !== undefined && Buffer.compare(now, decision) === 0) await store.remove(decisionKey);
  return prefix;
}
