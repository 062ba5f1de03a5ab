/**
 * Which sessions the source of a run shows to be over: by the counts that are made anyway, by what is sealed already, and,
 * only when those do not show it, by one more small request a run. Invariant: a date is never called over for want of an
 * answer while the clocks differ.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import { formatSecond } from '../../calendar/wall-clock.ts';
import type { SqlJob } from '../../job/job.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { type LastRows, readLastRows, showsEnd, visibleSince } from '../../plan/session-end.ts';
import { buildTail } from '../../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../../source/source.ts';

export interface SessionEndDeps {
  readonly source: Source;
  readonly signal?: AbortSignal | undefined;
}

export interface SessionEnds {
  /** Takes what was counted of a date. */
  note(date: string, counts: DayCounts): void;
  /** When the newest row that was seen became visible at the earliest; `undefined` before one was seen. */
  rowMs(): number | undefined;
  /**
   * Why a date cannot be called over, in words; `undefined` when the source shows that it is.
   * @param latest the last date of this run: what shows that it is over shows that all are
   * @param doClocksAgree whether the server's clock and this machine's are known and agree: they decide where the source
   *   refuses to show anything
   * @throws SourceFault when the API does not answer
   */
  explain(deps: SessionEndDeps, date: string, latest: string, doClocksAgree: boolean): Promise<string | undefined>;
}

/** @param newestSealed the newest date of the dataset that is sealed: sessions before it are over */
export function createSessionEnds(
  job: SqlJob,
  newestSealed: string | undefined,
  calendar: CalendarOverride | undefined,
): SessionEnds {
  const last = new Map<string, LastRows>();
  let row: { readonly date: string; readonly second: number } | undefined;
  /** Sessions up to here are over. */
  let through = '';
  /** Of the one request: `refused`, or what the tail of that date has. */
  let tail: { readonly date: string; readonly rows: LastRows | 'refused' } | undefined;

  const see = (date: string, { newest }: LastRows) => {
    if (newest === undefined) return;
    if (row === undefined || date > row.date || (date === row.date && newest > row.second)) {
      row = { date, second: newest };
    }
  };
  const isShown = (date: string) =>
    date <= through || (newestSealed !== undefined && date < newestSealed) || (row !== undefined && date < row.date);
  const describe = (date: string) => {
    const newest = row?.date === date ? row.second : last.get(date)?.newest;
    // Counted by symbol, or by the day, only the rows of its end have a time.
    const seen = !newest ? 'no row of its end' : `rows until ${formatSecond(newest)} (exchange time)`;
    return `the source shows ${seen}, and none of a later session`;
  };
  return {
    note(date, counts) {
      if (counts.length === 0) return;
      const rows = readLastRows(job, date, counts, calendar);
      // Without a time it is known that there are rows of the date: those before it are over.
      see(date, rows ?? { newest: 0, tail: 0, late: 0 });
      if (rows === undefined) return;
      last.set(date, rows);
      if (date > through && showsEnd(date, rows, false, calendar)) through = date;
    },
    rowMs: () => row && visibleSince(row.date, row.second),
    async explain(deps, date, latest, doClocksAgree) {
      if (isShown(date)) return undefined;
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
  };
}

/** The end of a session in the whole table, without the job's own condition: few rows of it are read. */
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

/** Whether the API does not want this query, rather than being away: what it was for can be had without it. */
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
