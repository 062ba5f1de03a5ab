/**
 * Asking the source for counts: as wide as it allows, halved where it does not. One request usually answers for every
 * date of the lookback, because the whole answer is one row of arrays.
 */
import { SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { DayCounts, SecondCount } from '../plan/counts.ts';
import { buildGroupProbe, buildProbe, type ProbeSpan } from '../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../source/source.ts';
import type { Learnt } from './learnt.ts';

export interface ProbeDeps {
  readonly source: Source;
  readonly learnt: Learnt;
  readonly signal?: AbortSignal | undefined;
}

type BuildSql = (job: Job, span: ProbeSpan) => string;

/**
 * Counts of raw rows per second of each date. Dates without rows are absent; dates with rows between the first and the
 * last one asked for may be there unasked, whatever the calendar says of them.
 * @throws SourceFault
 */
export async function probeRows(
  deps: ProbeDeps,
  job: Job,
  dates: readonly string[],
): Promise<ReadonlyMap<string, DayCounts>> {
  return await probe(deps, job, dates, buildProbe, 1);
}

/** Counts of an aggregating job's groups per grain of one date. @throws SourceFault */
export async function probeGroups(deps: ProbeDeps, job: Job, date: string): Promise<DayCounts> {
  const grainSeconds = job.source.kind === 'aggregate' ? job.source.grainSeconds : 1;
  return (await probe(deps, job, [date], buildGroupProbe, grainSeconds)).get(date) ?? [];
}

async function probe(
  deps: ProbeDeps,
  job: Job,
  dates: readonly string[],
  build: BuildSql,
  grainSeconds: number,
): Promise<ReadonlyMap<string, DayCounts>> {
  const found = new Map<string, SecondCount[]>();
  const queue = firstSpans(dates, deps.learnt, grainSeconds);
  for (let span = queue.shift(); span; span = queue.shift()) {
    const halves = await probeSpan(deps, job, span, build, grainSeconds, found);
    if (halves) queue.unshift(...halves);
  }
  for (const counts of found.values()) counts.sort((a, b) => a.second - b.second);
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Asks one span; returns its halves when it was too much for the source. */
async function probeSpan(
  deps: ProbeDeps,
  job: Job,
  span: DateSpan,
  build: BuildSql,
  grainSeconds: number,
  found: Map<string, SecondCount[]>,
): Promise<readonly DateSpan[] | undefined> {
  let page: Page;
  try {
    page = await deps.source.ask(build(job, span), deps.signal ? { signal: deps.signal } : {});
  } catch (error) {
    if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
    return halve(span, deps.learnt, grainSeconds, error);
  }
  if (page.meta) deps.learnt.row_limit = page.meta.row_limit;
  if (page.meta?.truncated) return halve(span, deps.learnt, grainSeconds, undefined);
  for (const { date, counts } of readCounts(page)) found.set(date, [...(found.get(date) ?? []), ...counts]);
  return undefined;
}

interface DateSpan extends ProbeSpan {
  readonly dates: readonly string[];
}

/** Spans end between grains: a group counted in two halves would count twice. */
function firstSpans(dates: readonly string[], learnt: Learnt, grainSeconds: number): DateSpan[] {
  const spans: DateSpan[] = [];
  for (let at = 0; at < dates.length; at += learnt.probe_dates)
    spans.push(...spanOf(dates.slice(at, at + learnt.probe_dates)));
  const step = Math.max(grainSeconds, Math.floor(learnt.probe_seconds / grainSeconds) * grainSeconds);
  if (step >= SECONDS_PER_DAY) return spans;
  return spans.flatMap((span) => {
    const parts: DateSpan[] = [];
    for (let from = 0; from < SECONDS_PER_DAY; from += step) {
      parts.push({ ...span, fromSecond: from, toSecond: Math.min(SECONDS_PER_DAY, from + step) });
    }
    return parts;
  });
}

function spanOf(dates: readonly string[]): readonly DateSpan[] {
  const [from] = dates;
  const to = dates.at(-1);
  return from === undefined || to === undefined ? [] : [{ dates, from, to, fromSecond: 0, toSecond: SECONDS_PER_DAY }];
}

/** Dates first, then the day: so every date is still asked with as few requests as the limit allows. */
function halve(
  span: DateSpan,
  learnt: Learnt,
  grainSeconds: number,
  cause: SourceFault | undefined,
): readonly DateSpan[] {
  const { dates, fromSecond, toSecond } = span;
  if (dates.length > 1) {
    const middle = Math.ceil(dates.length / 2);
    learnt.probe_dates = Math.min(learnt.probe_dates, middle);
    return [...spanOf(dates.slice(0, middle)), ...spanOf(dates.slice(middle))];
  }
  const seconds = toSecond - fromSecond;
  const half = Math.ceil(seconds / 2 / grainSeconds) * grainSeconds;
  if (half >= seconds) {
    throw new Fault(
      'SCAN_TOO_BROAD',
      `the API refuses even to count ${seconds} s of ${span.from} (from second ${fromSecond})`,
      {
        cause,
        hint: 'Narrow the job, for instance with `where: symbol IN (...)`.',
      },
    );
  }
  learnt.probe_seconds = Math.min(learnt.probe_seconds, half);
  return [
    { ...span, toSecond: fromSecond + half },
    { ...span, fromSecond: fromSecond + half },
  ];
}

/** Probe answers are small: they are parsed. @throws Fault `ANSWER_MALFORMED` */
function readCounts(page: Page): readonly { date: string; counts: readonly SecondCount[] }[] {
  const [row] = JSON.parse(Buffer.from(page.data).toString('utf8')) as readonly Record<string, unknown>[];
  const [dates, seconds, counts, ids] = ['dates', 'seconds', 'counts', 'ids'].map((name) => row?.[name]);
  const malformed = () =>
    new Fault(
      'ANSWER_MALFORMED',
      `the answer to a probe is not in shape: ${String(JSON.stringify(row)).slice(0, 200)}`,
    );
  if (![dates, seconds, counts, ids].every(Array.isArray)) throw malformed();
  return (dates as readonly unknown[]).map((date, at) => {
    const [s, c, i] = [seconds, counts, ids].map((lists) => readNumbers((lists as readonly unknown[])[at]));
    if (typeof date !== 'string' || !s || !c || !i || c.length !== s.length || i.length !== s.length) throw malformed();
    return { date, counts: s.map((second, place) => ({ second, rows: c[place] ?? 0, ids: i[place] ?? 0 })) };
  });
}

/** 64-bit counts may come as strings. */
function readNumbers(value: unknown): number[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const numbers = value.map(Number);
  return numbers.every(Number.isFinite) ? numbers : undefined;
}
