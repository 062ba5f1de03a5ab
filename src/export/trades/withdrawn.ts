/**
 * Rows that disappeared from the source during a run. A few are a withdrawal, if a second count some seconds later confirms
 * it. Many, or a block at the end of the day, may be a lagging replica or a reload: they prove nothing, and staged rows are
 * kept. A later run that starts with the smaller counts accepts them, whatever their size.
 */
import { formatSecond } from '../../calendar/wall-clock.ts';
import { Fault } from '../../core/errors.ts';
import { countOf } from '../../core/units.ts';
import { axisOf, describeCell, keyOf } from '../../plan/axis.ts';
import { type CellCount, type DayCounts, findDifferences, mergeParts, sumCounts } from '../../plan/counts.ts';

/** A slightly lagging replica has caught up by then. */
export const CONFIRM_AFTER_MS = 10_000;

/** Share of a date's rows that may disappear during a fetch, and how many always may. */
const MAX_WITHDRAWN_SHARE = 0.05;
const MAX_WITHDRAWN_ROWS = 5;
/** An hour or symbol with so many rows may lose less than half: a reload removes such parts whole. */
const LARGE_PART_ROWS = 100;

type Loss = NonNullable<ReturnType<typeof findLoss>>;

/**
 * @returns `places`: cells that lost rows, with their earlier counts; `tooMuch`: why it is no withdrawal, `undefined` for a
 *   small one; nothing when no cell lost rows
 */
export function findLoss(first: DayCounts, after: DayCounts) {
  const [had, has] = [sumCounts(first).ids, sumCounts(after).ids];
  if (after.length === 0 && had > 0) return { had, has, lost: had, places: first, tooMuch: 'all of them are gone' };
  if (axisOf(first) !== axisOf(after)) {
    // Along different axes only the sums can be compared.
    return has < had ? { had, has, lost: had - has, places: [], tooMuch: judgeSum(had, had - has) } : undefined;
  }
  const now = new Map(mergeParts(after).map((cell) => [keyOf(cell), cell.ids]));
  const idsNow = (cell: CellCount) => now.get(keyOf(cell)) ?? 0;
  const before = mergeParts(first);
  const places = before.filter((cell) => idsNow(cell) < cell.ids);
  if (places.length === 0) return undefined;
  const lost = places.reduce((sum, cell) => sum + cell.ids - idsNow(cell), 0);
  return {
    had,
    has,
    lost,
    places,
    tooMuch: judgeSum(had, lost) ?? judgeParts(before, idsNow) ?? judgeEnd(before, places, after),
  };
}

/** Why so many lost rows are no withdrawal; `undefined` for a few. */
export function judgeSum(had: number, lost: number): string | undefined {
  if (lost <= Math.max(MAX_WITHDRAWN_ROWS, had * MAX_WITHDRAWN_SHARE)) return undefined;
  return `more than ${MAX_WITHDRAWN_SHARE * 100}% are gone`;
}

/** An hour, or a symbol, that lost more than half of many rows. */
function judgeParts(before: DayCounts, idsNow: (cell: CellCount) => number): string | undefined {
  const axis = axisOf(before);
  const parts = new Map<string, { had: number; has: number }>();
  for (const cell of before) {
    const name = axis === 'time' ? `hour ${Math.floor(cell.second / 3600)}` : describeCell(cell);
    const part = parts.get(name) ?? { had: 0, has: 0 };
    parts.set(name, { had: part.had + cell.ids, has: part.has + idsNow(cell) });
  }
  const gone = [...parts].find(([, { had, has }]) => had >= LARGE_PART_ROWS && has < had / 2);
  return gone && `${gone[0]} had ${gone[1].had} and has ${gone[1].has}`;
}

/**
 * All rows after the newest one that is left: a source that is behind. Without times, it takes rows of most symbols at once.
 */
function judgeEnd(before: DayCounts, places: DayCounts, after: DayCounts): string | undefined {
  if (axisOf(before) === 'symbol') {
    if (places.length <= MAX_WITHDRAWN_ROWS || places.length <= before.length / 2) return undefined;
    return `rows of ${places.length} of ${before.length} symbols are gone at once: the source may lag`;
  }
  const newest = after.at(-1)?.second ?? 0;
  const { ids } = sumCounts(places.filter(({ second }) => second > newest));
  if (ids <= MAX_WITHDRAWN_ROWS) return undefined;
  return `${ids} of them are all rows after ${formatSecond(newest)} (exchange time): the source lags`;
}

/** Whether two counts agree on every place that lost rows since `first`. */
export function isConfirmed(first: DayCounts, one: DayCounts, other: DayCounts): boolean {
  const placesOf = (after: DayCounts) => new Set((findLoss(first, after)?.places ?? []).map(keyOf));
  const places = new Set([...placesOf(one), ...placesOf(other)]);
  if (axisOf(one) !== axisOf(other)) return false;
  return findDifferences(mergeParts(one), mergeParts(other)).every((cell) => !places.has(keyOf(cell)));
}

export function describeLoss({ had, has, lost, places }: Loss): string {
  return `the source had ${had} rows when the run began and has ${has} now: ${lost} are gone from ${countOf(places.length, 'place')}`;
}

/** @throws Fault `SOURCE_SHRANK` unless the loss is small */
export function assertSmallLoss(date: string, loss: Loss): void {
  if (loss.tooMuch === undefined) return;
  throw new Fault('SOURCE_SHRANK', `${date}: ${describeLoss(loss)}; ${loss.tooMuch}`, {
    hint: 'Nothing was sealed; staged pages are kept. Run again later; if the problem persists, ask the provider.',
  });
}
