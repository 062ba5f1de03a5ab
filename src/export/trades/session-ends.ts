/**
 * Which sessions are over, as the source shows: by rows of a later session, by the counts beside those of like sessions that
 * are sealed, and where these are too few by the last rows alone, or by one small request a run. Invariant: while the clocks differ, a missing answer never means that a date is over.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import { formatSecond } from '../../calendar/wall-clock.ts';
import type { SqlJob } from '../../job/job.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { type LastRows, lastTradeSecond, readLastRows, showsEnd, visibleSince } from '../../plan/session-end.ts';
import { judgeSymbols, judgeTimes, type Lack, shapeTimes, type TimeShape } from '../../plan/session-habit.ts';
import { buildTail } from '../../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../../source/source.ts';
import type { LikeSessions } from './like-sessions.ts';

interface SessionEndDeps {
  readonly source: Source;
  readonly signal?: AbortSignal | undefined;
}

export interface SessionEnds {
  /** Records the counts of a date. */
  note(date: string, counts: DayCounts): void;
  /** The earliest instant at which the newest row became visible; `undefined` before any row. */
  rowMs(): number | undefined;
  /**
   * Why a date may not be over, in words; `undefined` when the source shows that it is.
   * @param latest the last date of this run: if it is over, all are
   * @param doClocksAgree whether the server's clock and this machine's are known and agree: they decide where the source
   *   refuses to show anything
   * @throws SourceFault when the API does not answer
   */
  explain(deps: SessionEndDeps, date: string, latest: string, doClocksAgree: boolean): Promise<string | undefined>;
  /**
   * What lacks of a date beside like sessions, by its last counts or by the last rows of its symbols.
   * @param bySymbol rows and second of the last row, asked for only where there is something to compare them with
   */
  findLack(date: string, bySymbol: () => Promise<LastBySymbol>): Promise<(Lack & { sessions: string[] }) | undefined>;
  /** Whether a date is over whatever it lacks: there are rows of a later session. */
  isOver(date: string): boolean;
  /** This run has sealed the date. */
  noteSealed(date: string): void;
}

export type LastBySymbol = ReadonlyMap<string, { readonly rows: number; readonly last: number }>;

/**
 * @param newestSealed the newest date of the dataset that is sealed: sessions before it are over
 * @param like the sealed sessions; without them, the last rows alone decide
 */
export function createSessionEnds(
  job: SqlJob,
  newestSealed: string | undefined,
  calendar: CalendarOverride | undefined,
  like?: LikeSessions,
): SessionEnds {
  const shapes = new Map<string, TimeShape | undefined>();
  const last = new Map<string, LastRows>();
  let row: { readonly date: string; readonly second: number } | undefined;
  /** Sessions up to here are over. */
  let through = '';
  /** The answer to the one request: `refused`, or the tail of that date. */
  let tail: { readonly date: string; readonly rows: LastRows | 'refused' } | undefined;

  const see = (date: string, { newest }: LastRows) => {
    if (newest === undefined) return;
    if (row === undefined || date > row.date || (date === row.date && newest > row.second)) {
      row = { date, second: newest };
    }
  };
  const isPast = (date: string) =>
    (newestSealed !== undefined && date < newestSealed) || (row !== undefined && date < row.date);
  const isShown = (date: string) => date <= through || isPast(date);
  const judge = async (date: string) => {
    const [today, sessions] = [shapes.get(date), (await like?.before(date)) ?? []];
    return (
      today &&
      judgeTimes(
        today,
        sessions.flatMap(({ times }) => times ?? []),
      )
    );
  };
  const describe = (date: string) => {
    const newest = row?.date === date ? row.second : last.get(date)?.newest;
    // Counts by symbol or day have no times, except at the end of the session.
    const seen = !newest ? 'no rows from its last minutes' : `rows until ${formatSecond(newest)} (exchange time)`;
    return `the source has ${seen}, and no rows of a later session`;
  };
  return {
    note(date, counts) {
      if (counts.length === 0) return;
      const rows = readLastRows(job, date, counts, calendar);
      // Rows without times still show that the dates before are over.
      see(date, rows ?? { newest: 0, tail: 0, late: 0 });
      if (rows === undefined) return;
      last.set(date, rows);
      shapes.set(date, shapeTimes(counts, lastTradeSecond(date, calendar)));
      if (date > through && showsEnd(date, rows, false, calendar)) through = date;
    },
    rowMs: () => row && visibleSince(row.date, row.second),
    async explain(deps, date, latest, doClocksAgree) {
      if (isPast(date)) return undefined;
      const habit = await judge(date);
      if (habit === 'ended') return undefined;
      if (habit !== undefined && isWholeTable(job)) return describeLack(habit);
      // Few rows of a few symbols may end early: the whole table shows whether the session did.
      if (habit === undefined && isShown(date)) return undefined;
      if (tail === undefined) {
        const rows = await askTail(deps, job, latest, calendar);
        tail = { date: latest, rows };
        if (rows !== 'refused') {
          see(latest, rows);
          if (showsEnd(latest, rows, true, calendar) && latest > through) through = latest;
        }
      }
      if (isShown(date) || (tail.rows === 'refused' && doClocksAgree)) return undefined;
      return describe(date);
    },
    async findLack(date, bySymbol) {
      const sessions = (await like?.before(date)) ?? [];
      const habit = await judge(date);
      const symbols = sessions.flatMap((session) => session.symbols ?? []);
      const lack = typeof habit === 'object' ? habit : symbols.length > 0 && judgeSymbols(await bySymbol(), symbols);
      return lack ? { ...lack, sessions: sessions.map((session) => session.date) } : undefined;
    },
    isOver: (date) => isPast(date) || (!isWholeTable(job) && isShown(date)),
    noteSealed: (date) => like?.add(date),
  };
}

export function describeLack({ says }: Pick<Lack, 'says'>): string {
  return `the source does not show its end: ${says}; it has no rows of a later session`;
}

/** Whether a job asks for all rows: then the table's last rows are its own. */
function isWholeTable({ source }: SqlJob): boolean {
  return source.kind === 'rows' && source.where === '' && source.sql === '';
}

/** The end of a session in the whole table, without the job's filter: reads few rows. */
async function askTail(
  { source, signal }: SessionEndDeps,
  job: SqlJob,
  date: string,
  calendar: CalendarOverride | undefined,
): Promise<LastRows | 'refused'> {
  try {
    return readTail(await source.ask(buildTail(job, date, calendar), { signal }), date);
  } catch (error) {
    if (!(error instanceof SourceFault) || !isRefusal(error)) throw error;
    return 'refused';
  }
}

/** Whether the API refuses this query, rather than being down: the run can do without it. */
export function isRefusal({ action, code }: SourceFault): boolean {
  return action === 'split' || code.startsWith('INVALID_');
}

function readTail(page: Page, date: string): LastRows | 'refused' {
  const [row] = JSON.parse(Buffer.from(page.data).toString('utf8')) as readonly Record<string, unknown>[];
  const [tail, late] = [Number(row?.['rows']), Number(row?.['late'])];
  const [, hours, minutes, seconds] = /^\S+ (\d\d):(\d\d):(\d\d)/.exec(String(row?.['newest'])) ?? [];
  if (!Number.isFinite(tail) || !Number.isFinite(late)) return 'refused';
  if (tail === 0 || !String(row?.['newest']).startsWith(date)) return { newest: undefined, tail: 0, late: 0 };
  return { newest: Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds), tail, late };
}
