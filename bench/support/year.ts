/**
 * A generated year of sealed sessions, as runs leave them in a directory. Invariant: the folder's name says what is in it,
 * so that it is made once and used again; one whose making was cut short is continued. It stays until somebody removes it.
 */
import { mkdir } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { listSessions } from '../../src/calendar/session.ts';
import { addDays } from '../../src/calendar/wall-clock.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { runChild, say } from './bench.ts';

export const YEAR_DATASET = 'trades';

export interface YearSize {
  readonly sessions: number;
  /** Trades of each session. */
  readonly rows: number;
}

export interface Year extends YearSize {
  /** Root of the store. */
  readonly folder: string;
  /** Ascending. */
  readonly dates: readonly string[];
  /** Of all files with rows. */
  readonly sizeBytes: number;
}

/** Given to each process that makes sessions. */
export interface YearPart {
  readonly folder: string;
  readonly dates: readonly string[];
  readonly rows: number;
}

/** The first session; the next ones follow it, so that a year that was cut short is a shorter year. */
const FIRST_DATE = '2025-11-24';

/** Beyond twice the sessions: holidays and weekends at once. */
const DAYS_MORE = 10;

/** @param place where the folders of years are kept */
export async function makeYear({ sessions, rows }: YearSize, place = tmpdir()): Promise<Year> {
  const folder = join(place, `flowdrop-bench-year-${sessions}x${rows}`);
  const dates = listSessions(FIRST_DATE, addDays(FIRST_DATE, 2 * sessions + DAYS_MORE)).slice(0, sessions);
  await mkdir(folder, { recursive: true });
  const store = await openDirectoryStore(folder);
  try {
    const sealed = new Set((await new Ledger(store, YEAR_DATASET).list()).map(({ date }) => date));
    const missing = dates.filter((date) => !sealed.has(date));
    if (missing.length > 0) say(`archive: making ${missing.length} sessions of ${rows} rows in ${folder} ...`);
    const processes = Math.min(availableParallelism(), missing.length);
    await Promise.all(
      Array.from({ length: processes }, async (_, turn) => {
        const part: YearPart = { folder, rows, dates: missing.filter((_date, index) => index % processes === turn) };
        await runChild('year-child.ts', [JSON.stringify(part)]);
      }),
    );
    const drops = (await new Ledger(store, YEAR_DATASET).list()).flatMap((found) => [...found.drops.values()]);
    return { sessions, rows, folder, dates, sizeBytes: drops.reduce((sum, size) => sum + size, 0) };
  } finally {
    await store.close();
  }
}
