/**
 * Detects custom SQL that passed the job file's checks but does not fit its windows, and rows that share ids. The last check
 * before wrong numbers would be sealed: it fails the date and repairs nothing.
 */
import { axisOfStretch, formatWindow } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import { axisOf, cutStretch, describeCell, keyOf } from '../../plan/axis.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { countsInGap, listGaps } from '../../plan/pack.ts';
import { buildPage } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import { SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import {
  findSplitKey,
  listExampleIds,
  listRepeatedIds,
  mostRepeated,
  repeatedFault,
} from '../../stage/window-conflicts.ts';
import { askBroadly } from './scan.ts';

const HINT_TORN =
  'Nothing was sealed. Correct `source.sql`: its GROUP BY must have the start of the grain, computed from the column time alone, and each `split` column unchanged; or choose a longer `grain`.';

/**
 * Checks that no group came in two windows, and that no group lies where nothing is staged. The second check is needed only
 * where raw rows were counted between staged windows: usually nowhere. A new group is not a torn one: groups are counted
 * again before the date fails.
 * @param raw counts of the table's rows @param countGroups counts the groups of the date
 * @throws Fault `GROUP_TORN` naming the group and its windows; SourceFault
 */
export async function assertWholeGroups(
  api: OpenedSql,
  stage: Stage,
  raw: DayCounts,
  countGroups: () => Promise<DayCounts>,
): Promise<void> {
  const { limits, job } = api;
  const { source } = job;
  if (source.kind !== 'aggregate') return;
  const torn = await findSplitKey(stage);
  if (torn) {
    const where = `arrived in two windows, ${torn.windows.join(' and ')}`;
    throw tornFault(stage.date, `the group with ${describeKey(torn.key)} ${where}, so its numbers are incomplete`);
  }
  const windows = (await stage.windows()).map(({ window }) => window);
  if (windows.length === 0) return;
  const rawAxis = axisOf(raw);
  // Counts along the other axis do not show what lies between these windows.
  const isTold = windows.every((window) => (axisOfStretch(window) ?? rawAxis) === rawAxis);
  let left = listGaps(windows).filter((gap) => !isTold || countsInGap(raw, gap).length > 0);
  for (let [gap] = left; gap !== undefined; [gap] = left) {
    left = left.slice(1);
    const window = { date: stage.date, ...gap };
    const page = await askBroadly(api, buildPage(job, window, limits.dayEdges));
    if (page instanceof SourceFault) {
      const profile = limits.profile(axisOfStretch(window) ?? 'time');
      const halves = cutStretch(profile, gap, 2, source.grainSeconds);
      if (halves.length < 2) throw page;
      left = [...halves, ...left];
      continue;
    }
    if (page.rows === 0 || countsInGap(await countGroups(), gap).length > 0) continue;
    const names = [source.timeColumn, ...source.keyColumns];
    const key = Object.fromEntries(names.map((name) => [name, String(page.firstRow?.[name])]));
    const where = `has rows in ${formatWindow(window)}, where no group was counted`;
    throw tornFault(stage.date, `the group with ${describeKey(key)} ${where}, so its numbers would be incomplete`);
  }
}

function tornFault(date: string, problem: string): Fault {
  return new Fault('GROUP_TORN', `${date}: ${problem}`, { hint: HINT_TORN });
}

function describeKey(key: Readonly<Record<string, string>>): string {
  const values = Object.entries(key).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return values.join(', ');
}

/** A group that was counted in two spans is torn. @throws Fault `GROUP_TORN` */
export function assertCountedOnce({ source }: SqlJob, date: string, groups: DayCounts): void {
  const twice = groups.find((cell, index) => index > 0 && keyOf(cell) === keyOf(groups[index - 1] ?? cell));
  if (twice === undefined) return;
  const place = describeCell(twice);
  throw tornFault(
    date,
    `groups whose "${source.timeColumn}" is in ${place} arrive in two windows, although windows end between grains`,
  );
}

/**
 * If ids do not identify trades, versions cannot be distinguished from other trades: above a small share the date fails, for
 * every source. Two things are counted: rows with the id of another symbol, time or contract, and rows that repeat within one
 * answer; both would be dropped as versions. Exact repeats are harmless, unless custom SQL multiplies rows.
 * @throws Fault `IDS_REPEATED`
 */
export async function assertOwnIds({ source }: SqlJob, stage: Stage): Promise<void> {
  if (source.kind !== 'rows') return;
  const { rows, ids } = await stage.totals();
  const most = mostRepeated(rows);
  if (rows - ids <= most) return;
  const hint =
    source.sql === ''
      ? 'Nothing was sealed; staged pages are kept. Ask the provider why its trades share ids, then run again.'
      : 'Nothing was sealed. Correct `source.sql`: it must return one row for each row of the table, with `id` unchanged.';
  const fail = async (what: string) => repeatedFault(stage.date, what, await listExampleIds(stage), hint);
  const answers = await listRepeatedIds(stage);
  const [worst] = answers;
  const repeated = answers.reduce((sum, answer) => sum + answer.rows - answer.ids, 0);
  // The same row in two answers is harmless: it moved while it was read.
  if (worst !== undefined && repeated > most) {
    const where = `window ${worst.window} has ${worst.rows} rows with ${worst.ids} ids`;
    throw await fail(`${repeated} of ${rows} rows repeat an id of the same answer; ${where}`);
  }
  const shared = rows - ids - (await stage.countRepeats('key'));
  if (shared > most) throw await fail(`${shared} of ${rows} rows have the id of another trade, or none`);
}
