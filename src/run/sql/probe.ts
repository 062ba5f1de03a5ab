/**
 * Asking the source for counts: as broadly as it allows, in parts where it does not. One request usually answers for
 * every date of the lookback, because the whole answer is one row of arrays.
 */
import { type Axis, DAY_END, DAY_START, type Stretch } from '../../calendar/window.ts';
import { Fault, isFault } from '../../core/errors.ts';
import type { SqlJob } from '../../job/job.ts';
import { type CellCount, compareCells, type DayCounts } from '../../plan/counts.ts';
import { cutStretch } from '../../plan/profile.ts';
import { buildGroupProbe, buildProbe, canCutBySymbol, type ProbeSpan } from '../../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../../source/source.ts';
import type { Learnt } from '../learnt.ts';
import { assertCountedOnce } from './own-sql.ts';
import { countDatesAtOnce, planSpans, profileOf, ScanTrial } from './scan.ts';

export interface ProbeDeps {
  readonly source: Source;
  readonly learnt: Learnt;
  readonly signal?: AbortSignal | undefined;
}

type BuildSql = (job: SqlJob, span: ProbeSpan) => string;

/**
 * Counts of raw rows by cell of each date, in as few requests as the source allows. Dates without rows are absent; dates
 * with rows between the first and the last one asked for may be there unasked, whatever the calendar says of them.
 * @returns `undefined` when so many dates at once are too much: then each is asked for by itself, when its turn comes
 * @throws SourceFault
 */
export async function probeDates(
  deps: ProbeDeps,
  job: SqlJob,
  dates: readonly string[],
): Promise<ReadonlyMap<string, DayCounts> | undefined> {
  const [first] = dates;
  const last = dates.at(-1);
  if (first === undefined || last === undefined) return new Map();
  if (dates.length > countDatesAtOnce(deps.learnt)) return undefined;
  if (dates.length === 1) return withRows(first, await probeRows(deps, job, first));
  const span: ProbeSpan = {
    fromDate: first,
    toDate: last,
    from: DAY_START,
    to: DAY_END,
    axis: 'time',
    edges: deps.learnt.day_edges,
  };
  const found = await askCounts(deps, buildProbe(job, span), span);
  return found;
}

function withRows(date: string, counts: DayCounts): ReadonlyMap<string, DayCounts> {
  return counts.length === 0 ? new Map() : new Map([[date, counts]]);
}

/** Counts of raw rows by cell of one date. @throws SourceFault; Fault `SCAN_TOO_BROAD`, `TIME_UNREADABLE` */
export async function probeRows(deps: ProbeDeps, job: SqlJob, date: string): Promise<DayCounts> {
  return await withEdges(deps.learnt, async () => {
    const trial = new ScanTrial(deps.learnt, grainOf(job), canCutBySymbol(job));
    const counts = await probe(deps, job, date, buildProbe, trial);
    trial.learn(counts);
    return counts;
  });
}

/**
 * Where not even the smallest part of a date may be counted, the server may find rows by nothing but their time: it is
 * asked once more with both ends of the day said.
 */
async function withEdges(learnt: Learnt, count: () => Promise<DayCounts>): Promise<DayCounts> {
  try {
    return await count();
  } catch (error) {
    if (learnt.day_edges === 'closed' || !isFault(error) || error.code !== 'SCAN_TOO_BROAD') throw error;
  }
  learnt.day_edges = 'closed';
  try {
    return await count();
  } catch (error) {
    learnt.day_edges = 'open';
    throw error;
  }
}

/** Counts of an aggregating job's groups by cell of one date. @throws SourceFault; Fault `SCAN_TOO_BROAD`, `GROUP_TORN` */
export async function probeGroups(deps: ProbeDeps, job: SqlJob, date: string): Promise<DayCounts> {
  const trial = new ScanTrial(deps.learnt, grainOf(job), canCutBySymbol(job));
  const groups = await probe(deps, job, date, buildGroupProbe, trial);
  assertCountedOnce(job, date, groups);
  return groups;
}

/**
 * Counts of raw rows by second of one symbol, to find what differs in it.
 * @param parts its cells as they were counted last: so much of it at once is allowed
 * @throws SourceFault; Fault `SCAN_TOO_BROAD`
 */
export async function probeSymbol(
  deps: ProbeDeps,
  job: SqlJob,
  date: string,
  symbol: string,
  parts: DayCounts,
): Promise<DayCounts> {
  const found: CellCount[] = [];
  const seconds = parts.map(({ second }) => second);
  let left: readonly Stretch[] = seconds.map((second, at) => ({
    from: { second },
    to: { second: seconds[at + 1] ?? DAY_END.second },
  }));
  const profile = profileOf(deps.learnt, 'time');
  for (let [stretch] = left; stretch !== undefined; [stretch] = left) {
    left = left.slice(1);
    const inSymbol = { from: { symbol, ...stretch.from }, to: { symbol, ...stretch.to } };
    const edges = deps.learnt.day_edges;
    const span: ProbeSpan = { fromDate: date, toDate: date, ...inSymbol, axis: 'time', edges };
    const counts = await askCounts(deps, buildProbe(job, span), span);
    if (counts === undefined) {
      const halves = cutStretch(profile, stretch, 2, 1);
      left = halves.length > 1 ? [...halves, ...left] : refuse(date, inSymbol);
    } else found.push(...(counts.get(date) ?? []).map((cell) => ({ ...cell, symbol })));
  }
  return found.sort(compareCells);
}

function grainOf({ source }: SqlJob): number {
  return source.kind === 'aggregate' ? source.grainSeconds : 1;
}

async function probe(
  deps: ProbeDeps,
  job: SqlJob,
  date: string,
  build: BuildSql,
  trial: ScanTrial,
): Promise<DayCounts> {
  let found: CellCount[] = [];
  let left = planSpans(deps.learnt, grainOf(job), canCutBySymbol(job));
  for (let [stretch] = left; stretch !== undefined; [stretch] = left) {
    left = left.slice(1);
    const axis = axisFor(stretch, trial);
    const span: ProbeSpan = { fromDate: date, toDate: date, ...stretch, axis, edges: deps.learnt.day_edges };
    const counts = await askCounts(deps, build(job, span), span);
    if (counts === undefined) {
      const before = trial.axis;
      left = trial.noteRefused(stretch, left) ?? refuse(date, stretch);
      // The other axis begins anew: what was counted along this one cannot be put together with it.
      if (trial.axis !== before) found = [];
    } else {
      const cells = counts.get(date) ?? [];
      found.push(...cells);
      left = trial.notePassed(
        stretch,
        cells.reduce((sum, { rows }) => sum + rows, 0),
        left,
      );
    }
  }
  return found.sort(compareCells);
}

/** A whole day is counted by second where that is allowed, whatever the axis. */
function axisFor(stretch: Stretch, trial: ScanTrial): Axis {
  return stretch.from.symbol !== undefined || stretch.to.symbol !== undefined ? 'symbol' : trial.axis;
}

function refuse(date: string, { from, to }: Stretch): never {
  const where = from.symbol === undefined ? '' : ` of ${from.symbol}`;
  throw new Fault(
    'SCAN_TOO_BROAD',
    `the API refuses even to count seconds ${from.second} to ${to.second}${where} on ${date}`,
    { hint: "Narrow the job, for instance with `where: symbol = 'SPY'`, and make several of it." },
  );
}

/** An answer that is whole JSON and no probe's lost something on its way: it is asked for again, so often in all. */
const MAX_ODD_ANSWERS = 3;

/** @returns `undefined` when the query was too broad, or its one row did not fit into an answer */
async function askCounts(
  deps: ProbeDeps,
  sql: string,
  span: ProbeSpan,
): Promise<ReadonlyMap<string, CellCount[]> | undefined> {
  for (let odd = 1; ; odd += 1) {
    let page: Page;
    try {
      page = await deps.source.ask(sql, deps.signal ? { signal: deps.signal } : {});
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
      if (span.fromDate !== span.toDate) deps.learnt.refused_rows ??= Number.MAX_SAFE_INTEGER;
      return undefined;
    }
    if (page.meta) deps.learnt.row_limit = page.meta.row_limit;
    if (page.meta?.truncated) return undefined;
    try {
      return readCounts(page, span);
    } catch (error) {
      if (!isFault(error) || error.code !== 'ANSWER_MALFORMED' || odd === MAX_ODD_ANSWERS) throw error;
    }
  }
}

/** Probe answers are small: they are parsed. @throws Fault `ANSWER_MALFORMED`, `TIME_UNREADABLE` */
function readCounts(page: Page, span: ProbeSpan): ReadonlyMap<string, CellCount[]> {
  const [row] = JSON.parse(Buffer.from(page.data).toString('utf8')) as readonly Record<string, unknown>[];
  const [dates, cells, counts, ids, marks] = ['dates', 'cells', 'counts', 'ids', 'marks'].map((name) => row?.[name]);
  const malformed = () =>
    new Fault(
      'ANSWER_MALFORMED',
      `the answer to a probe is not in shape: ${String(JSON.stringify(row)).slice(0, 200)}`,
    );
  const days = readTexts(dates);
  if (!days || ![cells, counts, ids, marks].every(Array.isArray)) throw malformed();
  assertReadable(row?.['unreadable'], span);
  const found = days.map((date, at): [string, CellCount[]] => {
    const of = (lists: unknown) => (lists as readonly unknown[])[at]; // Arrays, as was just seen.
    const [c, n, u, m] = [readTexts(of(cells)), readNumbers(of(counts)), readNumbers(of(ids)), readTexts(of(marks))];
    if (!c || !n || !u || !m || [n, u, m].some((list) => list.length !== c.length)) throw malformed();
    const day = c.map((cell, place): CellCount => {
      const values = { rows: n[place] ?? 0, ids: u[place] ?? 0, mark: m[place] ?? '' };
      if (span.axis === 'symbol') return { symbol: cell, second: startsIn(span, cell), ...values };
      return { second: Number(cell), ...values };
    });
    if (span.axis === 'time' && day.some(({ second }) => !Number.isInteger(second))) throw malformed();
    return [date, day];
  });
  return new Map(found);
}

/** Without a second rows lie in no window: those of 09:30 come before 09:30:00 by their text, and are counted in it. */
function assertReadable(time: unknown, { fromDate, toDate }: ProbeSpan): void {
  if (typeof time !== 'string' || time === '') return;
  const when = fromDate === toDate ? fromDate : `${fromDate} to ${toDate}`;
  throw new Fault('TIME_UNREADABLE', `rows of ${when} have the time ${time}, which is not YYYY-MM-DD HH:MM:SS`, {
    hint: 'Without the second nothing can be cut into windows, so nothing was fetched. In SQL of your own return `time` as the table has it; else tell the provider, whose contract promises that form.',
  });
}

/** The first symbol of a span may begin in the middle of its day. */
function startsIn({ from }: ProbeSpan, symbol: string): number {
  return from.symbol === symbol ? from.second : 0;
}

function readTexts(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const fits = value.every((item) => typeof item === 'string' || typeof item === 'number');
  return fits ? value.map(String) : undefined;
}

/** 64-bit counts may come as strings. */
function readNumbers(value: unknown): number[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const numbers = value.map(Number);
  return numbers.every(Number.isFinite) ? numbers : undefined;
}
