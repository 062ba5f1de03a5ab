/** Merges what two workers changed in one record of entries. Pure. */

/**
 * Applies our changes from `before` to `after` to what another worker has written since, entry by entry. `undefined`
 * stands for an entry that is not there.
 * @param merge for an entry that we changed
 */
export function mergeRecords<T>(
  now: Readonly<Record<string, T>>,
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  merge: (theirs: T | undefined, base: T | undefined, ours: T | undefined) => T | undefined,
): Readonly<Record<string, T>> {
  const merged: Record<string, T> = {};
  for (const key of new Set([...Object.keys(now), ...Object.keys(after)])) {
    const [theirs, base, ours] = [now[key], before[key], after[key]];
    const kept = isSame(ours, base) ? theirs : merge(theirs, base, ours);
    if (kept !== undefined) merged[key] = kept;
  }
  return merged;
}

export function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
