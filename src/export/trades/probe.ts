/**
 * Asks the source for counts: as broadly as it allows, otherwise in parts. One request usually covers every date of the
 * lookback, because the whole answer is one row of arrays. A recount proves ids and values, ids alone, or counts alone: what
 * the source refuses to hash, or writes in another form than it hashes, is remembered with the hashed columns and logged once.
 */

import { axisOfStretch, DAY_END, DAY_START, formatWindow, type Stretch } from '../../calendar/window.ts';
import { Fault, isFault } from '../../core/errors.ts';
import type { HashedColumn } from '../../engine/row-hash.ts';
import type { SqlJob } from '../../job/job.ts';
import { compareCells, cutStretch } from '../../plan/axis.ts';
import { type CellCount, type DayCounts, sumCounts } from '../../plan/counts.ts';
import { bestProof, listHashedColumns, nextProof, type Proof, weakerProof } from '../../plan/proof.ts';
import { buildJoinedProbe, buildProbe, type Counted, GROUP_PREFIX, type ProbeSpan } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import { MAX_PAGE_ROWS, type Page, SourceFault } from '../../source/source.ts';
import type { ApiLimits } from '../../state/limits.ts';
import { MAX_ODD_ANSWERS, readCounts } from './counts-answer.ts';
import { assertCountedOnce } from './custom-sql.ts';
import { countDatesAtOnce, planSpans, ScanTrial } from './scan.ts';

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
    let page: Page;
    try {
      page = await api.source.ask(sql, { signal: api.signal });
    } catch (error) {
      if (!(error instanceof SourceFault) || error.action !== 'split') throw error;
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
  return weakerProof(best, limits.recountProofs[keyOf(source)] ?? best);
}

/** The columns that are hashed for it, beside the ids. */
export function hashedOf(api: Pick<OpenedSql, 'job' | 'limits'>): readonly HashedColumn[] | undefined {
  return listHashedColumns(api.job.source, proofOf(api));
}

/** Remembers that the source allows no stronger proof. */
export function noteProof(api: OpenedSql, proof: Proof, reason: string): void {
  const { limits, job, log } = api;
  if (proofOf(api) === proof) return;
  limits.recountProofs = { ...limits.recountProofs, [keyOf(job.source)]: proof };
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

function keyOf(source: SqlJob['source']): string {
  return (listHashedColumns(source, bestProof(source)) ?? []).map(({ name }) => name).join(',');
}
