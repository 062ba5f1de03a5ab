/**
 * What a run says of SQL of one's own that passed the job file's checks and yet does not fit its windows: the last line
 * of defence before numbers are sealed that no whole query would give. It fails; it never mends.
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
import { profileOf } from './scan.ts';
import type { WindowDeps } from './windows.ts';

/**
 * Share of a date's rows that may repeat an id of the same answer, and how many may in any case: a source has a corrected
 * row beside its first now and then, while SQL that multiplies rows, or makes ids that are none, repeats half of them.
 */
const MAX_REPEATED_SHARE = 0.05;
const MAX_REPEATED_ROWS = 20;

const HINT_TORN =
  'Nothing was sealed. Mend `source.sql`: its GROUP BY must have the start of the grain, made from the column time alone, and each `split` column as the table has it; or choose a longer `grain`.';

/**
 * Whole groups lie in one window each: none came in two, and where nothing is staged, the source has rows of no group.
 * The second is asked only where raw rows were counted between the staged windows: usually nowhere.
 * @param raw counts of the table's rows
 * @throws Fault `GROUP_TORN` naming the group and its windows; SourceFault
 */
export async function assertWholeGroups(deps: WindowDeps, job: SqlJob, stage: Stage, raw: DayCounts): Promise<void> {
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
      const sql = buildPage(job, window, deps.learnt.day_edges);
      const page = await deps.source.ask(sql, deps.signal ? { signal: deps.signal } : {});
      if (page.rows === 0) continue;
      const names = [source.timeColumn, ...source.splitColumns];
      const key = Object.fromEntries(names.map((name) => [name, String(page.firstRow?.[name])]));
      const where = `has rows in ${formatWindow(window)}, where no group was counted`;
      throw tornFault(stage.date, `the group with ${describeKey(key)} ${where}, so its numbers would be parts`);
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      const profile = profileOf(deps.learnt, axisOf(window) ?? 'time');
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

/** Of rows with the same id one is kept: where one answer has many, rows would be lost. @throws Fault `IDS_REPEATED` */
export async function assertOwnIds({ source }: SqlJob, stage: Stage): Promise<void> {
  if (source.kind !== 'rows' || source.sql === '') return;
  const { rows, ids } = await stage.totals();
  const most = Math.max(MAX_REPEATED_ROWS, rows * MAX_REPEATED_SHARE);
  if (rows - ids <= most) return;
  const answers = await stage.repeatedIds();
  const [worst] = answers;
  const repeated = answers.reduce((sum, answer) => sum + answer.rows - answer.ids, 0);
  // The same row in two answers is the source's matter: rows that moved while they were read.
  if (worst === undefined || repeated <= most) return;
  throw new Fault(
    'IDS_REPEATED',
    `${stage.date}: ${repeated} of ${rows} rows have an id that their own answer has already, so they would be dropped; window ${worst.window} has ${worst.rows} rows with ${worst.ids} ids`,
    {
      hint: 'Nothing was sealed. Mend `source.sql`: it must give one row for each row of the table, with `id` as the table has it.',
    },
  );
}
