/**
 * Staging ahead: fetches the full pages of a session while it runs. Invariant: nothing is sealed, recorded as a run or
 * mailed; pages are staged as those of a run that was interrupted, so the next run fetches what is missing, counts the
 * whole date again and seals it. Rows that come late or change after their page was staged are that run's to find. Finding
 * where full pages end costs a request, whatever their number, so it is asked only when many are expected: a session costs at
 * most 1.03 times the fewest requests.
 */
import { MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { closeSecond, isHalfDay, isSession, OPEN_SECOND } from '../../calendar/session.ts';
import { formatSecond, formatWallClock, parseSecond, SECONDS_PER_DAY } from '../../calendar/wall-clock.ts';
import { compareBounds, DAY_START, type Window } from '../../calendar/window.ts';
import { Fault } from '../../core/errors.ts';
import type { Job } from '../../job/job.ts';
import { shareOf, usualProfile } from '../../plan/axis.ts';
import { type DayCounts, sumCounts } from '../../plan/counts.ts';
import { listGaps, type PackedWindow, packFull } from '../../plan/pack.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { SourceFault } from '../../source/source.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import type { Staging } from '../../state/job-state.ts';
import { assertFewPages, fetchWindows } from './fetch.ts';
import { probeStretch } from './probe.ts';
import { isRefusal } from './scan.ts';

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
  const { opened, clock, clocks, calendar, limits, onEvent } = run;
  assertStageable(opened.job);
  if (opened.kind !== 'sql') throw new TypeError('single trades are read by SQL');
  const { source, job } = opened;
  if (!clocks.isChecked && !source.tellsTime()) {
    await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, { testMode: true, signal: run.signal });
  }
  const requestsBefore = source.stats.requests;
  const none = (reason: string, date: string | null = null): StagedAhead => {
    return { date, through: null, rows: 0, pages: 0, requests: source.stats.requests - requestsBefore, reason };
  };
  const nowMs = clocks.earliest();
  const [date = '', time = ''] = formatWallClock(nowMs - MINIMUM_DATA_DELAY_MINUTES * 60_000).split(' ');
  if (!isSession(date, calendar)) return none(`${date} has no session`);
  if (nowMs >= clocks.settledAt(date)) return none(`the session of ${date} is over: run without --stage exports it`);
  if (limits.axis === 'symbol') return none('the API finds rows by symbol, not by time', date);
  const stage = await openStage(run.engine, job, date, source.url);
  const record = run.state.staging;
  let staged = await readStaged(stage);
  const kept = await record.read();
  // A record of another date, or of a stage that was dropped, is of no use.
  const isOfStage = kept?.date === date && kept.rows <= staged.rows;
  let known: Known = isOfStage ? kept : { asked: 0, seen: { second: 0, rows: 0 } };
  const write = async () => {
    const { rows, pages, end } = staged;
    await record.write({ ...known, date, at: new Date(clock.now()).toISOString(), second: end.second, rows, pages });
  };
  let pages = 0;
  let reason = 'no full page is expected yet';
  const fetch = async (windows: readonly PackedWindow[], counts: DayCounts) => {
    await fetchWindows({ ...opened, onEvent }, stage, windows, counts);
    pages += windows.length;
    staged = await readStaged(stage);
  };
  try {
    // Pages of an earlier call that failed or was killed: the row limit decides whether each is one page.
    await fetch(
      staged.holes.map((hole) => ({ date, ...hole, rows: limits.rowLimit, exact: false })),
      [],
    );
    for (;;) {
      const { rows } = staged;
      onEvent({ kind: 'date', date, rows: Math.max(rows, known.seen.rows), staged: rows, pages: staged.pages });
      const to = planAhead(run, date, known, rows, parseSecond(time));
      if (to === undefined) break;
      const found = await findPages(opened, { date, from: staged.end, to: { second: to } });
      if (found === 'refused') {
        reason = 'the API refuses to count so many rows at once';
        break;
      }
      known = { asked: known.asked + 1, seen: { second: to, rows: rows + found.rows } };
      await write();
      if (found.windows.length === 0) break;
      await fetch(found.windows, found.counts);
    }
  } finally {
    staged = await readStaged(stage);
    await write();
  }
  return {
    date,
    through: staged.rows > 0 ? formatSecond(staged.end.second) : null,
    rows: staged.rows,
    pages,
    requests: source.stats.requests - requestsBefore,
    reason,
  };
}

type Known = Pick<Staging, 'asked' | 'seen'>;

/** @returns with what is missing before the end */
async function readStaged(stage: Stage) {
  const all = await stage.windows();
  const windows = all.map(({ window }) => window);
  const end =
    windows
      .map(({ to }) => to)
      .sort(compareBounds)
      .at(-1) ?? DAY_START;
  const holes = listGaps(windows).filter(({ to }) => compareBounds(to, end) < 0);
  return { rows: all.reduce((sum, { rows }) => sum + rows, 0), pages: all.length, end, holes };
}

/** The full pages of a stretch. @returns `refused` where it is too broad for the server */
async function findPages(api: OpenedSql, { date, ...stretch }: Window) {
  const { limits, log } = api;
  let reason = 'it is too broad';
  try {
    const counts = await probeStretch(api, date, stretch);
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
  return 'refused' as const;
}

/** Full pages for which their ends are asked: fewer than 2% more requests. */
const MANY_PAGES = 60;
/** After the close of stock options fewer are enough, because they are what the last run would have to fetch. */
const LAST_PAGES = 10;
/** Part of the session's requests that may be asked for the ends of pages. */
const MOST_ASKED = 0.025;
/** Most pages whose ends one request finds: the server sorts their rows. */
const MOST_PAGES = 100;
/** Counted rows of a smaller part of the usual day say nothing about the rest. */
const TELLING_SHARE = 0.01;
/** 13:30: half days have closed. A whole day has a third of its rows after it, and never less than this share. */
const AFTERNOON = 13.5 * 3600;
const LEAST_AFTERNOON = 0.02;
/** Precision of a stretch's end, seconds. */
const STEP_SECONDS = 60;

/**
 * The second before which the ends of full pages are asked now; `undefined`: it is not worth a request.
 * @param staged rows @param visible rows before this second are
 */
function planAhead(
  { limits, calendar }: ExportRun,
  date: string,
  { asked, seen }: Known,
  staged: number,
  visible: number,
): number | undefined {
  if (visible <= OPEN_SECOND) return undefined;
  const { rowLimit, dateRows } = limits;
  // The last date may have been a half day, which says nothing about the afternoon of a whole one.
  const last = limits.profile('time');
  const afternoon = shareOf(last, { from: { second: AFTERNOON }, to: { second: SECONDS_PER_DAY } });
  const profile = isHalfDay(date, calendar) || afternoon > LEAST_AFTERNOON ? last : usualProfile('time');
  const shareBefore = (second: number) => shareOf(profile, { from: { second: 0 }, to: { second } });
  const share = shareBefore(seen.second);
  const whole = share >= TELLING_SHARE ? seen.rows / share : dateRows;
  /** Pages that are not staged yet; infinite if nothing is known. */
  const pagesBefore = (second: number) => {
    if (whole === null) return Number.POSITIVE_INFINITY;
    return Math.max(0, seen.rows - staged + whole * (shareBefore(second) - share)) / rowLimit;
  };
  const pages = pagesBefore(visible);
  const isLast = visible >= closeSecond(date, 'equity', calendar);
  const isCheap = asked + 1 <= MOST_ASKED * (staged / rowLimit + pages);
  if (pages < MANY_PAGES && !(isLast && pages >= LAST_PAGES && isCheap)) return undefined;
  const most = Math.min(MOST_PAGES, ((limits.refusedRows ?? Number.POSITIVE_INFINITY) * 0.9) / rowLimit);
  let second = visible;
  while (second > OPEN_SECOND && pagesBefore(second) > most && Number.isFinite(pages)) second -= STEP_SECONDS;
  // A server that reads so few rows at once would need too many requests.
  return Math.min(pages, most) < LAST_PAGES || second <= OPEN_SECOND ? undefined : second;
}
