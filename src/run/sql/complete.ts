/**
 * Completeness of a date: what is staged must be what the source counts now. Cells that differ (a late row, a corrected
 * one, a page that was cut short without saying so) have their windows forgotten and fetched again; nothing else is.
 */
import { z } from 'zod';
import { axisOf, isOverlapping, type Stretch, type Window } from '../../calendar/window.ts';
import { writeFileAtomic } from '../../core/atomic-file.ts';
import { Fault } from '../../core/errors.ts';
import { readJsonFile } from '../../core/json-file.ts';
import type { SqlJob } from '../../job/job.ts';
import {
  type CountTotals,
  type DayCounts,
  findDifferences,
  keyOf,
  mergeBySymbol,
  stretchOf,
  sumCounts,
} from '../../plan/counts.ts';
import type { Stage } from '../../stage/stage.ts';
import { type FetchDeps, fetchDate } from './fetch.ts';
import { assertOwnIds, assertWholeGroups } from './own-sql.ts';
import { probeGroups, probeRows, probeSymbol } from './probe.ts';

/** A source whose counts still move after this many rounds is not settled: the date stays pending. */
const MAX_ROUNDS = 4;

/**
 * Stages the whole date and proves it.
 * @param first raw counts of the date from the run's first probe
 * @param snapshotPath where an aggregating job keeps the raw counts from before its first page
 * @returns what the source counted last, which is what is staged
 * @throws Fault `DATE_UNSETTLED` when the recounts never agree; `GROUP_TORN`, `IDS_REPEATED` when SQL of one's own does
 *   not fit its windows
 */
export async function completeDate(
  deps: FetchDeps,
  job: SqlJob,
  stage: Stage,
  first: DayCounts,
  snapshotPath: string,
): Promise<CountTotals> {
  await forgetOtherAxis(stage, first);
  const resumed = (await stage.windows()).length > 0;
  let before = job.source.kind === 'aggregate' ? await snapshot(snapshotPath, first, resumed) : first;
  let groups = job.source.kind === 'aggregate' ? await probeGroups(deps, job, stage.date) : first;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    await fetchDate(deps, job, stage, groups);
    await assertWholeGroups(deps, job, stage, before);
    deps.onEvent({ kind: 'phase', date: stage.date, phase: 'recounting' });
    const after = await probeRows(deps, job, stage.date);
    assertNotShrunk(stage.date, first, after);
    const changed = await findChanged(deps, job, stage, { before, after, groups });
    deps.onEvent({ kind: 'recounted', date: stage.date, changed: changed.length });
    if (changed.length === 0) {
      await assertOwnIds(job, stage);
      return sumCounts(after);
    }
    await stage.forget(await windowsOf(stage, changed));
    await forgetOtherAxis(stage, after);
    if (job.source.kind === 'aggregate') {
      await writeFileAtomic(snapshotPath, JSON.stringify(after));
      groups = await probeGroups(deps, job, stage.date);
    } else groups = after;
    before = after;
  }
  throw new Fault(
    'DATE_UNSETTLED',
    `the source's counts of ${stage.date} still differ from what it sends after ${MAX_ROUNDS} rounds`,
    {
      hint: 'Rows may still be arriving. Run again later: what agrees stays staged.',
    },
  );
}

function isBySymbol(counts: DayCounts): boolean {
  return counts[0]?.symbol !== undefined;
}

/** Windows cut along the other axis do not tile a date together with these. */
async function forgetOtherAxis(stage: Stage, counts: DayCounts): Promise<void> {
  const axis = isBySymbol(counts) ? 'symbol' : 'time';
  const others = (await stage.windows())
    .map(({ window }) => window)
    .filter((window) => (axisOf(window) ?? axis) !== axis);
  await stage.forget(others);
}

/**
 * A source that now has fewer rows of a cell than minutes ago is a lagging replica, a reload, or a table that moved on
 * to another date: no proof of anything, and no reason to drop what is staged. A later run that finds the smaller counts
 * from its beginning takes them for a withdrawal.
 */
function assertNotShrunk(date: string, first: DayCounts, after: DayCounts): void {
  const isComparable = isBySymbol(first) === isBySymbol(after);
  const now = new Map(mergeParts(after).map((cell) => [keyOf(cell), cell.ids]));
  const gone = isComparable ? mergeParts(first).filter((cell) => (now.get(keyOf(cell)) ?? 0) < cell.ids) : [];
  const [had, has] = [sumCounts(first).ids, sumCounts(after).ids];
  if (gone.length === 0 && (isComparable || has >= had)) return;
  throw new Fault(
    'SOURCE_SHRANK',
    `the source had ${had} rows of ${date} when the run began and ${has} now, fewer in ${gone.length} place(s)`,
    {
      hint: 'Nothing was sealed, what is staged is kept. Run again later; if it stays so, ask the provider.',
    },
  );
}

function mergeParts(counts: DayCounts): DayCounts {
  return isBySymbol(counts) ? mergeBySymbol(counts) : counts;
}

/**
 * Stretches whose rows must be fetched again. Single trades are compared by what is staged; what is inside a group
 * cannot be, so there the raw counts from before the first page are also compared with those from after the last.
 */
async function findChanged(
  deps: FetchDeps,
  job: SqlJob,
  stage: Stage,
  counts: { readonly before: DayCounts; readonly after: DayCounts; readonly groups: DayCounts },
): Promise<readonly Stretch[]> {
  const { before, after, groups } = counts;
  const wanted = job.source.kind === 'rows' ? after : groups;
  const staged = isBySymbol(wanted) ? await stage.countBySymbol() : await stage.countBySecond();
  const differing = findDifferences(staged, mergeParts(wanted));
  if (job.source.kind === 'aggregate') {
    return [...differing, ...findDifferences(mergeParts(before), mergeParts(after))].map((cell) =>
      grainOf(job, stretchOf(cell)),
    );
  }
  const found: Stretch[] = [];
  for (const cell of differing) {
    const { symbol } = cell;
    const whole = stretchOf(cell);
    // Of a symbol with many pages only those of the seconds that differ are fetched again.
    const isOneWindow = symbol === undefined || (await windowsOf(stage, [whole])).length < 2;
    if (isOneWindow) found.push(whole);
    else {
      const parts = after.filter((part) => part.symbol === symbol);
      const source = await probeSymbol(deps, job, stage.date, symbol, parts);
      const seconds = findDifferences(await stage.countBySecond(symbol), source);
      found.push(...seconds.map(({ second }) => ({ from: { symbol, second }, to: { symbol, second: second + 1 } })));
    }
  }
  return found;
}

/** A raw second lies in the group of its grain, wherever in it. */
function grainOf({ source }: SqlJob, stretch: Stretch): Stretch {
  if (source.kind !== 'aggregate' || stretch.from.symbol !== undefined) return stretch;
  const second = Math.floor(stretch.from.second / source.grainSeconds) * source.grainSeconds;
  return { from: { second }, to: { second: second + source.grainSeconds } };
}

async function windowsOf(stage: Stage, stretches: readonly Stretch[]): Promise<readonly Window[]> {
  const all = await stage.windows();
  return all
    .map(({ window }) => window)
    .filter((window) => stretches.some((stretch) => isOverlapping(stretch, window)));
}

const snapshotSchema = z.array(
  z.object({
    symbol: z.string().exactOptional(),
    second: z.number(),
    rows: z.number(),
    ids: z.number(),
    mark: z.string(),
  }),
);

/**
 * The counts from before the date's first page: those of an earlier, interrupted run when its pages are still staged.
 * @param resumed whether pages are staged
 */
async function snapshot(path: string, counts: DayCounts, resumed: boolean): Promise<DayCounts> {
  const kept = resumed ? await readJsonFile(path, snapshotSchema) : undefined;
  if (kept) return kept;
  await writeFileAtomic(path, JSON.stringify(counts));
  return counts;
}
