/**
 * What `flowdrop status` prints: of one job all that its document has, with the conditions of its dates as a calendar; of
 * many jobs a table with one line each. Pure: the time is passed in. Each condition has its own sign, so that it can be
 * read without colors.
 */
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import { isHoliday, nameHoliday } from '../../calendar/holidays.ts';
import { isSession, nameHalfDay } from '../../calendar/session.ts';
import { addDays, formatWallDate, mondayOf, weekday } from '../../calendar/wall-clock.ts';
import { formatInstant, formatNearDay, formatSpan } from '../../core/date-text.ts';
import { countOf, formatCount, formatDuration, listFirst } from '../../core/units.ts';
import { CONDITIONS, type Condition, isOpen } from '../../plan/conditions.ts';
import { expiresAt } from '../../plan/dates.ts';
import { type DateStatus, describeAccepted, describeThrough } from '../../state/documents.ts';
import { endOf, type RunOutcome, type RunRecord, sumSealed, whyFailed } from '../../state/run-record.ts';
import { cutText, escapeText, formatTable, right, type Style } from '../terminal/text.ts';
import type { readStatus } from './read.ts';

/** Older dates are summed up in one line: they rarely change, and a screen is small. */
export const SHOWN_WEEKS = 8;

/** Most dates that are listed by name, each for lost, closed, degraded and damaged ones. */
const NAMED_DATES = 10;

/** With how it is shown: without a width failures are in full, so that they can be searched. */
export type StatusView = Awaited<ReturnType<typeof readStatus>> & {
  readonly style: Style;
  readonly width?: number | undefined;
  /** All dates, not only those of the last weeks. */
  readonly all: boolean;
  /** A table of dates instead of the calendar. */
  readonly list: boolean;
};

export function describeStatus(view: StatusView): string {
  const { document, nowMs, style } = view;
  const { job, staged, last_run: last, last_backfill: backfill } = document;
  const lines = [
    `${style.bold(job)}: ${document.store}/${document.dataset}`,
    ...describeRunning(view),
    staged !== null &&
      `${staged.date} is staged to ${staged.through.slice(0, 5)} (exchange time), ${countOf(staged.rows, 'row')}`,
    last === null ? describeNever(view) : describeEnd('last run', last, view),
    last !== null && last.outcome !== 'done' && `last success ${ago(document.last_success, nowMs) ?? 'none on record'}`,
    backfill !== null && describeEnd('last backfill', backfill, view),
    describeNext(view),
    ...document.attention.map((what) => `${style.red('needs you')}: ${what}`),
    ...describeOwed(view),
    // A backfill covers its own dates only.
    last === null && backfill !== null && `Earlier dates were not requested yet: see \`flowdrop plan ${job}\`.`,
    '',
    document.fault !== null && style.red('The store could not be read; this is what the last run recorded.'),
    ...describeDates(view),
  ];
  return `${lines.filter((line) => line !== false).join('\n')}\n`;
}

/** Without a run on record, what is sealed came from somewhere else: the demo, another machine, a container. */
function describeNever({ document: { dates, last_backfill: backfill } }: StatusView): string {
  if (backfill !== null || dates.every(({ rows }) => rows === null)) return 'last run never';
  return "no run on record here: what is sealed was made with another FLOWDROP_STATE_DIR (the demo's is out/state)";
}

/** A schedule alone runs nothing: without somebody who does, it is said what to type. */
function describeNext({ document, timezone, heartbeat, nowMs }: StatusView): string {
  const { job, next_run: next, last_due: due, last_run: last, runner } = document;
  if (next === null || timezone === undefined) return 'next run by hand';
  const at = formatInstant(next, timezone, nowMs);
  const span = formatSpan(Date.parse(next) - nowMs);
  if (runner === 'daemon') return `next run in ${span} (${at})`;
  if (runner === 'timer') return `next run due in ${span} (${at}), by the timer that made the last ones`;
  const day = last && formatNearDay(formatWallDate(Date.parse(last.started_at)), formatWallDate(nowMs));
  const isMissed = last === null || (due !== null && last.started_at < due);
  const since = isMissed ? ` and no run ${day === null ? 'yet' : `since ${day}`}` : '';
  return `next run due ${at}; no daemon${heartbeat ? ' with this job' : ''}${since}: \`flowdrop start\` makes it, or a timer that types \`flowdrop run ${job}\``;
}

function describeOwed({ document, nowMs, style }: StatusView): readonly string[] {
  const { owed_events: owed, job } = document;
  if (owed === null) return [];
  const why = owed.reason === null ? '' : `: ${escapeText(owed.reason)}`;
  return [
    `${style.red('not posted')}: ${countOf(owed.count, 'event')}, the oldest ${formatSpan(nowMs - Date.parse(owed.since))} ago${why}`,
    `To try again: \`flowdrop alert ${job}\`. Each run also tries.`,
  ];
}

function describeRunning({ document: { running }, nowMs, style }: StatusView): readonly string[] {
  if (!running?.progress) return [];
  const { rows, run_id: id, started_at: start } = running;
  const { total_rows: total, seconds_left: left, date, phase, ...progress } = running.progress;
  const parts = [
    date === '' ? phase : `${phase} ${date}`,
    progress.dates_total > 1 && `${progress.dates_done} of ${progress.dates_total} dates done`,
    total > 0 && `${Math.floor((100 * Math.min(rows, total)) / total)}%`,
    `${formatCount(rows)}${total > 0 ? ` of ${formatCount(total)}` : ''} rows`,
    `${formatCount(progress.rows_per_second)} rows/s`,
    `${countOf(progress.pages_left, 'request')} left`,
    left !== null && `${formatDuration(left * 1000)} left`,
  ].filter((part) => part !== false);
  const since = formatSpan(nowMs - Date.parse(start));
  return [`${style.cyan('running')} for ${since}: ${parts.join(', ')} (run ${id})`];
}

/** Outcomes whose name is not what a person would say. */
const OUTCOMES: Readonly<Partial<Record<RunOutcome, string>>> = {
  usage: 'failed',
  interrupted: 'stopped',
  'timed-out': 'timed out',
};

/** Of a run that ended: a status has no other, and none that found another run active. */
function describeOutcome(outcome: RunRecord['outcome'], style: Style): string {
  const word = (outcome && OUTCOMES[outcome]) ?? outcome ?? '';
  return outcome === 'done' ? style.green(word) : style.red(word);
}

/** What stopped a run is in one line, so that a long message does not push the calendar off the screen. */
function describeEnd(what: string, run: RunRecord, { nowMs, style, width = Number.POSITIVE_INFINITY }: StatusView) {
  const { outcome, error, dates, requests, started_at: start } = run;
  const word = describeOutcome(outcome, style);
  if (error !== null) {
    const head = `${what} ${formatSpan(nowMs - Date.parse(endOf(run)))} ago: ${word}`;
    // The person who stopped it knows why.
    if (outcome === 'interrupted') return head;
    return cutText(`${head}: ${escapeText(`${error.code}: ${error.message}`)}`, width);
  }
  const sealed = sumSealed(run);
  const took = formatDuration(Date.parse(endOf(run)) - Date.parse(start));
  const came =
    dates.length === 0
      ? 'nothing to seal'
      : `sealed ${sealed.dates} of ${countOf(dates.length, 'date')}, ${countOf(sealed.rows, 'row')}`;
  const why = outcome === 'done' ? null : whyFailed(run);
  const line = `${what} ${ago(endOf(run), nowMs)}: ${word}, ${came}, ${countOf(requests, 'request')} in ${took}`;
  return cutText(why ? `${line}: ${escapeText(`${why.code}: ${why.message}`)}` : line, width);
}

function ago<At extends string | null>(at: At, nowMs: number) {
  return at && `${formatSpan(nowMs - Date.parse(at))} ago (${formatInstant(at, EXCHANGE_TIME_ZONE, nowMs)})`;
}

function describeDates(view: StatusView): readonly (string | false)[] {
  const { document, nowMs } = view;
  const { dates, job } = document;
  if (dates.length === 0) return [`No date is known yet: run the job, or see \`flowdrop plan ${job}\`.`];
  if (view.list) {
    const cells = dates.map(({ date, condition, rows, begins_to_expire: at }) => {
      return [date, condition, rows === null ? '' : formatCount(rows), formatExpiry(at, nowMs)];
    });
    return [formatTable(['date', 'condition', right('rows'), 'begins to expire'], cells)];
  }
  const first = view.all ? '' : addDays(mondayOf(dates.at(-1)?.date ?? ''), -7 * (SHOWN_WEEKS - 1));
  const shown = dates.filter(({ date }) => date >= first);
  const older = dates.filter(({ date }) => date < first);
  // The source decides which dates have a session: rows on a Saturday have no column in the calendar.
  const weekend = shown.filter(({ date }) => weekday(date) === 0 || weekday(date) === 6);
  const named = weekend.map(({ date, condition }) => `${date} ${condition}`);
  const sums = countConditions(older).map(([condition, count]) => `${formatCount(count)} ${condition}`);
  const listFlaws = (what: string, reasonOf: ReasonOf) =>
    listReasons(shown, reasonOf, ` ${what}: `).reverse().slice(0, NAMED_DATES);
  const isGone = ({ date }: DateStatus) => expiresAt(date) <= nowMs;
  // What comparisons with the source proved: of dates that expired, the last one.
  const equal = shown.filter(({ audit }) => audit?.result === 'equal');
  const gone = equal.filter(isGone).map(({ date }) => date);
  const open = equal.filter((date) => !isGone(date)).flatMap(({ audit }) => audit?.audited_at ?? []);
  const newest = [...open].sort().at(-1);
  return [
    ...drawCalendar(shown, view),
    named.length > 0 && `on weekends: ${named.join(', ')}`,
    sums.length > 0 && `from ${older[0]?.date} to ${older.at(-1)?.date}: ${sums.join(', ')} (--all shows them)`,
    ...listFlaws('degraded', whyDegraded),
    ...listFlaws('is sealed in part', ({ through }) => through && describeThrough(through)),
    ...listFlaws('is unusual', whyUnusual),
    ...listFlaws('has unexpected nulls', whyNull),
    newest !== undefined && `equal to the source: ${countOf(open.length, 'date')}, compared ${ago(newest, nowMs)}`,
    gone.length > 0 && `equal to the source when it expired: ${listFirst(gone.reverse(), NAMED_DATES)}`,
    ...listFlaws('differs from the source', (date) => !isGone(date) && whyDifferent(date)),
    ...listFlaws('differed from the source when it expired', (date) => isGone(date) && whyDifferent(date)),
    ...describeGaps(view),
  ];
}

/** How many dates have each condition, of those that any has. */
function countConditions(dates: readonly DateStatus[]): readonly (readonly [Condition, number])[] {
  const count = (one: Condition) => dates.filter(({ condition }) => condition === one).length;
  return CONDITIONS.map((one) => [one, count(one)] as const).filter(([, found]) => found > 0);
}

const SIGNS: Readonly<Record<Condition, { readonly sign: string; readonly tone: keyof Style }>> = {
  available: { sign: '■', tone: 'green' },
  degraded: { sign: 'D', tone: 'yellow' },
  pending: { sign: 'P', tone: 'cyan' },
  missing: { sign: 'M', tone: 'magenta' },
  empty: { sign: '□', tone: 'dim' },
  expired: { sign: 'X', tone: 'red' },
};
const CLOSED = '·';
const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri'];

/** One week per line, with the rows sealed of it; then what the signs mean, and which weekdays are closed. */
function drawCalendar(dates: readonly DateStatus[], { calendar, style }: StatusView): readonly string[] {
  const conditions = new Map(dates.map(({ date, condition }) => [date, condition]));
  const closed: string[] = [];
  const [first = '', last = ''] = [dates[0]?.date, dates.at(-1)?.date];
  const weeks: string[] = [];
  for (let monday = mondayOf(first); monday <= last; monday = addDays(monday, 7)) {
    const signs = DAYS.map((_, day) => {
      const date = addDays(monday, day);
      const condition = conditions.get(date);
      if (condition !== undefined) return ` ${style[SIGNS[condition].tone](SIGNS[condition].sign)} `;
      if (date < first || date > last || isSession(date, calendar)) return '   ';
      closed.push(date);
      return ` ${style.dim(CLOSED)} `;
    });
    const sealed = dates.flatMap(({ date, rows }) => (mondayOf(date) === monday && rows !== null ? [rows] : []));
    const count = sealed.length === 0 ? '' : formatCount(sealed.reduce((sum, rows) => sum + rows, 0));
    weeks.push([monday, ...signs, count.padStart(14)].join('  ').trimEnd());
  }
  const legend = countConditions(dates).map(
    ([condition, count]) => `${style[SIGNS[condition].tone](SIGNS[condition].sign)} ${condition} ${count}`,
  );
  const title = style.dim(['week of   ', ...DAYS, 'rows'.padStart(14)].join('  '));
  const half = dates.flatMap(({ date }) => {
    const close = nameHalfDay(date, calendar);
    return close === undefined ? [] : [`half day, closes ${close}: ${date}`];
  });
  if (closed.length > 0) legend.push(`${style.dim(CLOSED)} closed ${closed.length}`);
  const names = closed
    .slice(-NAMED_DATES)
    .map((date) => `${date} ${(isHoliday(date) ? nameHoliday(date) : 'by a calendar exception') ?? ''}`.trimEnd());
  const shut = closed.length === 0 ? [] : [`closed: ${names.join(', ')}`];
  return [title, ...weeks, '', legend.join('   '), ...shut, ...half];
}

type ReasonOf = (date: DateStatus) => string | false | null | undefined;

const whyDegraded: ReasonOf = ({ degraded_reason: reason, accepted }) => (accepted === null ? reason : null);
const whyUnusual: ReasonOf = ({ doubts }) => doubts?.join('; ');
const whyUnsealed: ReasonOf = ({ failed }) => failed && `${failed.code}: ${failed.message}`;
const whyDamaged: ReasonOf = ({ damage }) => damage;
const whyDifferent: ReasonOf = ({ audit }) => (audit?.result === 'differs' ? audit.reason : null);
const whyNull: ReasonOf = ({ nulls = {} }) =>
  Object.entries(nulls)
    .map(([column, rows]) => `${formatCount(rows)} ${column}`)
    .join(', ');

/** One line for each date that has a reason, the newest last: flaws, which a new export may still mend, and failures. */
function listReasons(dates: readonly DateStatus[], reasonOf: ReasonOf, between: string, before = ''): string[] {
  return dates.flatMap((one) => {
    const reason = reasonOf(one);
    return reason ? [`${before}${one.date}${between}${escapeText(reason)}`] : [];
  });
}

/** Dates that nobody accepted as gaps: those that can still be fetched, by the time they have left, and those that cannot. */
function findGaps({ document, nowMs }: StatusView) {
  const unaccepted = document.dates.filter(({ accepted }) => accepted === null);
  const isOver = ({ begins_to_expire: at }: DateStatus) => at !== null && Date.parse(at) <= nowMs;
  const gaps = unaccepted
    .filter((date) => isOpen(date.condition) && !isOver(date))
    .sort((a, b) => (a.begins_to_expire ?? a.date).localeCompare(b.begins_to_expire ?? b.date));
  const lost = unaccepted.filter((date) => date.condition === 'expired' || (isOpen(date.condition) && isOver(date)));
  return { gaps, lost };
}

function describeGaps(view: StatusView): readonly string[] {
  const { document, nowMs, style } = view;
  const { gaps, lost } = findGaps(view);
  const table = formatTable(
    ['not sealed', 'condition', 'expires', 'begins to expire'],
    gaps.map(({ date, condition, begins_to_expire: at }) => [
      date,
      condition,
      at === null ? 'never' : `in ${formatSpan(Date.parse(at) - nowMs)}`,
      formatExpiry(at, nowMs),
    ]),
  );
  const list = (reasonOf: ReasonOf, between: string, before?: string) =>
    listReasons(document.dates, reasonOf, between, before).slice(-NAMED_DATES);
  const names = lost.map(({ date, condition }) => `${date} ${condition}`);
  const paragraphs = [
    gaps.length === 0 ? [] : [table],
    list(whyUnsealed, ', ', `${style.red('failed')}: `),
    lost.length === 0 ? [] : [`${style.red('lost')}: ${listFirst(names.reverse(), NAMED_DATES)}`],
    list(({ condition, accepted }) => accepted && `${condition}, ${describeAccepted(accepted)}`, ' '),
    list(whyDamaged, ', ', `${style.red('damaged')}: `),
  ];
  return paragraphs.flatMap((lines) => (lines.length === 0 ? [] : ['', ...lines]));
}

function formatExpiry(at: string | null, nowMs: number): string {
  return at === null ? '' : formatInstant(at, EXCHANGE_TIME_ZONE, nowMs);
}

/** A table with one line a job, and below it, in words, what a table cannot show. */
export function describeOverview(views: readonly StatusView[]): string {
  const columns = ['job', 'newest drop', right('to fetch'), 'expires', right('lost'), 'last run'];
  const table = formatTable(columns, views.map(formatRow), { width: views[0]?.width });
  const notes = views.flatMap((view) => describeNotes(view).map((note) => `${view.document.job}: ${note}`));
  const more = '`flowdrop status JOB` shows the calendar of a job.';
  return `${[table, '', ...notes, ...(notes.length === 0 ? [] : ['']), more].join('\n')}\n`;
}

function formatRow(view: StatusView): readonly string[] {
  const { document, nowMs, style } = view;
  const { job, dates, last_run: last } = document;
  const { gaps, lost } = findGaps(view);
  const expiry = gaps.flatMap(({ begins_to_expire: at }) => at ?? [])[0];
  return [
    job,
    dates.findLast(({ rows }) => rows !== null)?.date ?? 'none',
    gaps.length === 0 ? '' : formatCount(gaps.length),
    expiry === undefined ? '' : `in ${formatSpan(Date.parse(expiry) - nowMs)}`,
    lost.length === 0 ? '' : style.red(formatCount(lost.length)),
    last === null
      ? 'never'
      : `${describeOutcome(last.outcome, style)}, ${formatSpan(nowMs - Date.parse(endOf(last)))} ago`,
  ];
}

function describeNotes(view: StatusView): readonly string[] {
  const { document, style } = view;
  /** The number of dates with a reason, and the newest reason. */
  const sumUp = (word: string, reasonOf: ReasonOf, dates = document.dates) => {
    const found = listReasons(dates, reasonOf, ', ');
    const count = found.length === 1 ? '' : `${formatCount(found.length)} dates, the newest `;
    return found.slice(-1).map((newest) => `${word}: ${count}${newest}`);
  };
  return [
    ...describeRunning(view),
    ...document.attention.map((what) => `${style.red('needs you')}: ${what}`),
    ...describeOwed(view).slice(0, 1),
    ...sumUp(style.yellow('degraded'), (date) => (date.damage === null ? whyDegraded(date) : null)),
    // Of two weeks: an old doubt is no news.
    ...sumUp(style.yellow('unusual'), whyUnusual, document.dates.slice(-10)),
    ...sumUp(style.red('failed'), whyUnsealed),
    ...sumUp(style.red('damaged'), whyDamaged),
  ];
}
