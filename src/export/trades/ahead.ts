/**
 * Staging ahead: fetches the full pages of a session while it runs. Invariant: nothing is sealed, recorded as a run or
 * mailed; pages are staged as those of a run that was interrupted, so the next run fetches what is missing, counts the
 * whole date again and seals it. Rows that come late or change after their page was staged are that run's to find.
 */
import { MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { isSession } from '../../calendar/session.ts';
import { formatSecond, formatWallClock, SECONDS_PER_DAY } from '../../calendar/wall-clock.ts';
import { type Bound, compareBounds, DAY_START, type Stretch, type Window } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { Job, SqlJob } from '../../job/job.ts';
import { planAhead } from '../../plan/ahead.ts';
import { type DayCounts, sumCounts } from '../../plan/counts.ts';
import { settledAt } from '../../plan/dates.ts';
import { listGaps, type PackedWindow, packFull } from '../../plan/pack.ts';
import type { ExportRun } from '../../run/run.ts';
import { type Source, SourceFault } from '../../source/source.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import type { Staging } from '../../state/job-state.ts';
import { earliestNow } from '../clocks.ts';
import { fetchWindows } from './fetch.ts';
import { probeStretch } from './probe.ts';
import { isRefusal } from './session-ends.ts';
import { assertFewPages } from './windows.ts';

export interface StagedAhead {
  /** The session; null if none is going on. */
  readonly date: string | null;
  /** Rows before this time of the day (exchange time) are staged; null: none yet. */
  readonly through: string | null;
  /** Rows staged in all. */
  readonly rows: number;
  /** Pages that this call staged. */
  readonly pages: number;
  readonly requests: number;
  /** Why no more is staged. */
  readonly reason: string;
}

/** Only single trades can be staged before their session is over: a group is complete when its last row is there. */
export function assertStageable({ source, file }: Job): void {
  if (source.kind === 'rows') return;
  throw new Fault('STAGE_UNFIT', `${file}: only a job of single trades can be staged while the session runs`, {
    kind: 'usage',
    hint: 'Run it without --stage.',
  });
}

/** @throws SourceFault; Fault when windows finally fail, after the others are staged */
export async function stageAhead(run: ExportRun): Promise<StagedAhead> {
  const { opened, clock, calendar, engine, limits, onEvent } = run;
  assertStageable(opened.job);
  if (opened.kind !== 'sql') throw new TypeError('single trades are read by SQL');
  const { source, job } = opened;
  if (run.clockRule === 'source' && !source.tellsTime()) {
    await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, { testMode: true, signal: run.signal });
  }
  const requestsBefore = source.stats.requests;
  const none = (reason: string, date: string | null = null): StagedAhead => {
    return { date, through: null, rows: 0, pages: 0, requests: source.stats.requests - requestsBefore, reason };
  };
  const nowMs = earliestNow(run);
  const { date, second: visible } = readWall(nowMs - MINIMUM_DATA_DELAY_MINUTES * 60_000);
  if (!isSession(date, calendar)) return none(`${date} has no session`);
  if (nowMs >= settledAt(date, { settleSeconds: job.settleSeconds, calendar }))
    return none(`the session of ${date} is over: run without --stage exports it`);
  if (limits.axis === 'symbol') return none('the API finds rows by symbol, not by time', date);
  const stage = await openStage(engine, job, date, source.url);
  const record = run.state.staging;
  let known = await recall(await record.read(), stage);
  let pages = 0;
  let reason = 'no full page is expected yet';
  try {
    for (let isFirst = true; ; isFirst = false) {
      const { windows: staged, end, holes } = await readStaged(stage);
      known = { ...known, ...staged, second: end.second };
      onEvent({
        kind: 'date',
        date,
        rows: Math.max(known.rows, known.seen.rows),
        staged: known.rows,
        pages: known.pages,
      });
      // Pages of an earlier call that failed or was killed: the row limit decides whether each is one page.
      const again = (isFirst ? holes : []).map((hole) => ({ date, ...hole, rows: limits.rowLimit, exact: false }));
      const to = planAhead(date, factsOf(known, limits), visible, calendar);
      const found =
        to === undefined
          ? undefined
          : await findPages({ ...run, source }, job, { date, from: end, to: { second: to } });
      if (found === 'refused') {
        reason = 'the API refuses to count so many rows at once';
        break;
      }
      if (found !== undefined && to !== undefined) {
        known = { ...known, asked: known.asked + 1, seen: { second: to, rows: known.rows + found.rows } };
        await record.write({ ...known, date, at: new Date(clock.now()).toISOString() });
      }
      const windows = [...again, ...(found?.windows ?? [])];
      if (windows.length === 0) break;
      await fetchWindows({ ...run, source }, job, stage, windows, found?.counts ?? []);
      pages += windows.length;
    }
  } finally {
    const { windows: staged, end } = await readStaged(stage);
    known = { ...known, ...staged, second: end.second };
    await record.write({ ...known, date, at: new Date(clock.now()).toISOString() });
  }
  const requests = source.stats.requests - requestsBefore;
  return {
    date,
    through: known.rows > 0 ? formatSecond(known.second) : null,
    rows: known.rows,
    pages,
    requests,
    reason,
  };
}

type Known = Omit<Staging, 'date' | 'at'>;

/** A record of another date, or of a stage that was dropped, is of no use. */
async function recall(kept: Staging | undefined, stage: Stage): Promise<Known> {
  const { windows } = await readStaged(stage);
  if (kept?.date === stage.date && kept.rows <= windows.rows) return kept;
  return { second: 0, ...windows, asked: 0, seen: { second: 0, rows: 0 } };
}

/** What is staged, where it ends, and what is missing before. */
async function readStaged(stage: Stage): Promise<{
  readonly windows: { readonly rows: number; readonly pages: number };
  readonly end: Bound;
  readonly holes: readonly Stretch[];
}> {
  const all = await stage.windows();
  const end = all.reduce<Bound>(
    (last, { window }) => (compareBounds(window.to, last) > 0 ? window.to : last),
    DAY_START,
  );
  const holes = listGaps(all.map(({ window }) => window)).filter(({ to }) => compareBounds(to, end) < 0);
  return { windows: { rows: all.reduce((sum, { rows }) => sum + rows, 0), pages: all.length }, end, holes };
}

function factsOf(known: Known, limits: ExportRun['limits']) {
  return {
    seen: known.seen,
    staged: known.rows,
    asked: known.asked,
    dateRows: limits.dateRows,
    profile: limits.profile('time'),
    limit: limits.rowLimit,
    refusedRows: limits.refusedRows,
  };
}

interface FoundPages {
  readonly windows: readonly PackedWindow[];
  readonly counts: DayCounts;
  /** Rows of the stretch, those after the last full page included. */
  readonly rows: number;
}

/** The full pages of a stretch. @returns `refused` where it is too broad for the server */
async function findPages(
  deps: ExportRun & { readonly source: Source },
  job: SqlJob,
  { date, ...stretch }: Window,
): Promise<FoundPages | 'refused'> {
  const { limits, log } = deps;
  let reason = 'it is too broad';
  try {
    const counts = await probeStretch(deps, job, date, stretch);
    if (counts !== undefined) {
      const { rows } = sumCounts(counts);
      assertFewPages(date, rows, limits.rowLimit);
      return { windows: packFull(date, counts, stretch, limits.rowLimit), counts, rows };
    }
  } catch (error) {
    if (!(error instanceof SourceFault) || !isRefusal(error)) throw error;
    reason = error.message;
  }
  log.warn(
    { event: 'stage-refused', date, reason },
    `${date} is not staged further before its session is over: ${reason}`,
  );
  return 'refused';
}

function readWall(ms: number): { readonly date: string; readonly second: number } {
  const [date = '', time = ''] = formatWallClock(ms).split(' ');
  const [hours = 0, minutes = 0, seconds = 0] = time.split(':').map(Number);
  return { date, second: Math.min(SECONDS_PER_DAY, hours * 3600 + minutes * 60 + seconds) };
}
