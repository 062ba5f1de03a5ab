/**
 * A plan as a document, and as tables for people that fit into 80 cells. Invariant: both have the same facts, and a
 * date that would be lost is marked by a word, not only by a color. Pure.
 */

import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatWallDate } from '../calendar/wall-clock.ts';
import { formatDayTime, formatInstant, formatSpan, formatTime } from '../core/date-text.ts';
import { formatBytes, formatCount, formatDuration } from '../core/units.ts';
import type { DatePrice } from '../plan/price.ts';
import type { PlanDate, PlanDocument, PlanTotal } from '../state/documents.ts';
import { PLAIN_STYLE, type Style } from './terminal/color.ts';
import { formatTable, type TableColumn } from './terminal/text-table.ts';

/** A date for the document. @param nowMs when the plan starts */
export function describeDate(price: DatePrice, nowMs: number): PlanDate {
  const { date, rows, isCounted, requests, seconds, bytes, expiresAtMs, doneAtMs, isLost } = price;
  const mayExpire = Number.isFinite(expiresAtMs);
  const leftMs = Math.max(0, expiresAtMs - nowMs);
  return {
    ...{ date, rows: rows ?? null, estimated: !isCounted, requests, seconds, bytes },
    done_at: new Date(doneAtMs).toISOString(),
    expires: mayExpire ? new Date(expiresAtMs).toISOString() : null,
    share_of_budget: mayExpire && leftMs > 0 ? (doneAtMs - nowMs) / leftMs : mayExpire ? 1 : null,
    expires_before_turn: isLost,
  };
}

export function totalDates(dates: readonly PlanDate[]): PlanTotal {
  const sum = (pick: (date: PlanDate) => number) => dates.reduce((total, date) => total + pick(date), 0);
  const shares = dates.flatMap(({ share_of_budget: share }) => (share === null ? [] : [share]));
  return {
    dates: dates.length,
    rows: dates.every(({ rows }) => rows !== null) ? sum(({ rows }) => rows ?? 0) : null,
    estimated: dates.some(({ estimated }) => estimated),
    requests: sum(({ requests }) => requests),
    seconds: sum(({ seconds }) => seconds),
    bytes: sum(({ bytes }) => bytes),
    done_at: dates.map(({ done_at: doneAt }) => doneAt).reduce<string | null>(pickLater, null),
    share_of_budget: shares.length > 0 ? Math.max(...shares) : null,
    too_late: dates.filter(({ expires_before_turn: isLost }) => isLost).length,
  };
}

function pickLater(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b;
  return a > b ? a : b;
}

const right = 'right' as const;

const NUMBERS: readonly TableColumn[] = [
  { title: 'rows', align: right },
  { title: 'requests', align: right },
  { title: 'time', align: right },
  { title: 'done (ET)', align: right },
  { title: 'budget', align: right },
];

const TOO_LATE = 'TOO LATE';

/** A plan as a table of its dates with their total, and an explanation. */
export function describePlan(plan: PlanDocument, style: Style = PLAIN_STYLE): string {
  const nowMs = Date.parse(plan.server_time);
  const rows = plan.dates.map((date) => [
    date.date,
    formatRows(date.rows, date.estimated),
    formatCount(date.requests),
    formatClock(date.seconds),
    formatDone(date.done_at, nowMs),
    date.expires_before_turn ? style.red(TOO_LATE) : formatShare(date.share_of_budget),
    date.expires === null ? 'never' : `in ${formatSpan(Date.parse(date.expires) - nowMs)}`,
  ]);
  const { total } = plan;
  const last = ['total', ...formatTotal(total, nowMs, style), ''].map((cell) => style.bold(cell));
  const facts = [
    ...(plan.lookback_edge === ''
      ? []
      : [`lookback from ${formatDayTime(`${plan.lookback_edge.replace(' ', 'T')}Z`, 'UTC')} ET`]),
    ...(plan.row_limit === null ? [] : [`${formatCount(plan.row_limit)} rows per page`]),
    `${countDates(plan.sealed)} sealed already`,
  ];
  const lines = [style.bold(plan.job), ...facts.map((fact) => `  ${fact}`)];
  if (plan.earliest_date !== '') lines.push(`  dates before ${plan.earliest_date} have expired or are incomplete`);
  if (plan.without_rows.length > 0) lines.push(`  no rows at the source: ${describeDates(plan.without_rows)}`);
  for (const { date, reason } of plan.held) lines.push(`  ${date} held back: ${reason}`);
  if (plan.dates.length === 0) return `${[...lines, '', 'Nothing to fetch.'].join('\n')}\n`;
  const table = formatTable([{ title: 'date' }, ...NUMBERS, { title: 'expires' }], [...rows, last], {
    paintTitles: style.bold,
  });
  lines.push('', table, '', describeTransfer(total));
  const first = plan.dates.flatMap(({ expires }) => expires ?? []).sort()[0];
  if (first !== undefined)
    lines.push(
      'budget: share of the requests available before the date expires.',
      `The first date begins to expire ${formatInstant(first, EXCHANGE_TIME_ZONE, plan.server_time)}.`,
    );
  if (total.estimated) lines.push('~ estimate: as many as on the last date.');
  if (total.too_late > 0) {
    lines.push(
      style.red(`${TOO_LATE}: ${countDates(total.too_late)} would begin to expire before it is completely fetched.`),
      'A run fetches the soonest expiry first: start it now, or raise FLOWDROP_REQUESTS_PER_SECOND if the key allows it.',
    );
  }
  return `${lines.join('\n')}\n`;
}

/** The totals of several plans, one after the other if they share a budget. */
export function describePlans(plans: readonly PlanDocument[], total: PlanTotal, style: Style = PLAIN_STYLE): string {
  const nowMs = Date.parse(plans[0]?.server_time ?? '');
  const row = (name: string, sums: PlanTotal) => [name, formatCount(sums.dates), ...formatTotal(sums, nowMs, style)];
  const rows = plans.map((plan) => row(plan.job, plan.total));
  const columns: readonly TableColumn[] = [{ title: 'job' }, { title: 'dates', align: right }, ...NUMBERS];
  const last = row('total', total).map((cell) => style.bold(cell));
  return `${formatTable(columns, [...rows, last], { paintTitles: style.bold, width: TABLE_WIDTH })}\n`;
}

/** Every terminal has this width. */
const TABLE_WIDTH = 80;

function formatTotal(total: PlanTotal, nowMs: number, style: Style): readonly string[] {
  return [
    total.dates === 0 ? '' : formatRows(total.rows, total.estimated),
    formatCount(total.requests),
    formatClock(total.seconds),
    total.done_at === null ? '' : formatDone(total.done_at, nowMs),
    total.too_late > 0 ? style.red(`${total.too_late} LATE`) : formatShare(total.share_of_budget),
  ];
}

function describeTransfer({ seconds, bytes, dates }: PlanTotal): string {
  const size = bytes === 0 ? '' : `, ${formatBytes(bytes)} of JSON before compression`;
  return `${countDates(dates)} in ${formatDuration(seconds * 1000)}${size}.`;
}

function countDates(count: number): string {
  return `${formatCount(count)} ${count === 1 ? 'date' : 'dates'}`;
}

function formatRows(rows: number | null, estimated: boolean): string {
  return rows === null ? '?' : `${estimated ? '~' : ''}${formatCount(rows)}`;
}

/** `0:07`, `12:30`, `2:05:10`: narrower than words, in a column of its own. */
function formatClock(seconds: number): string {
  const whole = seconds > 0 ? Math.max(1, Math.round(seconds)) : 0;
  const two = (value: number) => String(value).padStart(2, '0');
  const minutes = Math.floor(whole / 60);
  const rest = two(whole % 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${rest}`;
}

/** `06:55`, or on another day `Nov 23, 02:10`. */
function formatDone(instant: string, nowMs: number): string {
  const isToday = formatWallDate(Date.parse(instant)) === formatWallDate(nowMs);
  return (isToday ? formatTime : formatDayTime)(instant, EXCHANGE_TIME_ZONE);
}

function formatShare(share: number | null): string {
  if (share === null) return '';
  const percent = share * 100;
  return percent > 0 && percent < 1 ? '<1%' : `${Math.round(percent)}%`;
}

/** Most dates that are listed one by one; above that, only the first and the last. */
const MAX_NAMED = 4;

function describeDates(dates: readonly string[]): string {
  if (dates.length <= MAX_NAMED) return dates.join(', ');
  return `${countDates(dates.length)}, ${dates[0]} to ${dates.at(-1)}`;
}
