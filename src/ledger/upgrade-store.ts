/**
 * Moves a store from the first layout (`<dataset>/date=.../`, `_history`, `_sealing`, `_reports`, `_alerts`) to that of
 * `layout.ts`. Invariant: an object is removed only when its copy is in the store with its size, and nothing is removed
 * before everything is copied; so an upgrade that was killed is finished by the next one, whenever that is. Contents do
 * not change: manifests name their files without a folder. Objects that are not of flowdrop stay where they are, also
 * folders `date=...` of other people: a dataset of ours has a manifest or `condition.json`, under its old or new name.
 */

import { inParallel } from '../core/side-by-side.ts';
import { isCurrentLayout, markCurrentLayout } from '../store/identity.ts';
import { RECORDS_PREFIX } from '../store/key-kind.ts';
import type { ListedObject, Store } from '../store/store.ts';
import { conditionKey, fileKey, historyPrefix, MANIFEST_FILENAME } from './layout.ts';

export interface UpgradeProgress {
  readonly step: 'copy' | 'remove';
  readonly done: number;
  readonly total: number;
}

export interface UpgradeResult {
  /** Objects copied to their new names by this call; an earlier one may have copied others. */
  readonly copied: number;
  readonly removed: number;
  readonly datasets: readonly string[];
  /** Sealed dates of all datasets. */
  readonly dates: number;
  /** Objects that are not of flowdrop, which stay. */
  readonly foreign: number;
}

interface Move {
  readonly from: ListedObject;
  readonly to: string;
}

/** Copies that are under way at once. */
const AT_ONCE = 8;

const DATE = String.raw`(?<date>\d{4}-\d{2}-\d{2})`;
const DATASET = '(?<dataset>[^/_][^/]*)';
const OLD_KEYS: readonly (readonly [RegExp, (groups: Readonly<Record<string, string>>) => string])[] = [
  [
    new RegExp(`^${DATASET}/date=${DATE}/(?<filename>[^/]+)$`),
    ({ dataset = '', date = '', filename = '' }) => fileKey(dataset, date, filename),
  ],
  [new RegExp(`^${DATASET}/condition\\.json$`), ({ dataset = '' }) => conditionKey(dataset)],
  [
    new RegExp(`^${DATASET}/_history/date=${DATE}/(?<rest>rev=[1-9]\\d*/[^/]+)$`),
    ({ dataset = '', date = '', rest = '' }) => `${historyPrefix(dataset, date)}${rest}`,
  ],
  [
    new RegExp(`^_(?<room>sealing|reports)/(?<path>(?:.+/)?)date=${DATE}/(?<rest>.+)$`),
    ({ room = '', path = '', date = '', rest = '' }) => `${RECORDS_PREFIX}${room}/${path}session=${date}/${rest}`,
  ],
  [/^_alerts\/(?<rest>.+)$/, ({ rest = '' }) => `${RECORDS_PREFIX}alerts/${rest}`],
];

/** What only a dataset of ours has, in the names of the present layout. */
const OWNING_KEY =
  /^_flowdrop\/(?<dataset>[^/]+)\/(?:condition\.json|(?:history\/)?session=[^/]+\/(?:rev=\d+\/)?manifest\.json)$/;

/** The name that an object of the first layout has now; `undefined` for any other object. Pure. */
export function upgradeKey(key: string): string | undefined {
  for (const [pattern, rename] of OLD_KEYS) {
    const groups = pattern.exec(key)?.groups;
    if (groups) return rename(groups);
  }
  return undefined;
}

/**
 * One listing, then a copy and a removal of each object inside the store. Nobody else may write to the store meanwhile;
 * a worker of this version refuses to until all is copied.
 * @throws StoreFault; the next call goes on from there
 */
export async function upgradeStore(
  store: Store,
  note: (progress: UpgradeProgress) => void = () => {},
): Promise<UpgradeResult> {
  const isCurrent = await isCurrentLayout(store);
  const present = new Map<string, ListedObject>();
  const candidates: Move[] = [];
  const ours = new Set<string>();
  let foreign = 0;
  for await (const object of store.list('')) {
    const to = upgradeKey(object.key);
    const owner = OWNING_KEY.exec(to ?? object.key)?.groups?.['dataset'];
    if (owner !== undefined) ours.add(owner);
    if (to !== undefined) candidates.push({ from: object, to });
    else if (object.key.startsWith(RECORDS_PREFIX) || /\/session=/.test(object.key)) present.set(object.key, object);
    else foreign += 1;
  }
  const isOurs = ({ from: { key } }: Move) => key.startsWith('_') || ours.has(key.slice(0, key.indexOf('/')));
  const moves = candidates.filter(isOurs);
  foreign += candidates.length - moves.length;
  // Manifests last: a date is sealed when it has one.
  const isManifest = ({ to }: Move) => to.endsWith(`/${MANIFEST_FILENAME}`);
  const toCopy = moves.filter(({ from, to }) => !isCopied(from, present.get(to), isCurrent));
  const ordered = [toCopy.filter((move) => !isManifest(move)), toCopy.filter(isManifest)];
  let done = 0;
  for (const group of ordered) {
    await inParallel(group, AT_ONCE, async ({ from, to }) => {
      await store.copy(from.key, to);
      done += 1;
      note({ step: 'copy', done, total: toCopy.length });
    });
  }
  if (!isCurrent) await markCurrentLayout(store);
  let removed = 0;
  await inParallel(moves, AT_ONCE, async ({ from }) => {
    await store.remove(from.key);
    removed += 1;
    note({ step: 'remove', done: removed, total: moves.length });
  });
  const sealed = [...present.keys(), ...moves.map(({ to }) => to)].flatMap((key) => {
    const groups = /^_flowdrop\/(?<dataset>[^/]+)\/session=(?<date>[^/]+)\/manifest\.json$/.exec(key)?.groups;
    return groups ? [`${groups['dataset']} ${groups['date']}`] : [];
  });
  const datasets = new Set(sealed.map((one) => one.slice(0, one.lastIndexOf(' '))));
  return { copied: toCopy.length, removed, datasets: [...datasets].sort(), dates: new Set(sealed).size, foreign };
}

/**
 * Whether an earlier call copied the object. Until the store is marked, a worker of the earlier version may have written
 * it anew since; afterwards what is under the new name is newer than what is left under the old one.
 */
function isCopied(from: ListedObject, to: ListedObject | undefined, isCurrent: boolean): boolean {
  if (to === undefined) return false;
  return isCurrent || (to.sizeBytes === from.sizeBytes && to.modifiedAtMs > from.modifiedAtMs);
}
