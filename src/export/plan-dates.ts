/**
 * The plan of a run: the dates to export, with their counts where rows can be counted beforehand. Dates on which the clocks
 * disagree, or whose end the source does not show, are held back.
 * - SQL: one request counts all dates where the API allows it; otherwise only the first date is counted now, and each other
 *   date before its export. The first answer of an unknown API sets its clock; if its day differs from ours, the plan is made
 *   again.
 * - snapshots: the dates of the calendar, one request for each symbol. The API does not say how long it retains snapshots: a
 *   run asks for the dates of the lookback, and others by name. Dates answered with nothing, long after their session, are not
 *   asked again unless they are named.
 * - a server's table: it has no lookback, so any date can be named; a run without dates exports only the last sessions, so
 *   that a new job does not copy years.
 */

import { isSession, listSessions, previousSessions } from '../calendar/session.ts';
import type { DateRange } from '../calendar/wall-clock.ts';
import { addDays, formatSecond, formatWallDate, parseSecond } from '../calendar/wall-clock.ts';
import { Fault, isFault } from '../core/errors.ts';
import type { HeldDate } from '../plan/clocks.ts';
import { axisOf, type DayCounts, sumCounts } from '../plan/counts.ts';
import { assertNotFuture, expiresAt, type LookbackRange, lookbackOf } from '../plan/dates.ts';
import { lastTradeSecond, showsEnd } from '../plan/session-end.ts';
import type { OpenedSnapshots, OpenedSource, OpenedSql, OpenedTable } from '../run/open-source.ts';
import type { ExportRun } from '../run/run.ts';
import { SourceFault } from '../source/source.ts';
import { isUnavailable } from '../state/job-state.ts';
import type { DateSelection } from './select-dates.ts';
import { TableSql } from './server-table/table-sql.ts';
import { type CountedGroups, probeDates, probeJoined, probeRows } from './trades/probe.ts';
import { SessionEnds } from './trades/session-ends.ts';

export interface PlannedDate {
  readonly date: string;
  /** `undefined`: not counted yet, or cannot be counted beforehand. */
  readonly counts: DayCounts | undefined;
  /** Groups by cell of an aggregating job; `undefined`: counted before the export. */
  readonly groups?: DayCounts | undefined;
  /** As counted, or else as many as the last date had; `undefined` if neither is known. */
  readonly rows: number | undefined;
  /** Fewest page requests at the current row limit. */
  readonly pages: number;
  readonly expiresAtMs: number;
}

export interface ExportPlan {
  /** If clocks differ, the slowest: no date expires that any clock calls complete. */
  readonly lookback: LookbackRange;
  /** Unsealed, settled dates with rows, soonest expiry first; dates that are no session by the calendar included. */
  readonly dates: readonly PlannedDate[];
  /** Settled, unsealed session dates without rows of the job in the source. */
  readonly empty: ReadonlySet<string>;
  /** Of these, the dates of which the source has other rows; absent: not asked. */
  readonly unmatched?: ReadonlySet<string> | undefined;
  /** Unsealed dates that may be due but are held back, because the clocks disagree. */
  readonly held: readonly HeldDate[];
  /** Of these, the ones that have rows at the source: if they expire, they are lost. */
  readonly heldRows?: readonly PlannedDate[] | undefined;
  /** Dates whose last rows are so recent that more may follow, and when each will have settled. */
  readonly open?: ReadonlyMap<string, number> | undefined;
  /** When each session ended in the source; only for sources whose rows can be counted by time. */
  readonly ends?: SessionEnds | undefined;
}

/** The plan with the held-back dates that have rows: a loss of theirs must not go unnoticed. */
export function withHeld(plan: ExportPlan): ExportPlan {
  return { ...plan, dates: [...plan.dates, ...(plan.heldRows ?? [])] };
}

/**
 * @param run of the plan: without it, only the last rows of a session tell whether it is over
 * @throws SourceFault, EngineFault; Fault `DATE_EXPIRED` with the earliest date that is still complete, `DATE_FUTURE` with
 *   the last
 */
export async function planDates(opened: OpenedSource, selection: DateSelection, run?: ExportRun): Promise<ExportPlan> {
  switch (opened.kind) {
    case 'sql':
      return await planSql(opened, selection, run);
    case 'snapshots':
      return await planSnapshots(opened, selection);
    case 'table':
      return await planTable(opened, selection);
    default:
      return opened satisfies never;
  }
}

/** A clock that is off by more belongs to a simulation or a broken machine: the server is asked again. */
const TRUSTED_OFFSET_MS = 5 * 60_000;

/** Whole seconds of the server's clock, and the way of its answer. */
const CLOCK_GRAIN_MS = 3000;

/** One answer corrects a wrong clock; the day may change once more between two answers. */
const MAX_CLOCK_ROUNDS = 4;

async function planSql(api: OpenedSql, selection: DateSelection, run: ExportRun | undefined): Promise<ExportPlan> {
  const { source, limits, clocks, job, signal } = api;
  const { range, isWanted, notBeforeMs } = selection;
  const ends = new SessionEnds(api, selection.sealed, run);
  await awaitSettling(api);
  let agreed = clocks.agreeOnDates();
  const offsetMs = Math.abs(limits.clockOffsetMs);
  // A named date is refused only by the source's own clock.
  const isDoubtful =
    offsetMs > TRUSTED_OFFSET_MS || (range !== undefined && offsetMs === 0) || clocks.ownNow() < notBeforeMs;
  const isOutside = range !== undefined && range.from < agreed.lookback.firstWhole;
  const isContested = !source.tellsTime() && agreed.contested.some(({ date }) => isWanted(date));
  if (isOutside || ((isDoubtful || isContested) && !agreed.dates.some(isWanted))) {
    await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, { testMode: true, signal });
    agreed = clocks.agreeOnDates();
  }
  if (range) assertInsideLookback(range, agreed.lookback);
  for (let round = 0; round < MAX_CLOCK_ROUNDS; round += 1) {
    const wanted = agreed.dates.filter(isWanted);
    const counted = await countDates(api, wanted);
    for (const [date, counts] of counted.rows) ends.note(date, counts);
    agreed = clocks.agreeOnDates();
    assertNotFuture(range, agreed.lookback, clocks.latest());
    if (agreed.dates.filter(isWanted).join() !== wanted.join()) continue;
    const { lookback } = agreed;
    const isKnown = (date: string) => isWanted(date) && date >= lookback.firstWhole;
    const rows = new Map([...counted.rows].filter(([date]) => isKnown(date)));
    const held = agreed.contested.filter(({ date }) => isWanted(date));
    return { lookback, ends, ...(await sortDates(api, wanted, { ...counted, rows }, ends, held)) };
  }
  throw new Fault('CLOCK_UNSTEADY', `the clock of the API at ${source.url} jumps from answer to answer`, {
    hint: 'Lookback and delay are measured by it, so nothing can be planned. Tell the provider.',
  });
}

/**
 * A schedule may begin a run in the second in which today settles. The source's clock is known from a header of whole
 * seconds, so it may still show the second before: without this wait the date would be left to the next run.
 */
async function awaitSettling({ clocks, calendar, signal }: OpenedSql): Promise<void> {
  const nowMs = clocks.earliest();
  const today = formatWallDate(nowMs);
  if (!isSession(today, calendar)) return;
  const waitMs = clocks.settledAt(today) - nowMs;
  if (waitMs > 0 && waitMs <= CLOCK_GRAIN_MS) await clocks.sleep(waitMs, signal);
}

/** Expired dates cannot be fetched: a named one is an error, not skipped. */
function assertInsideLookback(range: DateRange, { firstWhole, edge }: LookbackRange): void {
  if (range.from >= firstWhole) return;
  throw new Fault(
    'DATE_EXPIRED',
    `${range.from} is outside the API's lookback, which begins at ${edge} (exchange time)`,
    { kind: 'usage', hint: `The earliest date that can still be exported completely is ${firstWhole}.` },
  );
}

interface Counted extends Pick<CountedGroups, 'rows'> {
  /** Of an aggregating job, if they were counted with the rows. */
  readonly groups?: CountedGroups['groups'] | undefined;
  /** Dates that are counted later, each before its export. */
  readonly left: readonly string[];
}

async function countDates(api: OpenedSql, wanted: readonly string[]): Promise<Counted> {
  const joined = await probeJoined(api, wanted);
  if (joined !== undefined) return { ...joined, left: [] };
  const rows = await probeDates(api, wanted);
  if (rows !== undefined) return { rows, left: [] };
  const [first = '', ...left] = wanted;
  try {
    const counts = await probeRows(api, first);
    return { rows: new Map(counts.length > 0 ? [[first, counts]] : []), left };
  } catch (error) {
    // The date's own export will fail again with this error; later dates are not affected.
    if (!isFault(error) || error instanceof SourceFault || error.code !== 'ANSWER_MALFORMED') throw error;
    return { rows: new Map(), left: wanted };
  }
}

/** A run waits this long for a date to settle: rows that were stamped a moment after the close must not cost a retry. */
export const MAX_SETTLE_WAIT_MS = 2 * 60_000;

/** When a date is over: some contracts trade later than others, and the last rows may be very recent. */
export function settlesAt({ clocks, calendar }: OpenedSql, date: string, counts: DayCounts): number {
  const latest = lastTradeSecond(date, calendar);
  // Counts by symbol have no times: assume the latest possible last row.
  if (axisOf(counts) === 'symbol') return clocks.settledAt(date, latest);
  // A row after all trading hours has a wrong time and must not delay its date.
  return clocks.settledAt(date, counts.findLast(({ second }) => second <= latest)?.second);
}

/** Which of the wanted dates are exported, which are held, open or empty. */
async function sortDates(
  api: OpenedSql,
  wanted: readonly string[],
  { rows: counted, groups, left }: Counted,
  ends: SessionEnds,
  contested: readonly HeldDate[],
): Promise<Omit<ExportPlan, 'lookback'>> {
  const { limits, clocks } = api;
  const planned = (date: string, counts?: DayCounts): PlannedDate => {
    const rows = counts === undefined ? (limits.dateRows ?? 0) : sumCounts(counts).rows;
    const own = groups?.get(date);
    const pages = Math.ceil((own === undefined ? rows : sumCounts(own).rows) / limits.rowLimit);
    return { date, counts, groups: own, rows, pages, expiresAtMs: expiresAt(date) };
  };
  const nowMs = clocks.earliest();
  const settling = [...counted].map(([date, counts]) => [date, settlesAt(api, date, counts)] as const);
  const open = new Map(settling.filter(([, atMs]) => atMs > nowMs + MAX_SETTLE_WAIT_MS));
  const known = [...counted].filter(([date]) => !open.has(date));
  const unseen: HeldDate[] = [];
  for (const [date] of known) {
    const reason = await ends.explain(api, date, left.at(-1) ?? known.at(-1)?.[0] ?? date);
    if (reason !== undefined) unseen.push({ date, reason });
  }
  const isUnseen = (date: string) => unseen.some((held) => held.date === date);
  const plannedKnown = known.map(([date, counts]) => planned(date, counts));
  return {
    dates: [...plannedKnown.filter(({ date }) => !isUnseen(date)), ...left.map((date) => planned(date))],
    empty: new Set(wanted.filter((date) => !counted.has(date) && !left.includes(date))),
    held: [...contested, ...unseen].sort((a, b) => (a.date < b.date ? -1 : 1)),
    heldRows: plannedKnown.filter(({ date }) => isUnseen(date)),
    open,
  };
}

/** Costs no request where the clock of the API is known from an earlier run, else one. */
async function planSnapshots(
  { source, limits, clocks, calendar, job, signal }: OpenedSnapshots,
  { range, isWanted, unavailable, notBeforeMs }: DateSelection,
): Promise<ExportPlan> {
  const { symbols } = job.source;
  const [symbol] = symbols;
  const offsetMs = Math.abs(limits.clockOffsetMs);
  const isKnown = offsetMs !== 0 && offsetMs <= TRUSTED_OFFSET_MS && clocks.ownNow() >= notBeforeMs;
  if (symbol !== undefined && !isKnown) await source.greet(symbol, signal);
  const { dates: agreed, contested, lookback } = clocks.agreeOnDates();
  assertNotFuture(range, lookback, clocks.latest());
  const last = lookback.lastSettled;
  // Older dates may still be available and can be named.
  const older = range === undefined || last === undefined ? [] : listSessions(range.from, last, calendar);
  const isContested = (date: string) => contested.some((held) => held.date === date);
  const wanted = (older.length > 0 ? older.filter((date) => !isContested(date)) : agreed).filter(isWanted);
  const question = { url: source.url, symbols };
  const isEmpty = (date: string) => isUnavailable(unavailable[date], question, date, calendar);
  return {
    lookback,
    dates: wanted
      .filter((date) => !isEmpty(date))
      .map((date) => ({ date, counts: [], rows: undefined, pages: symbols.length, expiresAtMs: expiresAt(date) })),
    empty: new Set(wanted.filter(isEmpty)),
    held: contested.filter(({ date }) => isWanted(date)),
  };
}

/** Sessions of a server's table that a run without dates exports. */
const RUN_SESSIONS = 15;

/** Count before, file, checksum. */
export const STATEMENTS_A_DATE = 3;

/** After so many days a session counts as fully loaded, even if no later row exists. */
const LOADED_DAYS = 7;

/** @throws Fault `SERVER_TOO_OLD`, `TABLE_UNFIT` */
async function planTable(opened: OpenedTable, { range, isWanted }: DateSelection): Promise<ExportPlan> {
  const { source, clocks, calendar, job, signal } = opened;
  const { types } = await source.describe(signal);
  const sql = new TableSql(job.source, types);
  const nowMs = clocks.earliest();
  const lookback = lookbackOf(job, nowMs, calendar);
  const { contested } = clocks.agreeOnDates(false);
  assertNotFuture(range, lookback, clocks.latest());
  const sessions = previousSessions(lookback.lastSettled ?? formatWallDate(nowMs), RUN_SESSIONS, calendar);
  const { from, to } = range ?? { from: sessions[0] ?? '', to: lookback.lastSettled ?? '' };
  const counted = await source.rows<{ d: string; n: number }>(sql.dates(from, to), { signal });
  const settled = counted.filter(({ d }) => isWanted(d) && nowMs >= clocks.settledAt(d));
  const last = settled.at(-1)?.d ?? '';
  const isRecent = last !== '' && last >= addDays(lookback.lastSettled ?? last, -LOADED_DAYS);
  const unseen = isRecent && clocks.isChecked ? await explainTableEnd(opened, sql, last) : undefined;
  const found = settled.filter(({ d }) => unseen === undefined || d !== last);
  const isEmpty = (date: string) => !counted.some(({ d }) => d === date) && isWanted(date);
  return {
    lookback,
    dates: found.map(({ d, n }) => ({
      ...{ date: d, counts: [], rows: Number(n), pages: STATEMENTS_A_DATE },
      expiresAtMs: Number.POSITIVE_INFINITY,
    })),
    held: [
      ...contested.filter(({ date }) => isWanted(date)),
      ...(unseen === undefined ? [] : [{ date: last, reason: unseen }]),
    ],
    empty: new Set(range ? [] : sessions.filter(isEmpty)),
  };
}

/**
 * Why a date may not be fully loaded, in words; `undefined` when rows of a later date, or of the session's end, show that it
 * is. Rows exported without their time show nothing: then the clocks alone decide.
 */
async function explainTableEnd(opened: OpenedTable, sql: TableSql, date: string): Promise<string | undefined> {
  const { source, calendar, job, signal } = opened;
  if (!job.source.columns.some(({ name }) => name === 'time')) return undefined;
  const [later] = await source.rows<{ n: number }>(sql.later(date), { signal });
  if (Number(later?.n ?? 0) > 0) return undefined;
  const tail = sql.tail(date, calendar);
  const [end] = await source.rows<{ n: number; late: number; newest: string }>(tail, { signal });
  const rows = Number(end?.n ?? 0);
  const newest = rows === 0 ? undefined : parseSecond(end?.newest ?? '');
  if (showsEnd(date, { newest, tail: rows, late: Number(end?.late ?? 0) }, true, calendar)) return undefined;
  const seen =
    newest === undefined ? 'no rows from its last minutes' : `rows until ${formatSecond(newest)} (exchange time)`;
  return `the table has ${seen}, and no rows of a later date: it may not be completely loaded`;
}
