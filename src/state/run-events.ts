/**
 * The events of a run in progress, and their sum: rows, pages, rate and time left. Data for progress bars and logs, never
 * for decisions. Pure except for the clock passed in.
 */
import type { Clock } from '../core/clock.ts';

export const RUN_PHASES = ['planning', 'fetching', 'recounting', 'sealing', 'auditing', 'mailing'] as const;

type RunPhase = (typeof RUN_PHASES)[number];

/** `rows` is `undefined` when they cannot be counted beforehand. */
export type RunEvent = Readonly<
  | { kind: 'planned'; dates: readonly string[]; rows: number | undefined; pages: number }
  // The date is empty for a phase of the whole run. Fetching has its own events, `date` and `page`.
  | { kind: 'phase'; date: string; phase: RunPhase }
  | { kind: 'date'; date: string; rows: number | undefined; staged: number; pages: number }
  | { kind: 'page'; date: string; window: string; rows: number }
  | { kind: 'split'; date: string; window: string; reason: string }
  | { kind: 'recounted'; date: string; changed: number }
  | { kind: 'sealed'; date: string; rows: number; sizeBytes: number; requests: number }
  | { kind: 'failed'; date: string; reason: string }
  // `file`: of a mail in a folder.
  | { kind: 'mailed'; date: string; to: string; outcome: string; file?: string }
>;

export type OnRunEvent = (event: RunEvent) => void;

export type Totals = Readonly<ReturnType<RunTotals['read']>>;

/** Rows and least number of pages of a date: first as planned, then as counted when its turn comes. */
interface DateTally {
  rows: number;
  pages: number;
  staged: number;
  fetchedRows: number;
  fetchedPages: number;
  isOver: boolean;
}

export type RunTotals = ReturnType<typeof createTotals>;

export function createTotals(clock: Clock) {
  const tallies = new Map<string, DateTally>();
  /** Fetching time of past phases; recounting and sealing time does not count for the rate. */
  let fetchedMs = 0;
  let fetchingSinceMs: number | undefined;
  let date = '';
  let phase: RunPhase = 'planning';
  let window = '';
  let splits = 0;
  const sinceMs = () => (fetchingSinceMs === undefined ? 0 : clock.now() - fetchingSinceMs);
  const plan = (day: string, rows: number, pages: number, staged = 0) =>
    tallies.set(day, { rows, pages, staged, fetchedRows: 0, fetchedPages: 0, isOver: false });
  return { note, read };

  function note(event: RunEvent): void {
    if (event.kind === 'planned') {
      const each = event.dates.length === 0 ? 0 : 1 / event.dates.length;
      for (const day of event.dates) plan(day, (event.rows ?? 0) * each, event.pages * each);
      return;
    }
    if (event.date !== '') date = event.date;
    const tally = tallies.get(event.date);
    if (event.kind === 'phase') enter(event.phase);
    else if (event.kind === 'date') {
      enter('fetching');
      plan(event.date, event.rows ?? 0, event.pages, event.staged);
    } else if (event.kind === 'page') {
      enter('fetching');
      window = event.window;
      if (!tally) return;
      tally.fetchedRows += event.rows;
      tally.fetchedPages += 1;
    } else if (event.kind === 'split') splits += 1;
    else if (tally && (event.kind === 'sealed' || event.kind === 'failed')) tally.isOver = true;
  }

  /** Of all dates, as planned or counted so far. */
  function read() {
    const dates = [...tallies.values()];
    const sum = (of: (tally: DateTally) => number) => dates.reduce((total, tally) => total + of(tally), 0);
    const totalRows = Math.round(sum((tally) => (tally.isOver ? countDone(tally) : tally.rows)));
    const rows = sum(countDone);
    const pages = sum(({ fetchedPages }) => fetchedPages);
    const pagesLeft = Math.ceil(sum(countPagesLeft));
    const tookMs = fetchedMs + sinceMs();
    const rowsPerSecond = tookMs > 0 ? (sum(({ fetchedRows }) => fetchedRows) / tookMs) * 1000 : 0;
    const byRows = rowsPerSecond > 0 ? (Math.max(0, totalRows - rows) / rowsPerSecond) * 1000 : undefined;
    const byPages = pages > 0 ? (tookMs / pages) * pagesLeft : undefined;
    return {
      /** The date being worked on, and the last fetched window, for people; empty before the first. */
      date,
      window,
      phase,
      totalRows,
      /** Those already staged. */
      rows,
      /** Share of the run that is done, from 0 to 1: by rows, or by pages when rows are not counted. */
      share: totalRows > 0 ? Math.min(1, rows / totalRows) : pages / Math.max(1, pages + pagesLeft),
      /** That this run fetched, and that are left. */
      pages,
      pagesLeft,
      splits,
      /** Sealed or failed. */
      datesDone: dates.filter(({ isOver }) => isOver).length,
      datesTotal: dates.length,
      rowsPerSecond,
      /** `undefined` before the first page. */
      leftMs: totalRows > 0 ? byRows : byPages,
    };
  }

  function enter(next: RunPhase): void {
    phase = next;
    if (next === 'fetching') fetchingSinceMs ??= clock.now();
    else {
      fetchedMs += sinceMs();
      fetchingSinceMs = undefined;
    }
  }
}

function countDone({ staged, fetchedRows }: DateTally): number {
  return staged + fetchedRows;
}

function countPagesLeft({ rows, pages, staged, fetchedPages, isOver }: DateTally): number {
  if (isOver) return 0;
  const unstaged = rows > 0 ? Math.max(0, 1 - staged / rows) : 1;
  return Math.max(0, Math.round(pages * unstaged * 100) / 100 - fetchedPages);
}
