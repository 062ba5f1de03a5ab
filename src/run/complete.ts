/**
 * Completeness of a date: what is staged must be what the source counts now. Seconds that differ (a late row, a page
 * that was cut short without saying so) have their windows forgotten and fetched again; nothing else is.
 */
import { z } from 'zod';
import type { Window } from '../calendar/window.ts';
import { readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { type CountTotals, type DayCounts, findDifferences, sumCounts } from '../plan/counts.ts';
import type { Stage } from '../stage/stage.ts';
import { type FetchDeps, fetchDate } from './fetch.ts';
import { probeGroups, probeRows } from './probe.ts';

/** A source whose counts still move after this many rounds is not settled: the date stays pending. */
const MAX_ROUNDS = 4;

/**
 * Stages the whole date and proves it.
 * @param first raw counts of the date from the run's first probe
 * @param snapshotPath where an aggregating job keeps the raw counts from before its first page
 * @returns what the source counted last, which is what is staged
 * @throws Fault `DATE_UNSETTLED` when the recounts never agree
 */
export async function completeDate(
  deps: FetchDeps,
  job: Job,
  stage: Stage,
  first: DayCounts,
  snapshotPath: string,
): Promise<CountTotals> {
  const resumed = (await stage.windows()).length > 0;
  let before = job.source.kind === 'aggregate' ? await snapshot(snapshotPath, first, resumed) : first;
  let groups = job.source.kind === 'aggregate' ? await probeGroups(deps, job, stage.date) : first;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    await fetchDate(deps, job, stage, groups);
    const after = (await probeRows(deps, job, [stage.date])).get(stage.date) ?? [];
    assertNotShrunk(stage.date, first, after);
    const changed = await findChanged(job, stage, { before, after, groups });
    deps.onEvent({ kind: 'recounted', date: stage.date, changed: changed.length });
    if (changed.length === 0) return sumCounts(after);
    await stage.forget(await windowsOf(stage, changed));
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

/**
 * A source that now has fewer rows of a second than minutes ago is a lagging replica, a reload, or a table that moved on
 * to another date: no proof of anything, and no reason to drop what is staged. A later run that finds the smaller counts
 * from its beginning takes them for a withdrawal.
 */
function assertNotShrunk(date: string, first: DayCounts, after: DayCounts): void {
  const now = new Map(after.map((count) => [count.second, count.ids]));
  const gone = first.filter(({ second, ids }) => (now.get(second) ?? 0) < ids);
  if (gone.length === 0) return;
  const [had, has] = [sumCounts(first).ids, sumCounts(after).ids];
  throw new Fault(
    'SOURCE_SHRANK',
    `the source had ${had} rows of ${date} when the run began and ${has} now, fewer in ${gone.length} second(s)`,
    {
      hint: 'Nothing was sealed, what is staged is kept. Run again later; if it stays so, ask the provider.',
    },
  );
}

/**
 * Seconds whose rows must be fetched again. Single trades are compared by what is staged; what is inside a group cannot
 * be, so there the raw counts from before the first page are also compared with those from after the last.
 */
async function findChanged(
  job: Job,
  stage: Stage,
  counts: { readonly before: DayCounts; readonly after: DayCounts; readonly groups: DayCounts },
): Promise<readonly number[]> {
  const staged = await stage.countBySecond();
  if (job.source.kind === 'rows') return findDifferences(staged, counts.after);
  return [...findDifferences(staged, counts.groups), ...findDifferences(counts.before, counts.after)];
}

async function windowsOf(stage: Stage, seconds: readonly number[]): Promise<readonly Window[]> {
  const all = await stage.windows();
  return all
    .map(({ window }) => window)
    .filter(({ from, to }) =>
      seconds.some(
        (second) => second >= from.second && (second < to.second || (second === to.second && to.id !== undefined)),
      ),
    );
}

const snapshotSchema = z.array(z.object({ second: z.number(), rows: z.number(), ids: z.number() }));

/**
 * The counts from before the date's first page: those of an earlier, interrupted run when its pages are still staged.
 * @param resumed whether pages are staged
 */
async function snapshot(path: string, counts: DayCounts, resumed: boolean): Promise<DayCounts> {
  const kept = resumed ? await readFileIfExists(path) : undefined;
  if (kept !== undefined) return snapshotSchema.parse(JSON.parse(kept));
  await writeFileAtomic(path, JSON.stringify(counts));
  return counts;
}
