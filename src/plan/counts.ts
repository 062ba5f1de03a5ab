/** Counts of a date by second, as a probe brings them home. Pure. */

export interface SecondCount {
  /** Second of the day. For aggregating jobs, the first second of the grain. */
  readonly second: number;
  /** Rows at the source. */
  readonly rows: number;
  /** Distinct ids among them. For aggregating jobs, equal to `rows`. */
  readonly ids: number;
}

/** Counts of one date, ascending by second, only of seconds that have rows. */
export type DayCounts = readonly SecondCount[];

export interface CountTotals {
  readonly rows: number;
  readonly ids: number;
}

export function sumCounts(counts: DayCounts): CountTotals {
  let rows = 0;
  let ids = 0;
  for (const count of counts) {
    rows += count.rows;
    ids += count.ids;
  }
  return { rows, ids };
}

/**
 * Seconds at which what is staged is not what the source has now: rows came late, or pages did not bring them.
 * @param staged distinct ids staged per second @param source counts of the recount
 */
export function findDifferences(staged: DayCounts, source: DayCounts): readonly number[] {
  const have = new Map(staged.map((count) => [count.second, count.ids]));
  const seconds = new Set<number>();
  for (const count of source) if (have.get(count.second) !== count.ids) seconds.add(count.second);
  const known = new Set(source.map((count) => count.second));
  for (const count of staged) if (!known.has(count.second)) seconds.add(count.second);
  return [...seconds].sort((a, b) => a - b);
}
