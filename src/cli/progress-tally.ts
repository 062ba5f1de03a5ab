/** What the events of a run add up to: rows, pages, pace and the time that is left. Pure but for the clock passed in. */
import type { Clock } from '../core/clock.ts';
import { formatCount, formatDuration } from '../core/units.ts';
import type { RunEvent } from '../run/events.ts';

export interface Tally {
  readonly date: string;
  /** Rows of all dates as far as they are counted, and those of them that are staged. */
  readonly totalRows: number;
  readonly rows: number;
  /** Pages fetched by this run, and those still to be fetched as far as dates are counted. */
  readonly pages: number;
  readonly pagesLeft: number;
  readonly splits: number;
  readonly rowsPerSecond: number;
  /** `undefined` before the first page. */
  readonly leftMs: number | undefined;
}

export class ProgressTally {
  readonly #clock: Clock;
  #startedAtMs: number | undefined;
  #date = '';
  #staged = 0;
  #fetched = 0;
  #pages = 0;
  #splits = 0;
  /** Rows and fewest pages of each date: as planned, then as counted when its turn comes. */
  readonly #dates = new Map<string, { rows: number; pages: number; isBegun: boolean }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  note(event: RunEvent): void {
    if (event.kind === 'planned') {
      const each = event.dates.length === 0 ? 0 : 1 / event.dates.length;
      for (const date of event.dates) {
        this.#dates.set(date, { rows: (event.rows ?? 0) * each, pages: event.pages * each, isBegun: false });
      }
      return;
    }
    this.#date = event.date;
    if (event.kind === 'date') {
      this.#startedAtMs ??= this.#clock.now();
      this.#dates.set(event.date, { rows: event.rows ?? 0, pages: event.pages, isBegun: true });
      this.#staged += event.staged;
    } else if (event.kind === 'page') {
      this.#fetched += event.rows;
      this.#pages += 1;
    } else if (event.kind === 'split') this.#splits += 1;
  }

  read(): Tally {
    const dates = [...this.#dates.values()];
    const totalRows = Math.round(dates.reduce((sum, { rows }) => sum + rows, 0));
    const totalPages = Math.ceil(dates.reduce((sum, { pages }) => sum + pages, 0));
    const rows = this.#staged + this.#fetched;
    const tookMs = this.#startedAtMs === undefined ? 0 : this.#clock.now() - this.#startedAtMs;
    const rate = tookMs > 0 ? (this.#fetched / tookMs) * 1000 : 0;
    const share = totalRows > 0 ? this.#staged / totalRows : 0;
    return {
      date: this.#date,
      totalRows,
      rows,
      pages: this.#pages,
      pagesLeft: Math.max(0, Math.round(totalPages * (1 - share)) - this.#pages),
      splits: this.#splits,
      rowsPerSecond: rate,
      leftMs: rate > 0 ? (Math.max(0, totalRows - rows) / rate) * 1000 : undefined,
    };
  }
}

/** One line: `1,200,000 of 7,000,000 rows, 580 pages left, 9,900 rows/s, 9 min 46 s left`. */
export function describeTally(tally: Tally): string {
  return [
    `${formatCount(tally.rows)} of ${formatCount(tally.totalRows)} rows`,
    `${formatCount(tally.pagesLeft)} pages left`,
    `${formatCount(tally.rowsPerSecond)} rows/s`,
    ...(tally.splits > 0 ? [`${tally.splits} splits`] : []),
    ...(tally.leftMs === undefined ? [] : [`${formatDuration(tally.leftMs)} left`]),
  ].join(', ');
}
