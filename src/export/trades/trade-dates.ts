/**
 * The dates of a job with SQL, of trades or groups: planned, fetched in windows, recounted, audited. One request counts all
 * dates where the API allows it; otherwise only the first date is counted now, and each other date before its export. The
 * first answer of an unknown API sets its clock; if its day differs from ours, the plan is made again. Dates on which the
 * clocks disagree, or whose end the source does not show, are held back.
 */

import { SESSION_END_SECOND } from '../../calendar/segments.ts';
import { isSession } from '../../calendar/session.ts';
import { type DateRange, formatWallDate } from '../../calendar/wall-clock.ts';
import { Fault, isFault } from '../../core/errors.ts';
import type { CheckResult, Manifest } from '../../ledger/manifest.ts';
import { axisOf } from '../../plan/axis.ts';
import { type HeldDate, TRUSTED_OFFSET_MS } from '../../plan/clocks.ts';
import { type DayCounts, sumCounts } from '../../plan/counts.ts';
import {
  assertNotFuture,
  edgeOf,
  expiresAt,
  explainClip,
  firstSecondOf,
  isAtEdge,
  type LookbackRange,
} from '../../plan/dates.ts';
import type { Lack } from '../../plan/session-habit.ts';
import { buildDatesWithRows } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { ExportRun, SqlRun } from '../../run/run.ts';
import type { AuditDeps } from '../../seal/audit.ts';
import { SourceFault } from '../../source/source.ts';
import { secondKey } from '../../stage/count.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import type { DateResult } from '../../state/run-result.ts';
import { auditSealed, compareSealed } from '../audits/source-audit.ts';
import type { CompleteRows, DateExport, DateSource, ExportPlan, NoRows, PlannedDate, Waiting } from '../date-source.ts';
import { createDropFile } from '../seal-rows.ts';
import type { DateSelection } from '../select-dates.ts';
import { assertStillWhole, type CompletedDate, fetchedDate, lookbackDaysOf } from './fetched-date.ts';
import { type CountedGroups, probeDates, probeJoined, probeRows } from './probe.ts';
import { askBroadly, isRefusal } from './scan.ts';
import { describeLack, SESSION_END_CHECK, SessionEnds } from './session-ends.ts';

export class TradeDates implements DateSource {
  readonly #api: OpenedSql;
  #ends: SessionEnds | undefined;
  /** The last date of the plan. */
  #latest = '';

  constructor(api: OpenedSql) {
    this.#api = api;
  }

  async plan(selection: DateSelection, run?: ExportRun): Promise<ExportPlan> {
    this.#ends = new SessionEnds(this.#api, selection.sealed, run);
    const plan = await planTrades(this.#api, selection, this.#ends);
    this.#latest = plan.dates.at(-1)?.date ?? '';
    return plan;
  }

  async open(run: ExportRun, planned: PlannedDate, restate: boolean): Promise<DateExport | NoRows | Waiting> {
    const { date } = planned;
    const ends = this.#ends;
    const api: SqlRun = { ...run, ...this.#api };
    const { job, limits, clocks, log, signal, engine, onEvent, state, source } = api;
    const counts = planned.counts ?? (await probeRows(api, date));
    if (counts.length === 0) return { missing: [] };
    ends?.note(date, counts);
    // A clock may have been set back since the plan was made: the date is still due.
    const contest = clocks.explainHold(date, true);
    if (contest !== undefined) return { held: contest };
    const settlesAtMs = settlesAt(api, date, counts, (await ends?.awaitsCurb(date)) === true);
    const waitMs = settlesAtMs - clocks.earliest();
    if (waitMs > MAX_SETTLE_WAIT_MS) return { settlesAtMs };
    // The recount finds the rows that come meanwhile.
    if (waitMs > 0) await clocks.sleep(waitMs, signal);
    const unseen = await ends?.explain(date, this.#latest || date);
    if (unseen !== undefined) return { held: unseen };
    if (limits.dayEdges === 'closed') {
      const reason = 'the API refuses windows without a time bound, so rows whose time has another date are left out';
      log.warn({ event: 'edges-closed', date, reason }, `${date}: ${reason}`);
    }
    const { rows } = sumCounts(counts);
    const stage = await openStage(engine, job, date, source.url, { rows });
    const windows = await stage.windows();
    const staged = windows.reduce((sum, window) => sum + window.rows, 0);
    // What an earlier run has staged tells how many rows have left the lookback since.
    const edge = edgeOf(clocks.latest(), lookbackDaysOf(api));
    const had = isAtEdge(date, clocks.latest(), lookbackDaysOf(api)) ? await countBefore(stage, edge) : 0;
    const pages = planned.groups === undefined ? Math.ceil(rows / limits.rowLimit) : planned.pages;
    onEvent({ kind: 'date', date, rows, staged, pages });
    const file = createDropFile(run, stage);
    const work = fetchedDate(api, stage, counts, state.counts(date), { groups: planned.groups, file });
    return {
      ...{ ...work, stage, file },
      prove: async () => {
        const counted = await work.prove();
        return counted && (await this.#judge(api, stage, counted, { restate, edge, had }));
      },
      noteSealed: async () => {
        await state.counts(date).remove();
        ends?.noteSealed(date);
      },
    };
  }

  async findPresent(dates: readonly string[], newestExported: string) {
    const page = await askBroadly(this.#api, buildDatesWithRows(this.#api.job, dates), isRefusal);
    // Too many rows to count are rows.
    const found = page instanceof SourceFault ? dates : page.firstRow?.['dates'];
    const present = Array.isArray(found) ? dates.filter((date) => found.includes(date)) : dates;
    const newest = [...present, newestExported].sort().at(-1) ?? '';
    // Whether the newest date is over, only the source shows.
    const unsure: string[] = [];
    for (const date of present) {
      if (date >= newest && (await this.#ends?.explain(date, date))) unsure.push(date);
    }
    return { over: present.filter((date) => !unsure.includes(date)), unsure };
  }

  async compare(sealed: Manifest, at: AuditDeps) {
    return await compareSealed(this.#api, at, sealed);
  }

  async audit(run: ExportRun, dates: readonly string[], exported: readonly DateResult[]) {
    return await auditSealed({ ...run, ...this.#api }, dates, exported);
  }

  /** Whether rows that are whole by their counts can be sealed. */
  async #judge(
    api: SqlRun,
    stage: Stage,
    counted: CompletedDate,
    before: StagedBefore,
  ): Promise<CompleteRows | NoRows | Waiting> {
    const { job, clocks } = api;
    const { date } = stage;
    const ends = this.#ends;
    // All groups may fail the SQL's own HAVING.
    if (job.source.kind === 'aggregate' && (await stage.totals()).rows === 0 && (await stage.quarantine()).rows === 0) {
      await stage.discard();
      await api.state.counts(date).remove();
      return { missing: [] };
    }
    ends?.note(date, counted.counts);
    const late = clocks.conflict() === undefined ? undefined : clocks.explainHold(date, true);
    if (late !== undefined) return { held: late };
    const lack = clocks.isChecked ? await findLack(api, stage, ends) : undefined;
    if (lack !== undefined && ends?.isOver(date) === false) return { held: describeLack(lack) };
    const degradedReason = await explainClipped(api, stage, before);
    const through = await ends?.through(date);
    return { ...counted, through, degradedReason, doubts: lack && [asCheck(lack)] };
  }
}

/** Whole seconds of the server's clock, and the way of its answer. */
const CLOCK_GRAIN_MS = 3000;

/** One answer corrects a wrong clock; the day may change once more between two answers. */
const MAX_CLOCK_ROUNDS = 4;

/** @param ends learns the end of each date that is counted */
async function planTrades(api: OpenedSql, selection: DateSelection, ends: SessionEnds): Promise<ExportPlan> {
  const { source, limits, clocks, job, signal } = api;
  const { range, isWanted, notBeforeMs } = selection;
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
    return { lookback, ...(await sortDates(api, wanted, { ...counted, rows }, ends, held)) };
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

/** With `groups` of an aggregating job, if they were counted with the rows. */
interface Counted extends Pick<CountedGroups, 'rows'>, Partial<Pick<CountedGroups, 'groups'>> {
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
const MAX_SETTLE_WAIT_MS = 2 * 60_000;

/** When a date is over: some contracts trade later than others, and the last rows may be very recent. */
function settlesAt({ clocks }: OpenedSql, date: string, counts: DayCounts, awaitsCurb: boolean): number {
  // Counts by symbol have no times: assume the latest possible last row.
  if (awaitsCurb || axisOf(counts) === 'symbol') return clocks.settledAt(date, SESSION_END_SECOND);
  // A row after all trading hours has a wrong time and must not delay its date.
  return clocks.settledAt(date, counts.findLast(({ second }) => second <= SESSION_END_SECOND)?.second);
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
  const settling: [string, number][] = [];
  for (const [date, counts] of counted) {
    settling.push([date, settlesAt(api, date, counts, await ends.awaitsCurb(date))]);
  }
  const open = new Map(settling.filter(([, atMs]) => atMs > nowMs + MAX_SETTLE_WAIT_MS));
  const known = [...counted].filter(([date]) => !open.has(date));
  const unseen: HeldDate[] = [];
  for (const [date] of known) {
    const reason = await ends.explain(date, left.at(-1) ?? known.at(-1)?.[0] ?? date);
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

/** What the date lacks beside like sessions. */
async function findLack({ engine, job }: SqlRun, stage: Stage, ends: SessionEnds | undefined) {
  const { date, table } = stage;
  return await ends?.findLack(date, async () => {
    const found = await engine.rows<{ readonly symbol: string; readonly n: number; readonly last: number }>(
      `SELECT symbol, toFloat64(count()) AS n, toInt32(max(${secondKey(job, date)})) AS last FROM ${table} GROUP BY symbol`,
    );
    return new Map(found.map(({ symbol, n, last }) => [symbol, { rows: n, last }]));
  });
}

/** What a date lacked whose session is over all the same. */
function asCheck({ sessions, ...finding }: Lack & { readonly sessions: string[] }): CheckResult {
  return {
    ...{ check: SESSION_END_CHECK, on_failure: 'warn', passed: false, found: 1, allowed: 0, sessions },
    findings: [{ about: SESSION_END_CHECK, ...finding }],
  };
}

/** What was staged of a date when this run began. */
interface StagedBefore {
  readonly restate: boolean;
  /** Of the lookback. */
  readonly edge: string;
  /** Rows from before it. */
  readonly had: number;
}

/** Groups of rows, and rows without a time, are not told apart. */
async function countBefore(stage: Stage, time: string): Promise<number> {
  const { kind, columns } = stage.job.source;
  return kind === 'rows' && columns.some(({ name }) => name === 'time') ? await stage.countBefore(time) : 0;
}

/** Dates nearest to another one that tell when its session began. */
const NEIGHBOURS = 5;

/**
 * Why rows from before the opening may have left the lookback, in words. A sealed date knows its own first row; of another
 * one, the complete dates around it tell when sessions begin.
 * @throws Fault `DATE_CLIPPED` when the opening has left too, or when a sealed date would be replaced by a part of it
 */
async function explainClipped(
  api: SqlRun,
  stage: Stage,
  { restate, edge, had }: StagedBefore,
): Promise<string | undefined> {
  const { ledger } = api;
  const { date } = stage;
  const nowMs = api.clocks.latest();
  const days = lookbackDaysOf(api);
  assertStillWhole(api, date);
  if (!isAtEdge(date, nowMs, days)) return undefined;
  const own = restate ? await ledger.validManifest(date) : undefined;
  const around: Manifest[] = own?.condition === 'available' ? [own, own, own] : [];
  if (around.length === 0) {
    const apart = (other: string) => Math.abs(Date.parse(other) - Date.parse(date));
    const nearest = (await ledger.dates()).filter((other) => other !== date).sort((a, b) => apart(a) - apart(b));
    for (const other of nearest.slice(0, NEIGHBOURS)) {
      const manifest = await ledger.validManifest(other);
      if (manifest?.condition === 'available') around.push(manifest);
    }
  }
  const reason = explainClip(date, nowMs, around.map(firstSecondOf), days, {
    left: had - (await countBefore(stage, edge)),
    hasEvening: (await countBefore(stage, `${date} 00:00:00`)) > 0,
  });
  if (reason !== undefined && own !== undefined) assertStillWhole(api, date, 0);
  return reason;
}
