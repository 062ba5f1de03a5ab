/**
 * What `flowdrop status` prints about many jobs: a table with one line a job, and below it, in words, what a table cannot
 * show. Pure: the time is passed in.
 */
import { formatSpan } from '../../core/date-text.ts';
import { formatCount } from '../../core/units.ts';
import type { DateStatus } from '../../state/documents.ts';
import { endOf } from '../../state/run-record.ts';
import type { Style } from '../terminal/color.ts';
import { formatTable, right } from '../terminal/text-table.ts';
import { escapeText } from '../terminal/text-width.ts';
import { describeOutcome, describeOwed, describeRunning, findGaps, type StatusView } from './text.ts';

/** Up to so many jobs, each is shown with its calendar. */
export const MOST_CALENDARS = 5;

/** Whose objects are looked at: enough to notice that a run's drops have disappeared. */
export const OVERVIEW_WEEKS = 2;

type OverviewView = Pick<StatusView, 'document' | 'nowMs' | 'style'>;

export function describeOverview(views: readonly OverviewView[], width: number | undefined): string {
  const table = formatTable(
    ['job', 'newest drop', right('to fetch'), 'expires', right('lost'), 'last run'],
    views.map(formatRow),
    { width },
  );
  const notes = views.flatMap((view) => describeNotes(view).map((note) => `${view.document.job}: ${note}`));
  const more = '`flowdrop status JOB` shows the calendar of a job.';
  return `${[table, '', ...notes, ...(notes.length === 0 ? [] : ['']), more].join('\n')}\n`;
}

function formatRow(view: OverviewView): readonly string[] {
  const { document, nowMs, style } = view;
  const { gaps, lost } = findGaps(view);
  const newest = document.dates.findLast(({ rows }) => rows !== null);
  const expiry = gaps.find(({ begins_to_expire: at }) => at !== null)?.begins_to_expire ?? null;
  return [
    document.job,
    newest?.date ?? 'none',
    gaps.length === 0 ? '' : formatCount(gaps.length),
    expiry === null ? '' : `in ${formatSpan(Date.parse(expiry) - nowMs)}`,
    lost.length === 0 ? '' : style.red(formatCount(lost.length)),
    formatLastRun(view, style),
  ];
}

function formatLastRun(view: OverviewView, style: Style): string {
  const { last_run: last } = view.document;
  if (last === null) return 'never';
  const word = describeOutcome(last.outcome);
  const end = last.outcome === 'done' ? style.green(word) : style.red(word);
  return `${end}, ${formatSpan(view.nowMs - Date.parse(endOf(last)))} ago`;
}

function describeNotes(view: OverviewView): readonly string[] {
  const { document, style } = view;
  const [owed] = describeOwed(view);
  return [
    ...describeRunning(document.running, view),
    ...(owed === undefined ? [] : [owed]),
    ...sumUp(document.dates, style.yellow('degraded'), ({ degraded_reason: reason, accepted, damage }) =>
      accepted === null && damage === null ? reason : undefined,
    ),
    ...sumUp(document.dates, style.yellow('unusual'), ({ doubts }) => doubts?.join('; ')),
    ...sumUp(document.dates, style.red('failed'), ({ failed }) => failed && `${failed.code}: ${failed.message}`),
    ...sumUp(document.dates, style.red('damaged'), ({ damage }) => damage ?? undefined),
  ];
}

/** The number of dates with a reason, and the newest reason. */
function sumUp(
  dates: readonly DateStatus[],
  word: string,
  reasonOf: (date: DateStatus) => string | undefined,
): readonly string[] {
  const found = dates.flatMap((one) => {
    const reason = reasonOf(one);
    return reason === undefined ? [] : [{ date: one.date, reason }];
  });
  const newest = found.at(-1);
  if (newest === undefined) return [];
  const count = found.length === 1 ? '' : `${formatCount(found.length)} dates, the newest `;
  return [`${word}: ${count}${newest.date}, ${escapeText(newest.reason)}`];
}
