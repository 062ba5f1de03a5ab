/**
 * What a run says of SQL that passed the job file's checks and yet does not fit its windows, and of rows without ids of
 * their own: the last line of defence before numbers are sealed that no whole query would give. It fails; it never mends.
 */
import { axisOf, formatWindow } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import { type DayCounts, keyOf } from '../../plan/counts.ts';
import { countsInGap, listGaps } from '../../plan/pack.ts';
import { cutStretch } from '../../plan/profile.ts';
import { buildPage } from '../../plan/statement.ts';
import { SourceFault } from '../../source/source.ts';
import type { Stage } from '../../stage/stage.ts';
import { mostRepeated, repeatedFault } from '../bound-repeats.ts';
import type { WindowDeps } from './windows.ts';

const HINT_TORN =
  'Nothing was sealed. Mend `source.sql`: its GROUP BY must have the start of the grain, made from the column time alone, and each `split` column as the table has it; or choose a longer `grain`.';

/**
 * Whole groups lie in one window each: none came in two, and where nothing is staged, the source has rows of no group.
 * The second is asked only where raw rows were counted between the staged windows: usually nowhere. A group that came
 * since the groups were counted is none that was torn: they are counted again before that is said.
 * @param raw counts of the table's rows @param countGroups counts the groups of the date
 * @throws Fault `GROUP_TORN` naming the group and its windows; SourceFault
 */
export async function assertWholeGroups(
  deps: WindowDeps,
  job: SqlJob,
  stage: Stage,
  raw: DayCounts,
  countGroups: () => Promise<DayCounts>,
): Promise<void> {
  const { source } = job;
  if (source.kind !== 'aggregate') return;
  const torn = await stage.tornGroup();
  if (torn) {
    const where = `came in two windows, ${torn.windows.join(' and ')}`;
    throw tornFault(stage.date, `the group with ${describeKey(torn.key)} ${where}, so its numbers are parts`);
  }
  const windows = (await stage.windows()).map(({ window }) => window);
  if (windows.length === 0) return;
  const rawAxis = raw[0]?.symbol === undefined ? 'time' : 'symbol';
  // Counts along the other axis do not tell what lies between these windows.
  const isTold = windows.every((window) => (axisOf(window) ?? rawAxis) === rawAxis);
  let left = listGaps(windows).filter((gap) => !isTold || countsInGap(raw, gap).length > 0);
  for (let [gap] = left; gap !== undefined; [gap] = left) {
    left = left.slice(1);
    const window = { date: stage.date, ...gap };
    try {
      const sql = buildPage(job, window, deps.limits.dayEdges);
      const page = await deps.source.ask(sql, { signal: deps.signal });
      if (page.rows === 0 || countsInGap(await countGroups(), gap).length > 0) continue;
      const names = [source.timeColumn, ...source.splitColumns];
      const key = Object.fromEntries(names.map((name) => [name, String(page.firstRow?.[name])]));
      const where = `has rows in ${formatWindow(window)}, where no group was counted`;
      throw tornFault(stage.date, `the group with ${describeKey(key)} ${where}, so its numbers would be parts`);
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      const profile = deps.limits.profile(axisOf(window) ?? 'time');
      const halves = cutStretch(profile, gap, 2, source.grainSeconds);
      if (halves.length < 2) throw error;
      left = [...halves, ...left];
    }
  }
}

function tornFault(date: string, problem: string): Fault {
  return new Fault('GROUP_TORN', `${date}: ${problem}`, { hint: HINT_TORN });
}

function describeKey(key: Readonly<Record<string, string>>): string {
  const values = Object.entries(key).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return values.join(', ');
}

/** Groups that were counted in two spans are two parts of a group each. @throws Fault `GROUP_TORN` */
export function assertCountedOnce({ source }: SqlJob, date: string, groups: DayCounts): void {
  const twice = groups.find((cell, index) => index > 0 && keyOf(cell) === keyOf(groups[index - 1] ?? cell));
  if (twice === undefined) return;
  const time = source.kind === 'aggregate' ? source.timeColumn : 'time';
  const place = twice.symbol === undefined ? `second ${twice.second} of the day` : `symbol ${twice.symbol}`;
  throw tornFault(
    date,
    `groups whose "${time}" is of ${place} come in two parts of the date, though these end between grains`,
  );
}

/**
 * Nobody can tell versions of a trade from other trades where ids are none: above a small share the date fails, whatever
 * its source. Two things are counted. Rows of the date that have the id of another trade; and rows that their own answer
 * repeats, which would be left out as versions. Of those, the ones that are the same in every column are harmless, unless
 * it is SQL of one's own that multiplies them.
 * @throws Fault `IDS_REPEATED`
 */
export async function assertOwnIds({ source }: SqlJob, stage: Stage): Promise<void> {
  if (source.kind !== 'rows') return;
  const { rows, ids } = await stage.totals();
  const most = mostRepeated(rows);
  if (rows - ids <= most) return;
  const fail = async (what: string) =>
    repeatedFault(stage.date, {
      what,
      examples: await stage.exampleIds(),
      hint:
        source.sql === ''
          ? 'Nothing was sealed, what is staged is kept. Ask the provider why its trades share ids, then run again.'
          : 'Nothing was sealed. Mend `source.sql`: it must give one row for each row of the table, with `id` as the table has it.',
    });
  const answers = await stage.repeatedIds();
  const [worst] = answers;
  const repeated = answers.reduce((sum, answer) => sum + answer.rows - answer.ids, 0);
  // The same row in two answers is the source's matter: rows that moved while they were read.
  if (worst !== undefined && repeated > most) {
    const where = `window ${worst.window} has ${worst.rows} rows with ${worst.ids} ids`;
    throw await fail(`${repeated} of ${rows} rows have an id that their own answer has already; ${where}`);
  }
  const shared = rows - ids - (await stage.countReplaced());
  if (shared > most) throw await fail(`${shared} of ${rows} rows have the id of another trade, or none`);
}
