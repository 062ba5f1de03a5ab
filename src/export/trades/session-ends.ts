/**
 * Which sessions are over, as the source shows: by rows of a later session, by the counts beside those of like sessions that
 * are sealed, and where these are too few by the last rows alone, or by one small request a run. Invariant: while the clocks
 * differ, a missing answer never means that a date is over.
 */
import { SESSION_END_SECOND } from '../../calendar/segments.ts';
import {
  closedSecond,
  FEWEST_LIKE_SESSIONS,
  hasCurb,
  isLike,
  isSession,
  previousSessions,
  sessionCloseSecond,
} from '../../calendar/session.ts';
import { formatMinute, formatSecond, parseSecond, SECONDS_PER_DAY } from '../../calendar/wall-clock.ts';
import { parquetFile } from '../../engine/literal.ts';
import type { SqlJob } from '../../job/job.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { type LastRows, readLastRows, showsEnd, visibleSince } from '../../plan/session-end.ts';
import {
  cutShape,
  judgeSymbols,
  judgeTimes,
  type Lack,
  type LikeSession,
  shapeTimes,
  type TimeShape,
} from '../../plan/session-habit.ts';
import { buildTail } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { readShape } from '../../seal/summary.ts';
import { SourceFault } from '../../source/source.ts';
import { askBroadly, isRefusal } from './scan.ts';

/** Sessions that are looked at: a habit is what most of them have. */
const LIKE_SESSIONS = 5;
/** Sessions before a date among which they are looked for. */
const REACH = 15;

/** The check that a sealed date failed which may have lacked its end. */
export const SESSION_END_CHECK = 'session-end';

/** Rows and second of the last row, by symbol. */
type LastBySymbol = ReadonlyMap<string, { readonly rows: number; readonly last: number }>;

export class SessionEnds {
  readonly #api: OpenedSql;
  readonly #run: ExportRun | undefined;
  readonly #sealed: Set<string>;
  /** Sessions before it are over. */
  readonly #newestSealed: string;
  /** Of each counted date; `end`: the second of its last row, of whatever segment. */
  readonly #counted = new Map<string, { rows: LastRows; end: number; shape: TimeShape | undefined }>();
  readonly #like = new Map<string, Promise<LikeSession | undefined>>();
  /** Place of the newest row that was seen. */
  #row: { readonly date: string; readonly second: number } | undefined;
  /** Sessions up to here are over. */
  #through = '';
  /** The answer to the one request: the tail of the last date of the run. */
  #tail: LastRows | 'refused' | undefined;

  /**
   * @param sealed dates that have a manifest
   * @param run which reads those of them that are like a date, each once: manifests, counts and summaries of some kilobytes;
   *   without it, the last rows alone decide
   */
  constructor(api: OpenedSql, sealed: ReadonlySet<string>, run: ExportRun | undefined) {
    this.#api = api;
    this.#run = run;
    this.#sealed = new Set(sealed);
    this.#newestSealed = [...sealed].sort().at(-1) ?? '';
  }

  /** Records the counts of a date. */
  note(date: string, counts: DayCounts): void {
    if (counts.length === 0) return;
    const { job, calendar } = this.#api;
    const rows = readLastRows(job, date, counts, calendar);
    // Rows without times still show that the dates before are over.
    this.#see(date, rows ?? { newest: 0, tail: 0, late: 0 });
    if (rows === undefined) return;
    this.#counted.set(date, { rows, end: counts.at(-1)?.second ?? 0, shape: shapeTimes(counts) });
    if (date > this.#through && showsEnd(date, rows, false, calendar)) this.#through = date;
  }

  /**
   * Why a date may not be over, in words; `undefined` when the source shows that it is, or need not.
   * @param latest the last date of this run: if it is over, all are
   * @throws SourceFault when the API does not answer
   */
  async explain(date: string, latest: string): Promise<string | undefined> {
    const { job, calendar, clocks } = this.#api;
    if (!clocks.isChecked || this.#isPast(date)) return undefined;
    const habit = await this.#judge(date);
    if (habit === 'ended') return undefined;
    if (habit !== undefined && isWholeTable(job)) return describeLack(habit);
    // Few rows of a few symbols may end early: the whole table shows whether the session did.
    if (habit === undefined && this.#isShown(date)) return undefined;
    if (this.#tail === undefined) {
      this.#tail = await askTail(this.#api, latest);
      if (this.#tail !== 'refused') {
        this.#see(latest, this.#tail);
        if (showsEnd(latest, this.#tail, true, calendar) && latest > this.#through) this.#through = latest;
      }
    }
    // Where the source refuses to show anything, the clocks decide.
    if (this.#isShown(date) || (this.#tail === 'refused' && clocks.doAgree())) return undefined;
    const newest = this.#row?.date === date ? this.#row.second : this.#counted.get(date)?.rows.newest;
    // Counts by symbol or day have no times, except at the end of the session.
    const seen = !newest ? 'no rows from its last minutes' : `rows until ${formatSecond(newest)} (exchange time)`;
    return `the source has ${seen}, and no rows of a later session`;
  }

  /**
   * What lacks of a date beside like sessions, by its last counts or by the last rows of its symbols.
   * @param bySymbol asked for only where there is something to compare with
   */
  async findLack(
    date: string,
    bySymbol: () => Promise<LastBySymbol>,
  ): Promise<(Lack & { sessions: string[] }) | undefined> {
    const sessions = await this.#listLike(date);
    const habit = await this.#judge(date);
    const symbols = sessions.flatMap((session) => session.symbols ?? []);
    const lack =
      typeof habit === 'object'
        ? habit
        : symbols.length > 0 && judgeSymbols(await bySymbol(), symbols, this.#coveredSecond(date));
    return lack ? { ...lack, sessions: sessions.map((session) => session.date) } : undefined;
  }

  /**
   * The end of the segments that the rows of a date cover now, `16:15`; `undefined` where they cover all that like sessions
   * have: three of the last five.
   */
  async through(date: string): Promise<string | undefined> {
    const { calendar, clocks } = this.#api;
    const usual = await this.#usualEnd(date);
    if (usual === 0) return undefined;
    const isOver = (second: number) => clocks.earliest() >= clocks.settledAt(date, second);
    if (!isOver(SESSION_END_SECOND)) return formatMinute(sessionCloseSecond(date, calendar));
    return usual > SESSION_END_SECOND && !isOver(SECONDS_PER_DAY) ? formatMinute(SESSION_END_SECOND) : undefined;
  }

  /** Whether the curb of a date is awaited before it is sealed. */
  async awaitsCurb(date: string): Promise<boolean> {
    const { job, calendar } = this.#api;
    if (job.settleUntil === 'close') return false;
    if (job.settleUntil === 'curb' && hasCurb(date, calendar)) return true;
    return (await this.#usualEnd(date)) > 0;
  }

  /** Whether a date is over whatever it lacks: there are rows of a later session. */
  isOver(date: string): boolean {
    return this.#isPast(date) || (!isWholeTable(this.#api.job) && this.#isShown(date));
  }

  /** This run has sealed the date. */
  noteSealed(date: string): void {
    this.#sealed.add(date);
    this.#like.delete(date);
  }

  #see(date: string, { newest }: LastRows): void {
    if (newest === undefined) return;
    const row = this.#row;
    if (row === undefined || date > row.date || (date === row.date && newest > row.second)) {
      this.#row = { date, second: newest };
      this.#api.clocks.see(visibleSince(date, newest));
    }
  }

  #isPast(date: string): boolean {
    return date < this.#newestSealed || (this.#row !== undefined && date < this.#row.date);
  }

  #isShown(date: string): boolean {
    return date <= this.#through || this.#isPast(date);
  }

  async #judge(date: string): Promise<ReturnType<typeof judgeTimes>> {
    const today = this.#counted.get(date)?.shape;
    const sessions = await this.#listLike(date);
    const end = this.#coveredSecond(date);
    const like = sessions.flatMap(({ times }) => (times === undefined ? [] : [cutShape(times, end)]));
    return today && judgeTimes(cutShape(today, end), like);
  }

  /** The second of the day up to which a date must have its rows: what comes later holds no date. */
  #coveredSecond(date: string): number {
    const { calendar, clocks } = this.#api;
    const isOver = clocks.earliest() >= clocks.settledAt(date, SESSION_END_SECOND);
    return isOver ? SESSION_END_SECOND : closedSecond(date, calendar);
  }

  /**
   * The second of the day that three of the last five sessions reach after their close: at least the end of the curb; 0 where
   * they have no such rows, or fewer are known. Whether half days have a curb, the whole days before them tell.
   */
  async #usualEnd(date: string): Promise<number> {
    const { calendar } = this.#api;
    const counted = [...this.#counted].flatMap(([other, { end }]) => (other < date ? [[other, end] as const] : []));
    const sealed = (await this.#listLike(date, isSession)).filter((session) => !this.#counted.has(session.date));
    const known = [...counted, ...sealed.flatMap(({ date: other, last = 0 }) => [[other, last] as const])];
    const ends = known
      .sort(([a], [b]) => (a < b ? 1 : -1))
      .slice(0, LIKE_SESSIONS)
      .map(([other, last]) => (last < closedSecond(other, calendar) ? 0 : Math.max(last, SESSION_END_SECOND)));
    return ends.sort((a, b) => b - a)[FEWEST_LIKE_SESSIONS - 1] ?? 0;
  }

  /** Complete sessions before a date, those that ended at the same hour unless told otherwise, newest first. */
  async #listLike(date: string, isMeant?: typeof isSession): Promise<readonly LikeSession[]> {
    const run = this.#run;
    if (run === undefined) return [];
    const { calendar } = run;
    const isTaken = (other: string) => isMeant?.(other, calendar) ?? isLike(other, date, calendar);
    const dates = previousSessions(date, REACH, calendar)
      .filter((other) => other < date && this.#sealed.has(other) && isTaken(other))
      .reverse();
    const found: LikeSession[] = [];
    // At once as many as there lack, which is all of them but where some are no measure.
    for (let at = 0; at < dates.length && found.length < LIKE_SESSIONS; ) {
      const next = dates.slice(at, at + LIKE_SESSIONS - found.length);
      at += next.length;
      const reading = next.map(async (other) => {
        const known = this.#like.get(other) ?? readLike(run, this.#api.job, other);
        this.#like.set(other, known);
        return await known;
      });
      found.push(...(await Promise.all(reading)).flatMap((session) => session ?? []));
    }
    return found;
  }
}

/** @returns `undefined` for a session that is no measure: incomplete, in doubt itself, or of other rows */
async function readLike(run: ExportRun, { source }: SqlJob, date: string): Promise<LikeSession | undefined> {
  const { ledger, engine, state, signal } = run;
  const manifest = await ledger.validManifest(date);
  const filter = ('where' in source && source.where) || undefined;
  if (manifest === undefined || manifest.filter !== filter) return undefined;
  // What is held for its new rows has its old ones, which were complete.
  const isHeldWhole = manifest.held !== undefined && manifest.held === manifest.degraded_reason;
  if (manifest.condition !== 'available' && !isHeldWhole) return undefined;
  if (manifest.checks.some(({ check, passed }) => check === SESSION_END_CHECK && !passed)) return undefined;
  // A file that is lost or damaged says nothing; `verify` tells of it.
  const read = async <T>(name: string | null | undefined, act: (path: string) => Promise<T>) =>
    await ledger.withFile(manifest, name, `${state.drop(date)}.like-${name}`, act, signal);
  const times = await read(manifest.counts, async (path) => {
    const cells = await engine.rows<{ readonly second: number; readonly rows: number }>(
      `SELECT second, toFloat64(n) AS rows FROM (SELECT second, rows AS n FROM ${parquetFile(path, 'symbol Nullable(String), second Int32, rows Int64')} WHERE symbol IS NULL)`,
    );
    return shapeTimes(cells);
  });
  const shape = await read(manifest.summary, (path) => readShape(engine, manifest, path));
  const last = manifest.max_time?.startsWith(date) ? parseSecond(manifest.max_time.slice(11, 19)) : undefined;
  return { date, times, last, symbols: shape?.symbols };
}

export function describeLack({ says }: Pick<Lack, 'says'>): string {
  return `the source does not show its end: ${says}; it has no rows of a later session`;
}

/** Whether a job asks for all rows: then the table's last rows are its own. */
function isWholeTable({ source }: SqlJob): boolean {
  return source.kind === 'rows' && source.where === '' && source.sql === '';
}

/** The end of a session in the whole table, without the job's filter: reads few rows. */
async function askTail(api: OpenedSql, date: string): Promise<LastRows | 'refused'> {
  const page = await askBroadly(api, buildTail(api.job, date, api.calendar), isRefusal);
  if (page instanceof SourceFault) return 'refused';
  const [row] = JSON.parse(Buffer.from(page.data).toString('utf8')) as readonly Record<string, unknown>[];
  const [tail, late] = [Number(row?.['rows']), Number(row?.['late'])];
  if (!Number.isFinite(tail) || !Number.isFinite(late)) return 'refused';
  const newest = String(row?.['newest']);
  if (tail === 0 || !newest.startsWith(date)) return { newest: undefined, tail: 0, late: 0 };
  return { newest: parseSecond(newest.slice(11, 19)), tail, late };
}
