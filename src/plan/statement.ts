/**
 * The SQL that a job sends: probes, cuts and pages. Pure text. It uses only what holds whether the server keeps `date`
 * and `time` as strings or as dates, and asks for aggregates in arrays, so that one answer row carries a whole day
 * whatever the row limit is.
 */
import { addDays, formatSecond, SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import type { Bound, Window } from '../calendar/window.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { secondOfDaySql } from '../engine/wall-clock.ts';
import type { Job } from '../job/job.ts';
import type { CutRequest } from './pack.ts';

/** Dates `[from, to]`, both included, and seconds `[fromSecond, toSecond)` of each. */
export interface ProbeSpan {
  readonly from: string;
  readonly to: string;
  readonly fromSecond: number;
  readonly toSecond: number;
}

/** A server may keep `time` as text or as a date with time. */
const SECOND_OF_DAY = secondOfDaySql('toString(time)');

/**
 * Counts by second of the dates of a span. Answer: one row in all, so that no row limit can cut it short unseen:
 * `{dates: string[], seconds: int[][], counts: int[][], ids: int[][]}`, one inner array a date, ascending by second.
 */
export function buildProbe(job: Job, span: ProbeSpan): string {
  const { table } = job.source;
  const where = [spanCondition(span), ...extraCondition(job)].join(' AND ');
  const perSecond = `SELECT toString(date) AS day, ${SECOND_OF_DAY} AS second, count() AS n, uniqExact(id) AS u FROM ${table} WHERE ${where} GROUP BY day, second ORDER BY day, second`;
  return gatherDays(perSecond);
}

/** Groups by grain that an aggregating job's own SQL gives. Answer as of `buildProbe`, for one date. */
export function buildGroupProbe(job: Job, span: ProbeSpan): string {
  if (job.source.kind !== 'aggregate') throw new TypeError('only aggregating jobs have groups');
  const time = quoteIdentifier(job.source.timeColumn);
  const second = secondOfDaySql(`toString(${time})`);
  const inner = fillWindow(job.source.sql, spanCondition(span));
  const perGrain = `SELECT substring(toString(${time}), 1, 10) AS day, ${job.source.grainSeconds >= SECONDS_PER_DAY ? '0' : second} AS second, count() AS n, count() AS u FROM (${inner}) GROUP BY day, second ORDER BY day, second`;
  return gatherDays(perGrain);
}

/** Rows `(day, second, n, u)` in order -> one row of arrays. */
function gatherDays(ordered: string): string {
  const perDay = `SELECT day, groupArray(second) AS s, groupArray(n) AS c, groupArray(u) AS i FROM (${ordered}) GROUP BY day ORDER BY day`;
  return `SELECT groupArray(day) AS dates, groupArray(s) AS seconds, groupArray(c) AS counts, groupArray(i) AS ids FROM (${perDay})`;
}

/**
 * The ids at the given ranks of each second, in the ids' byte order. Answer: one row `{seconds: int[], ids: string[][]}`.
 * @param cuts ranks of one second are `limit` apart, as the packing makes them
 */
export function buildCut(job: Job, date: string, cuts: readonly CutRequest[], limit: number): string {
  const first = Math.min(...cuts.map((cut) => cut.second));
  const last = Math.max(...cuts.map((cut) => cut.second));
  const times = cuts.map((cut) => quoteString(formatTime(date, cut.second)));
  const seconds = cuts.map((cut) => cut.second).join(', ');
  const ranks = cuts.map((cut) => cut.ranks[0]).join(', ');
  const where = [
    spanCondition({ from: date, to: date, fromSecond: first, toSecond: last + 1 }),
    `time IN (${times.join(', ')})`,
    ...extraCondition(job),
  ].join(' AND ');
  const sorted = `SELECT ${SECOND_OF_DAY} AS second, arraySort(groupArray(id)) AS sorted FROM ${job.source.table} WHERE ${where} GROUP BY second`;
  const rank = `transform(second, [${seconds}], [${ranks}], 0)`;
  const found = `SELECT second, arrayFilter((x, rank) -> rank >= ${rank} AND (rank - ${rank}) % ${limit} = 0, sorted, arrayEnumerate(sorted)) AS found FROM (${sorted}) ORDER BY second`;
  return `SELECT groupArray(second) AS seconds, groupArray(found) AS ids FROM (${found})`;
}

/** The id in the middle of a window inside one second. Answer: one row `{rows, middle}`. */
export function buildMiddle(job: Job, window: Window): string {
  const where = [windowCondition(window), ...extraCondition(job)].join(' AND ');
  return `SELECT count() AS rows, arraySort(groupArray(id))[intDiv(count(), 2) + 1] AS middle FROM ${job.source.table} WHERE ${where}`;
}

/** The rows of a window. */
export function buildPage(job: Job, window: Window): string {
  const condition = windowCondition(window);
  if (job.source.kind === 'aggregate') return fillWindow(job.source.sql, condition);
  const columns = job.source.columns.map((column) => column.name).join(', ');
  return `SELECT ${columns} FROM ${job.source.table} WHERE ${[condition, ...extraCondition(job)].join(' AND ')}`;
}

/** The condition of a window on `date`, `time` and, where it is cut inside a second, `id`. */
export function windowCondition({ date, from, to }: Window): string {
  const conditions = [`date = ${quoteString(date)}`, `time >= ${quoteString(formatTime(date, from.second))}`];
  if (from.id !== undefined) {
    conditions.push(`(time > ${quoteString(formatTime(date, from.second))} OR id >= ${quoteString(from.id)})`);
  }
  conditions.push(...upperCondition(date, to));
  return conditions.join(' AND ');
}

function upperCondition(date: string, to: Bound): readonly string[] {
  const time = quoteString(formatTime(date, to.second));
  if (to.id === undefined) return [`time < ${time}`];
  return [`time <= ${time}`, `(time < ${time} OR id < ${quoteString(to.id)})`];
}

function spanCondition({ from, to, fromSecond, toSecond }: ProbeSpan): string {
  const dates =
    from === to ? `date = ${quoteString(from)}` : `date >= ${quoteString(from)} AND date <= ${quoteString(to)}`;
  return `${dates} AND time >= ${quoteString(formatTime(from, fromSecond))} AND time < ${quoteString(formatTime(to, toSecond))}`;
}

function extraCondition(job: Job): readonly string[] {
  return job.source.kind === 'rows' && job.source.where !== '' ? [`(${job.source.where})`] : [];
}

function fillWindow(sql: string, condition: string): string {
  return sql.replaceAll('{window}', `(${condition})`);
}

/** `YYYY-MM-DD HH:MM:SS`; the end of a day is the next date's midnight. */
function formatTime(date: string, second: number): string {
  return second === SECONDS_PER_DAY ? `${addDays(date, 1)} 00:00:00` : `${date} ${formatSecond(second)}`;
}
