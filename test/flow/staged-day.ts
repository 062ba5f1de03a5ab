/**
 * A session that runs while a worker stages it: rows become visible at the source as the clock moves, 15 minutes after they
 * were traded. The worker is the program as a user runs it; the source has the contract's shapes and a real engine.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { closeSecond, OPEN_SECOND, sessionCloseSecond } from '../../src/calendar/session.ts';
import { formatSecond, parseWallClock } from '../../src/calendar/wall-clock.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { startFront } from '../chaos/front.ts';
import type { TableRow } from '../chaos/rows.ts';
import { ChaosTable } from '../chaos/table.ts';
import { openTruth } from '../chaos/truth.ts';
import { isPage } from '../support/engine-source.ts';
import { flowdrop, KEY, type RunOptions } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { createTrade } from '../support/trades.ts';

export const LIMIT = 50;
const DELAY_MS = 15 * 60_000;
/** Rows after the close of stock options, of all. */
const LATE_SHARE = 0.01;

export type StagedDay = Awaited<ReturnType<typeof createStagedDay>>;

/** Row `k` of `rows`: five times as many at both ends of the session, few after the close of stock options. */
export function createRow(
  date: string,
  rows: number,
  k: number,
  changes: Readonly<Record<string, unknown>> = {},
): TableRow {
  const [close, last] = [closeSecond(date, 'equity'), sessionCloseSecond(date)];
  const regular = Math.floor(rows * (1 - LATE_SHARE));
  const second =
    k < regular
      ? OPEN_SECOND + Math.floor((close - OPEN_SECOND - 1) * reach(k / regular))
      : close + Math.floor(((last - close) * (k - regular)) / (rows - regular));
  const id = `row-${String(k).padStart(7, '0')}`;
  return { id, values: { ...createTrade(k), id, date, time: `${date} ${formatSecond(second)}`, ...changes } };
}

/** The part of a session that has passed when so much of its rows is there. */
function reach(share: number): number {
  return share - (0.8 * Math.sin(2 * Math.PI * share)) / (2 * Math.PI);
}

function countFewest(rows: readonly TableRow[]): number {
  const seconds = new Map<unknown, number>();
  for (const { values } of rows) seconds.set(values['time'], (seconds.get(values['time']) ?? 0) + 1);
  let [pages, open] = [1, 0];
  for (const n of seconds.values()) {
    if (open + n > LIMIT) [pages, open] = [pages + 1, 0];
    open += n;
  }
  return pages;
}

interface StagedDayOptions {
  readonly date: string;
  readonly rows: number;
  readonly schedule?: string;
  /** Rows of earlier dates. */
  readonly before?: readonly TableRow[];
}

export async function createStagedDay(cwd: string, { date, rows, schedule = '', before = [] }: StagedDayOptions) {
  const folder = join(cwd, 'clock');
  await mkdir(folder);
  const clock = await createMovedClock(folder, parseWallClock(date, OPEN_SECOND));
  const table = await ChaosTable.create('time', before);
  const front = await startFront({ table, rowLimit: LIMIT, isPage, now: () => clock.now() });
  const env = {
    ...clock.env,
    ...{ FLOWDROP_API_URL: front.url, FLOWDROP_PORTAL_URL: front.url, FLOWDROP_API_KEY: KEY },
    FLOWDROP_REQUESTS_PER_SECOND: '200',
  };
  const job = await writeJob(cwd, { name: 'nightly', reports: '', schedule });
  const all = Array.from({ length: rows }, (_, k) => createRow(date, rows, k));
  let shown = 0;
  return {
    ...{ cwd, job, clock, front, table, env },
    /** Fewest requests that its rows can be fetched with, in windows that end between seconds. */
    fewest: countFewest(all),
    /** Moves the clock to a time of the day in New York, and shows what is visible by then. */
    async moveTo(time: string, ...pids: readonly number[]) {
      const [hours = 0, minutes = 0] = time.split(':').map(Number);
      const ms = parseWallClock(date, hours * 3600 + minutes * 60);
      const visible = all.findIndex(({ values }) => timeOf(values) > ms - DELAY_MS);
      const next = visible < 0 ? rows : Math.max(visible, shown);
      await table.change({ remove: [], add: all.slice(shown, next) });
      shown = next;
      await clock.moveTo(ms, ...pids);
    },
    stage: (options: Pick<RunOptions, 'onStart'> = {}) =>
      flowdrop(['--json', 'run', job, '--stage'], { cwd, env, ...options }),
    run: () => flowdrop(['--json', 'run', job], { cwd, env }),
    /** How a sealed drop differs from the source. Default: that of the session. */
    async compare(of = date, drops = 'drops') {
      const file = join(cwd, 'truth.ndjson');
      const wanted = table.rows.filter(({ values }) => values['date'] === of);
      await writeFile(file, wanted.map(({ values }) => `${JSON.stringify(values)}\n`).join(''));
      const truth = await openTruth(file);
      try {
        return await truth.compare(join(cwd, drops, dropKey('trades', of)));
      } finally {
        truth.close();
      }
    },
    async close() {
      await front.close();
      await table.drop();
    },
  };
}

function timeOf(values: Readonly<Record<string, unknown>>): number {
  const [date = '', time = ''] = String(values['time']).split(' ');
  const [hours = 0, minutes = 0, seconds = 0] = time.split(':').map(Number);
  return parseWallClock(date, hours * 3600 + minutes * 60 + seconds);
}

/** Times of the day from one to the other, so many minutes apart. */
export function listTimes(from: string, to: string, stepMinutes: number): readonly string[] {
  const minutesOf = (time: string) => {
    const [hours = 0, minutes = 0] = time.split(':').map(Number);
    return hours * 60 + minutes;
  };
  const times: string[] = [];
  for (let at = minutesOf(from); at <= minutesOf(to); at += stepMinutes) times.push(formatSecond(at * 60).slice(0, 5));
  return times;
}
