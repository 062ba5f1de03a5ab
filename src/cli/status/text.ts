/**
 * What `flowdrop status` prints about a job for people: last, current and next run, the calendar of its dates, and what
 * must be fetched before it expires. Pure: the time is passed in.
 */

import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { isHoliday, nameHoliday } from '../../calendar/holidays.ts';
import { addDays, mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatInstant, formatSpan } from '../../core/date-text.ts';
import { formatCount, formatDuration } from '../../core/units.ts';
import { isOpen } from '../../plan/conditions.ts';
import { expiresAt } from '../../plan/dates.ts';
import { describeAccepted } from '../../state/date-records.ts';
import type { DateStatus } from '../../state/documents.ts';
import { endOf, type RunOutcome, type RunRecord, sumSealed } from '../../state/run-record.ts';
import type { Style } from '../terminal/color.ts';
import { formatTable, right } from '../terminal/text-table.ts';
import { cutText, escapeText } from '../terminal/text-width.ts';
import { formatHeatMap, listClosedDays } from './heat-map.ts';
import type { StatusReading } from './job-status.ts';

/** Older dates are summed up in one line: they rarely change, and a screen is small. */
export const SHOWN_WEEKS = 8;

/** Most dates that are listed by name, each for lost, closed, degraded and damaged ones. */
const NAMED_DATES = 10;

export interface StatusView extends Omit<StatusReading, 'conditionFault'> {
  readonly style: Style;
  readonly columns: number;
  /** Cells per terminal line; without it failures are printed in full, so that they can be searched. */
  readonly width?: number | undefined;
  /** All dates, not only those of the last weeks. */
  readonly all: boolean;
  /** A table of dates instead of the calendar. */
  readonly list: boolean;
}

export function describeStatus(view: StatusView): string {
  const { document, style } = view;
  const lines = [
    `${style.bold(document.job)}: ${document.store}/${document.dataset}`,
    ...describeRunning(document.running, view),
    ...describeStaged(document.staged),
    ...describeLast(view),
    `next run ${describeNext(view)}`,
    ...describeOwed(view),
    // A backfill covers its own dates only.
    ...(document.last_run === null && document.last_backfill !== null
      ? [`Earlier dates were not requested yet: see \`flowdrop plan ${document.job}\`.`]
      : []),
    '',
    ...describeDates(view),
  ];
  return `${lines.join('\n')}\n`;
}

/** Events that programs wait for. */
export function describeOwed({
  document,
  nowMs,
  style,
}: Pick<StatusView, 'document' | 'nowMs' | 'style'>): readonly string[] {
  const { owed_events: owed, job } = document;
  if (owed === null) return [];
  const count = `${formatCount(owed.count)} ${owed.count === 1 ? 'event' : 'events'}`;
  const why = owed.reason === null ? '' : `: ${escapeText(owed.reason)}`;
  return [
    `${style.red('not posted')}: ${count}, the oldest ${formatSpan(nowMs - Date.parse(owed.since))} ago${why}`,
    `To try again: \`flowdrop alert ${job}\`. Each run also tries.`,
  ];
}

function describeStaged(staged: StatusView['document']['staged']): readonly string[] {
  if (staged === null) return [];
  return [
    `${staged.date} is staged to ${staged.through.slice(0, 5)} (exchange time), ${formatCount(staged.rows)} rows`,
  ];
}

function describeDates(view: StatusView): readonly string[] {
  const { document, style } = view;
  const { dates, fault } = document;
  const fallback =
    fault === null ? [] : [style.red('The store could not be read; this is what the last run recorded.')];
  if (dates.length === 0) {
    return [...fallback, `No date is known yet: run the job, or see \`flowdrop plan ${document.job}\`.`];
  }
  if (view.list) return [...fallback, formatList(dates, view.nowMs)];
  const { shown, older } = view.all ? { shown: dates, older: [] } : cutOlder(dates);
  const closed = listClosedDays({ dates: shown, calendar: view.calendar });
  return [
    ...fallback,
    ...formatHeatMap({ ...view, dates: shown }),
    ...(closed.length === 0 ? [] : [`closed: ${closed.slice(-NAMED_DATES).map(describeClosed).join(', ')}`]),
    ...describeWeekends(shown),
    ...(older.length === 0 ? [] : [describeOlder(older)]),
    ...describeFlaws(shown),
    ...describeAudits(shown, view.nowMs),
    ...describeGaps(view),
  ];
}

/** A line for each date, for users who search it. */
function formatList(dates: readonly DateStatus[], nowMs: number): string {
  return formatTable(
    ['date', 'condition', right('rows'), 'begins to expire'],
    dates.map(({ date, condition, rows, begins_to_expire }) => [
      date,
      condition,
      rows === null ? '' : formatCount(rows),
      formatExpiry(begins_to_expire, nowMs),
    ]),
  );
}

function cutOlder(dates: readonly DateStatus[]) {
  const first = addDays(mondayOf(dates.at(-1)?.date ?? ''), -7 * (SHOWN_WEEKS - 1));
  return { shown: dates.filter(({ date }) => date >= first), older: dates.filter(({ date }) => date < first) };
}

function describeOlder(older: readonly DateStatus[]): string {
  const counts = new Map<string, number>();
  for (const { condition } of older) counts.set(condition, (counts.get(condition) ?? 0) + 1);
  const sums = [...counts].map(([condition, count]) => `${formatCount(count)} ${condition}`).join(', ');
  return `from ${older[0]?.date ?? ''} to ${older.at(-1)?.date ?? ''}: ${sums} (--all shows them)`;
}

function describeClosed(date: string): string {
  const name = isHoliday(date) ? nameHoliday(date) : 'by a calendar exception';
  return `${date} ${name ?? ''}`.trimEnd();
}

/** The source decides which dates have a session: rows on a Saturday have no column in the calendar. */
function describeWeekends(dates: readonly DateStatus[]): readonly string[] {
  const weekend = dates.filter(({ date }) => weekday(date) === 0 || weekday(date) === 6);
  if (weekend.length === 0) return [];
  return [`on weekends: ${weekend.map(({ date, condition }) => `${date} ${condition}`).join(', ')}`];
}

/** Degraded dates, which a new export may still complete, failed checks, and values that became null; newest first each. */
function describeFlaws(dates: readonly DateStatus[]): readonly string[] {
  const list = (describe: (date: DateStatus) => string | undefined) =>
    dates
      .flatMap((date) => describe(date) ?? [])
      .reverse()
      .slice(0, NAMED_DATES);
  return [
    ...list(({ date, degraded_reason: reason, accepted }) =>
      reason === undefined || accepted !== null ? undefined : `${date} degraded: ${escapeText(reason)}`,
    ),
    ...list(({ date, doubts = [] }) =>
      doubts.length === 0 ? undefined : `${date} is unusual: ${doubts.map((text) => escapeText(text)).join('; ')}`,
    ),
    ...list(({ date, nulls = {} }) => {
      const counts = Object.entries(nulls).map(([column, rows]) => `${formatCount(rows)} ${escapeText(column)}`);
      return counts.length === 0 ? undefined : `${date} has unexpected nulls: ${counts.join(', ')}`;
    }),
  ];
}

/** What comparisons with the source found: of dates that expired, the last one. */
function describeAudits(dates: readonly DateStatus[], nowMs: number): readonly string[] {
  const audited = dates.flatMap(({ date, audit }) => (audit === undefined ? [] : [{ date, ...audit }]));
  const isExpired = ({ date }: { readonly date: string }) => expiresAt(date) <= nowMs;
  const equal = audited.filter(({ result }) => result === 'equal');
  const [gone, open] = [equal.filter(isExpired), equal.filter((one) => !isExpired(one))];
  const newest = open
    .map(({ audited_at: at }) => at)
    .sort()
    .at(-1);
  const differing = audited.filter(({ result }) => result === 'differs').reverse();
  return [
    ...(newest === undefined
      ? []
      : [`equal to the source: ${open.length} date(s), compared ${describeAgo(newest, { nowMs })}`]),
    ...(gone.length === 0 ? [] : [`equal to the source when it expired: ${listNewest(gone.map(({ date }) => date))}`]),
    ...differing.slice(0, NAMED_DATES).map((one) => {
      const what = isExpired(one) ? 'differed from the source when it expired' : 'differs from the source';
      return `${one.date} ${what}: ${escapeText(one.reason ?? '')}`;
    }),
  ];
}

function listNewest(texts: readonly string[]): string {
  const more = texts.length > NAMED_DATES ? `${texts.length - NAMED_DATES} more, ` : '';
  return `${more}${texts.slice(-NAMED_DATES).join(', ')}`;
}

/** Dates that nobody accepted as gaps: those that can still be fetched, by the time they have left, and those that cannot. */
export function findGaps({ document, nowMs }: Pick<StatusView, 'document' | 'nowMs'>) {
  const unaccepted = document.dates.filter(({ accepted }) => accepted === null);
  const open = unaccepted.filter(({ condition }) => isOpen(condition));
  const isOver = ({ begins_to_expire: at }: DateStatus) => at !== null && Date.parse(at) <= nowMs;
  const gaps = open
    .filter((date) => !isOver(date))
    .sort((a, b) => (a.begins_to_expire ?? a.date).localeCompare(b.begins_to_expire ?? b.date));
  const lost = unaccepted.filter((date) => date.condition === 'expired' || (open.includes(date) && isOver(date)));
  return { gaps, lost };
}

function describeGaps({ document, nowMs, style }: StatusView): readonly string[] {
  const { gaps, lost } = findGaps({ document, nowMs });
  const table = formatTable(
    ['not sealed', 'condition', 'expires', 'begins to expire'],
    gaps.map(({ date, condition, begins_to_expire: at }) => [
      date,
      condition,
      at === null ? 'never' : `in ${formatSpan(Date.parse(at) - nowMs)}`,
      formatExpiry(at, nowMs),
    ]),
  );
  const damaged = document.dates.filter(({ damage }) => damage !== null);
  const failed = document.dates.flatMap(({ date, failed: error }) =>
    error === undefined ? [] : [`${style.red('failed')}: ${date}, ${escapeText(`${error.code}: ${error.message}`)}`],
  );
  const accepted = document.dates.flatMap(({ date, condition, accepted: gap }) =>
    gap === null ? [] : [`${date} ${condition}, ${escapeText(describeAccepted(gap))}`],
  );
  const named = listNewest(lost.map(({ date, condition }) => `${date} ${condition}`));
  return [
    ...(gaps.length === 0 ? [] : ['', table]),
    ...(failed.length === 0 ? [] : ['', ...failed.slice(-NAMED_DATES)]),
    ...(lost.length === 0 ? [] : ['', `${style.red('lost')}: ${named}`]),
    ...(accepted.length === 0 ? [] : ['', ...accepted.slice(-NAMED_DATES)]),
    ...(damaged.length === 0 ? [] : ['']),
    ...damaged.slice(-NAMED_DATES).map(({ date, damage }) => `${style.red('damaged')}: ${date}, ${damage ?? ''}`),
    ...(damaged.length <= NAMED_DATES
      ? []
      : [`${damaged.length - NAMED_DATES} more dates are damaged (--json lists them)`]),
  ];
}

export function describeRunning(
  running: RunRecord | null,
  { nowMs, style }: Pick<StatusView, 'nowMs' | 'style'>,
): readonly string[] {
  if (!running?.progress) return [];
  const { total_rows: total, seconds_left: left, date, phase, ...progress } = running.progress;
  const parts = [
    `${phase}${date === '' ? '' : ` ${date}`}${progress.dates_total > 1 ? `, ${progress.dates_done} of ${progress.dates_total} dates done` : ''}`,
    ...(total > 0 ? [`${Math.floor((100 * Math.min(running.rows, total)) / total)}%`] : []),
    `${formatCount(running.rows)}${total > 0 ? ` of ${formatCount(total)}` : ''} rows`,
    `${formatCount(progress.rows_per_second)} rows/s`,
    `${formatCount(progress.pages_left)} requests left`,
    ...(left === null ? [] : [`${formatDuration(left * 1000)} left`]),
  ];
  const since = formatSpan(nowMs - Date.parse(running.started_at));
  return [`${style.cyan('running')} for ${since}: ${parts.join(', ')} (run ${running.run_id})`];
}

const OUTCOMES: Readonly<Record<RunOutcome, string>> = {
  done: 'done',
  failed: 'failed',
  incomplete: 'incomplete',
  usage: 'failed',
  active: 'not begun',
  interrupted: 'stopped',
  died: 'died',
  'timed-out': 'timed out',
};

/** The last run, the last success if that run was none, and the last backfill. */
function describeLast(view: StatusView): readonly string[] {
  const { last_run: last, last_success: success, last_backfill: backfilled } = view.document;
  const run = last === null ? 'last run never' : describeEnd('last run', last, view);
  const isGood = last === null || last.outcome === 'done';
  const backfill = backfilled !== null && describeBackfill(backfilled, view);
  // A run that was cut short has its own line, because its message may fill it.
  if (backfill && isGood && backfilled.error === null) return [`${run}; ${backfill}`];
  const good = success === null ? 'none on record' : describeAgo(success, view);
  return [run, !isGood && `last success ${good}`, backfill].filter((line) => line !== false);
}

function describeBackfill(backfill: RunRecord, view: StatusView): string {
  if (backfill.error !== null) return describeEnd('last backfill', backfill, view);
  return `last backfill ${describeAgo(endOf(backfill), view)}`;
}

function describeEnd(what: string, run: RunRecord, view: StatusView): string {
  return run.error === null ? `${what} ${describeFinished(run, view)}` : describeCut(what, run, view);
}

/** One line, so that a long message does not push the calendar off the screen. */
function describeCut(what: string, run: RunRecord, view: StatusView): string {
  const head = `${what} ${formatSpan(view.nowMs - Date.parse(endOf(run)))} ago: `;
  const { outcome, error } = run;
  const word = describeOutcome(outcome);
  // The person who stopped it knows why.
  const why = error === null || outcome === 'interrupted' ? '' : escapeText(`: ${error.code}: ${error.message}`);
  const room = (view.width ?? Number.POSITIVE_INFINITY) - head.length - word.length;
  return `${head}${view.style.red(word)}${cutText(why, Math.max(1, room))}`;
}

function describeFinished(run: RunRecord, { nowMs, style }: StatusView): string {
  const { outcome, dates, requests, started_at: start } = run;
  const sealed = sumSealed(run);
  const took = formatDuration(Date.parse(endOf(run)) - Date.parse(start));
  const word = describeOutcome(outcome);
  const end = outcome === 'done' ? style.green(word) : style.red(word);
  const what =
    dates.length === 0
      ? 'nothing to seal'
      : `sealed ${sealed.dates} of ${dates.length} date(s), ${formatCount(sealed.rows)} rows`;
  return `${describeAgo(endOf(run), { nowMs })}: ${end}, ${what}, ${formatCount(requests)} requests in ${took}`;
}

export function describeOutcome(outcome: RunRecord['outcome']): string {
  return outcome === null ? 'running' : OUTCOMES[outcome];
}

function describeAgo(at: string, { nowMs }: Pick<StatusView, 'nowMs'>): string {
  return `${formatSpan(nowMs - Date.parse(at))} ago (${formatInstant(at, EXCHANGE_TIME_ZONE, nowMs)})`;
}

function describeNext({ document, timezone, nowMs }: StatusView): string {
  if (document.next_run === null || timezone === undefined) return 'by hand';
  const atMs = Date.parse(document.next_run);
  return `in ${formatSpan(atMs - nowMs)} (${formatInstant(atMs, timezone, nowMs)})`;
}

function formatExpiry(at: string | null, nowMs: number): string {
  return at === null ? '' : formatInstant(at, EXCHANGE_TIME_ZONE, nowMs);
}
