/**
 * Which sessions are over, as the source shows: by the counts, by what is sealed already, and otherwise by one small request
 * a run. Invariant: while the clocks differ, a missing answer never means that a date is over.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import { formatSecond } from '../../calendar/wall-clock.ts';
import type { SqlJob } from '../../job/job.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { type LastRows, readLastRows, showsEnd, visibleSince } from '../../plan/session-end.ts';
import { buildTail } from '../../plan/statement.ts';
import { type Page, type Source, SourceFault } from '../../source/source.ts';

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
  /** The answer to the one request: `refused`, or the tail of that date. */
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
