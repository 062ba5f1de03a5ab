/**
 * Asks the source for counts: as broadly as it allows, otherwise in parts. One request usually covers every date of the
 * lookback, because the whole answer is one row of arrays. A recount proves ids and values, ids alone, or counts alone: what
 * the source refuses to hash, or writes in another form than it hashes, is remembered with the hashed columns and logged once.
 * An answer with any malformed or impossible member is refused, because plans loop over as many rows as the counts say.
 */
import { isDate } from '../../calendar/wall-clock.ts';
import { axisOfStretch, DAY_END, DAY_START, formatWindow, type Stretch } from '../../calendar/window.ts';
import { Fault, isFault } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import type { HashedColumn } from '../../engine/row-hash.ts';
import { isUpdateMark } from '../../engine/update-mark.ts';
import type { SqlJob } from '../../job/job.ts';
import { compareCells, cutStretch, keyOf, readCell } from '../../plan/axis.ts';
import {
  type CellCount,
  type DayCounts,
  MAX_CELL_SECOND,
  MAX_DATE_ROWS,
  readCount,
  sumCounts,
} from '../../plan/counts.ts';
import { bestProof, listHashedColumns, nextProof, type Proof, weakerProof } from '../../plan/proof.ts';
import { buildJoinedProbe, buildProbe, type Counted, GROUP_PREFIX, type ProbeSpan } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import { MAX_PAGE_ROWS, type Page, SourceFault } from '../../source/source.ts';
import type { ApiLimits } from '../../state/limits.ts';
import { assertCountedOnce } from './custom-sql.ts';
import { askBroadly, countDatesAtOnce, planSpans, ScanTrial } from './scan.ts';

/**
 * Counts of raw rows by cell of each date, in as few requests as the source allows. Dates without rows are absent; dates
 * with rows between the first and the last requested one may be included, whether sessions or not.
 * @param isHashed whether rows are also hashed; by default only where that is needed before an export
 * @returns `undefined` when so many dates at once are too broad: then each is counted alone, before its export
 * @throws SourceFault
 */
export async function probeDates(
  api: OpenedSql,
  dates: readonly string[],
  isHashed = isHashedFirst(api.job),
): Promise<ReadonlyMap<string, DayCounts> | undefined> {
  const [first] = dates;
  const last = dates.at(-1);
  if (first === undefined || last === undefined) return new Map();
  if (dates.length > countDatesAtOnce(api.limits)) return undefined;
  if (dates.length === 1) {
    const counts = await probeRows(api, first, isHashed);
    return new Map(counts.length === 0 ? [] : [[first, counts]]);
  }
  const whole = { fromDate: first, toDate: last, from: DAY_START, to: DAY_END, axis: 'time' } as const;
  try {
    return await withProof(api, isHashed, async (hashed) => {
      const span: ProbeSpan = { ...whole, hashed, edges: api.limits.dayEdges };
      return await askCounts(api, buildProbe(api.job, span), span);
    });
  } catch (error) {
    // One implausible count must not cost the other dates.
    if (!isFault(error) || error instanceof SourceFault || error.code !== 'ANSWER_MALFORMED') throw error;
    return undefined;
  }
}

/** Trades are compared with the stage; the rows behind groups with the counts before the first page. */
function isHashedFirst({ source }: SqlJob): boolean {
  return source.kind === 'aggregate';
}

/** The same of one date with hashes of the rows, where the source can compute them: see `proofOf`. */
export async function recountRows(api: OpenedSql, date: string): Promise<DayCounts> {
  return await probeRows(api, date, true);
}

/** Counts of raw rows by cell of one date. @throws SourceFault; Fault `SCAN_TOO_BROAD`, `TIME_UNREADABLE` */
export async function probeRows(api: OpenedSql, date: string, isHashed = isHashedFirst(api.job)): Promise<DayCounts> {
  const count = async () =>
    await withProof(api, isHashed, async (hashed) => {
      const trial = new ScanTrial(api);
      const counts = await probe(api, date, 'rows', trial, hashed);
      trial.learn(counts);
      return counts;
    });
  return await withEdges(api.limits, count);
}

/**
 * If even the smallest part of a date is too broad, the server may use only `time` to find rows: it is asked once more with
 * both ends of the day in the condition.
 */
async function withEdges(limits: ApiLimits, count: () => Promise<DayCounts>): Promise<DayCounts> {
  try {
    return await count();
  } catch (error) {
    if (limits.dayEdges === 'closed' || !isFault(error) || error.code !== 'SCAN_TOO_BROAD') throw error;
  }
  limits.dayEdges = 'closed';
  return await count().catch((error: unknown) => {
    limits.dayEdges = 'open';
    throw error;
  });
}

/** Counts of an aggregating job's groups by cell of one date. @throws SourceFault; Fault `SCAN_TOO_BROAD`, `GROUP_TORN` */
export async function probeGroups(api: OpenedSql, date: string): Promise<DayCounts> {
  const groups = await probe(api, date, 'groups', new ScanTrial(api));
  assertCountedOnce(api.job, date, groups);
  return groups;
}

/** Raw rows and groups by cell, of each date that has any. */
export interface CountedGroups {
  readonly rows: ReadonlyMap<string, DayCounts>;
  readonly groups: ReadonlyMap<string, DayCounts>;
}

/**
 * Counts the raw rows of an aggregating job's dates and its groups in one request. Axis and hashes as in `probeDates`.
 * @returns `undefined` where the source does not allow it, or is known not to: then both are counted alone
 */
export async function probeJoined(api: OpenedSql, dates: readonly string[]): Promise<CountedGroups | undefined> {
  const { source, limits, job, signal } = api;
  const [fromDate, toDate] = [dates[0], dates.at(-1)];
  if (job.source.kind !== 'aggregate' || limits.groupCounts !== 'joined') return undefined;
  if (fromDate === undefined || toDate === undefined) return undefined;
  const isAlone = dates.length === 1;
  if (isAlone ? planSpans(api).length > 1 : dates.length > countDatesAtOnce(limits)) return undefined;
  const axis = (isAlone && limits.axis) || 'time';
  const hashed = hashedOf(api);
  const span: ProbeSpan = { fromDate, toDate, from: DAY_START, to: DAY_END, axis, hashed, edges: limits.dayEdges };
  try {
    const page = await source.ask(buildJoinedProbe(job, span), { signal });
    if (page.meta) limits.rowLimit = Math.min(page.meta.row_limit, MAX_PAGE_ROWS);
    if (!page.meta?.truncated) {
      const groups = readCounts(page, { ...span, hashed: undefined }, GROUP_PREFIX);
      return { rows: readCounts(page, span), groups };
    }
  } catch (error) {
    const isTooMuch = error instanceof SourceFault && error.action === 'split';
    // An implausible answer is judged where it is asked for alone.
    if (isFault(error) && error.code === 'ANSWER_MALFORMED') return undefined;
    if (!isTooMuch && !isRefusedSql(error)) throw error;
  }
  // Remembered: the parts are asked for alone, which costs one request a date.
  limits.groupCounts = 'apart';
  return undefined;
}

/**
 * Counts of raw rows by second of one symbol with their hashes, to find what differs in it.
 * @param parts its cells as they were counted last: as much of it at once is allowed
 * @throws SourceFault; Fault `SCAN_TOO_BROAD`
 */
export async function probeSymbol(api: OpenedSql, date: string, symbol: string, parts: DayCounts): Promise<DayCounts> {
  const { limits, job } = api;
  const found: CellCount[] = [];
  const seconds = parts.map(({ second }) => second);
  let left: readonly Stretch[] = seconds.map((second, at) => ({
    from: { second },
    to: { second: seconds[at + 1] ?? DAY_END.second },
  }));
  const profile = limits.profile('time');
  for (let [stretch] = left; stretch !== undefined; [stretch] = left) {
    left = left.slice(1);
    const inSymbol = { from: { symbol, ...stretch.from }, to: { symbol, ...stretch.to } };
    const hashed = hashedOf(api);
    const span = { ...spanOf(api, date, inSymbol), hashed };
    const counts = await askCounts(api, buildProbe(job, span), span);
    if (counts === undefined) {
      const halves = cutStretch(profile, stretch, 2, 1);
      left = halves.length > 1 ? [...halves, ...left] : refuse(date, inSymbol);
    } else found.push(...(counts.get(date) ?? []).map((cell) => ({ ...cell, symbol })));
  }
  return found.sort(compareCells);
}

/** A part of a date by second. */
function spanOf({ limits }: OpenedSql, date: string, stretch: Stretch): ProbeSpan {
  return { fromDate: date, toDate: date, ...stretch, axis: 'time', edges: limits.dayEdges };
}

async function probe(
  api: OpenedSql,
  date: string,
  what: Counted,
  trial: ScanTrial,
  hashed?: readonly HashedColumn[],
): Promise<DayCounts> {
  let found: CellCount[] = [];
  let left = planSpans(api);
  for (let [stretch] = left; stretch !== undefined; [stretch] = left) {
    left = left.slice(1);
    const span = { ...spanOf(api, date, stretch), axis: axisOfStretch(stretch) ?? trial.axis, hashed };
    const counts = await askCounts(api, buildProbe(api.job, span, what), span);
    if (counts === undefined) {
      const before = trial.axis;
      left = trial.noteRefused(stretch, left) ?? refuse(date, stretch);
      // Counting starts again along the other axis: counts of both cannot be combined.
      if (trial.axis !== before) found = [];
    } else {
      const cells = counts.get(date) ?? [];
      found.push(...cells);
      left = trial.notePassed(stretch, sumCounts(cells).rows, left);
    }
  }
  return found.sort(compareCells);
}

/** Counts of rows by second in a part of a date. @returns `undefined` when it is too broad. @throws SourceFault */
export async function probeStretch(api: OpenedSql, date: string, stretch: Stretch): Promise<DayCounts | undefined> {
  const span = spanOf(api, date, stretch);
  const counts = await askCounts(api, buildProbe(api.job, span), span);
  return counts && (counts.get(date) ?? []);
}

function refuse(date: string, stretch: Stretch): never {
  throw new Fault('SCAN_TOO_BROAD', `the API refuses even to count ${formatWindow(stretch)} on ${date}`, {
    hint: "Split the job into several, each with a condition such as `where: symbol = 'SPY'`.",
  });
}

/** @returns `undefined` when the query was too broad, or its one row did not fit into an answer */
async function askCounts(
  api: OpenedSql,
  sql: string,
  span: ProbeSpan,
): Promise<ReadonlyMap<string, CellCount[]> | undefined> {
  for (let odd = 1; ; odd += 1) {
    const page = await askBroadly(api, sql);
    if (page instanceof SourceFault) {
      if (span.fromDate !== span.toDate) api.limits.refusedRows ??= Number.MAX_SAFE_INTEGER;
      return undefined;
    }
    if (page.meta) api.limits.rowLimit = Math.min(page.meta.row_limit, MAX_PAGE_ROWS);
    if (page.meta?.truncated) return undefined;
    try {
      return readCounts(page, span);
    } catch (error) {
      if (!isFault(error) || error.code !== 'ANSWER_MALFORMED' || odd === MAX_ODD_ANSWERS) throw error;
    }
  }
}

/** The strongest proof that the source allows, as far as is known. */
export function proofOf({ job: { source }, limits }: Pick<OpenedSql, 'job' | 'limits'>): Proof {
  const best = bestProof(source);
  return weakerProof(best, limits.recountProofs[nameOf(source)] ?? best);
}

/** The columns that are hashed for it, beside the ids. */
export function hashedOf(api: Pick<OpenedSql, 'job' | 'limits'>): readonly HashedColumn[] | undefined {
  return listHashedColumns(api.job.source, proofOf(api));
}

/** Remembers that the source allows no stronger proof. */
export function noteProof(api: OpenedSql, proof: Proof, reason: string): void {
  const { limits, job, log } = api;
  if (proofOf(api) === proof) return;
  limits.recountProofs = { ...limits.recountProofs, [nameOf(job.source)]: proof };
  log.warn(
    { event: 'recount-weaker', proof, reason },
    `the recounts of this source compare ${proof === 'ids' ? 'ids, not values' : 'counts only'}: ${reason}`,
  );
}

/**
 * Asks with the strongest proof; if the source refuses it, with the next weaker one. A malformed answer also falls back, so
 * that the date is counted, but is not remembered.
 * @returns the result of the last `ask`; its hashes show which proof it used
 */
async function withProof<Answer>(
  api: OpenedSql,
  isHashed: boolean,
  ask: (hashed: readonly HashedColumn[] | undefined) => Promise<Answer>,
): Promise<Answer> {
  if (!isHashed) return await ask(undefined);
  let reason: string | undefined;
  for (let proof = proofOf(api); ; ) {
    try {
      const answer = await ask(listHashedColumns(api.job.source, proof));
      if (reason !== undefined) noteProof(api, proof, reason);
      return answer;
    } catch (error) {
      const next = nextProof(proof);
      const isOdd = isFault(error) && error.code === 'ANSWER_MALFORMED';
      if (next === undefined || !(isOdd || isRefusedSql(error))) throw error;
      if (!isOdd) reason ??= error.message;
      proof = next;
    }
  }
}

/** The query itself was refused, not the key or its size. The portal sends no code. */
function isRefusedSql(error: unknown): error is SourceFault {
  if (!(error instanceof SourceFault) || error.action !== 'stop') return false;
  return error.code.startsWith('INVALID_') || error.code === 'REQUEST_REFUSED';
}

/** Names the columns that are hashed for the best proof. */
function nameOf(source: SqlJob['source']): string {
  return (listHashedColumns(source, bestProof(source)) ?? []).map(({ name }) => name).join(',');
}

/** Tries in all, when an answer is valid JSON but not the answer to a probe. */
const MAX_ODD_ANSWERS = 3;

/**
 * @param prefix of the names of the lists, where an answer has two counts
 * @throws Fault `ANSWER_MALFORMED`, `TIME_UNREADABLE`
 */
export function readCounts(page: Page, span: ProbeSpan, prefix = ''): ReadonlyMap<string, CellCount[]> {
  const row = page.firstRow;
  const listOf = (name: string) => row?.[prefix + name];
  const [dates, cells, counts, ids, marks] = ['dates', 'cells', 'counts', 'ids', 'marks'].map(listOf);
  const shapeless = () => malformed(span, `unexpected form: ${String(JSON.stringify(row)).slice(0, 200)}`);
  const days = readTexts(dates);
  if (!days || ![cells, counts, ids, marks].every(Array.isArray)) throw shapeless();
  assertReadable(listOf('unreadable'), span);
  const [idHashes, valueHashes] = [listOf('id_hashes'), listOf('value_hashes')];
  if (span.hashed && !Array.isArray(idHashes)) throw shapeless();
  if (span.hashed && span.hashed.length > 0 && !Array.isArray(valueHashes)) throw shapeless();
  const found = days.map((date, at): [string, CellCount[]] => {
    const of = (lists: unknown) => (lists as readonly unknown[])[at]; // Arrays, as was just seen.
    const [c, n, u, m] = [readTexts(of(cells)), of(counts), of(ids), readTexts(of(marks))];
    const [i, v] = [idHashes, valueHashes].map((lists) => (Array.isArray(lists) ? readHashes(of(lists)) : []));
    if (!isDate(date) || !c || !Array.isArray(n) || !Array.isArray(u) || !m?.every(isUpdateMark)) throw shapeless();
    const lists = [n, u, m, ...(idHashes ? [i] : []), ...(valueHashes ? [v] : [])];
    if (!i || !v || lists.some((list) => list?.length !== c.length)) throw shapeless();
    const day = c.map((cell, place): CellCount => {
      const [rows, distinct] = [readCount(n[place]), readCount(u[place])];
      if (rows === undefined || distinct === undefined || distinct > rows) {
        const came = `${JSON.stringify(n[place])} rows with ${JSON.stringify(u[place])} ids in cell ${cell} of ${date}`;
        throw malformed(span, `${came}; allowed are whole numbers from 0 to ${formatCount(MAX_DATE_ROWS)}`);
      }
      const values = { rows, ids: distinct, mark: m[place] ?? '', idHash: i[place], valueHash: v[place] };
      return { ...readCell(span.axis, cell, span.from), ...values };
    });
    assertPlausible(date, day, span);
    return [date, day];
  });
  return new Map(found);
}

/** Each cell comes once, and the rows are no more than a date can have. */
function assertPlausible(date: string, day: DayCounts, span: ProbeSpan): void {
  const odd = day.find(({ second }) => !Number.isInteger(second) || Math.abs(second) > MAX_CELL_SECOND);
  if (odd) throw malformed(span, `the cell ${odd.second} of ${date} is not a second of a day`);
  const { rows } = sumCounts(day);
  if (rows > MAX_DATE_ROWS)
    throw malformed(span, `${formatCount(rows)} rows on ${date}; ${formatCount(MAX_DATE_ROWS)} at most`);
  const cells = new Set(day.map(keyOf));
  if (cells.size < day.length) throw malformed(span, `a cell of ${date} was sent twice`);
}

function malformed({ fromDate, toDate }: ProbeSpan, what: string): Fault {
  const when = fromDate === toDate ? fromDate : `${fromDate} to ${toDate}`;
  return new Fault('ANSWER_MALFORMED', `the API sent no valid count of ${when}: ${what}`, {
    hint: `flowdrop asked ${MAX_ODD_ANSWERS} times. Run again later; if the problem persists, tell the provider.`,
  });
}

/** Rows without a second fit no window: as text, 09:30 sorts before 09:30:00, but is counted in that second. */
function assertReadable(time: unknown, { fromDate, toDate }: ProbeSpan): void {
  if (typeof time !== 'string' || time === '') return;
  const when = fromDate === toDate ? fromDate : `${fromDate} to ${toDate}`;
  throw new Fault(
    'TIME_UNREADABLE',
    `at least half of the rows of ${when} have a time like ${time}, which is not YYYY-MM-DD HH:MM:SS`,
    {
      hint: 'Windows need the second, so nothing was fetched. In your own SQL, return `time` unchanged; otherwise tell the provider, whose contract promises that form.',
    },
  );
}

function readTexts(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const fits = value.every((item) => typeof item === 'string' || typeof item === 'number');
  return fits ? value.map(String) : undefined;
}

/** 64-bit sums: JavaScript numbers would round them. */
function readHashes(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.every((item) => typeof item === 'string' && /^\d{1,20}$/.test(item)) ? value : undefined;
}
