/**
 * The pages that every way converts: raw answers of the service, one file each, fetched once with the windows that the
 * worker itself would plan. Each way reads the same files, so that none is helped by what another has parsed.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { formatWindow } from '../../src/calendar/window.ts';
import { systemClock } from '../../src/core/clock.ts';
import { probeDates } from '../../src/export/trades/probe.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { readJob } from '../../src/job/job-folder.ts';
import { Clocks } from '../../src/plan/clocks.ts';
import { computeLookback, listSettled } from '../../src/plan/dates.ts';
import { packWindows } from '../../src/plan/pack.ts';
import { buildPage } from '../../src/plan/statement.ts';
import { createHistoricalSource } from '../../src/source/historical.ts';
import { ApiLimits } from '../../src/state/limits.ts';
import { assertSqlJob } from '../../test/support/jobs.ts';
import { createSilentLog } from '../../test/support/log.ts';
import { createPacer } from '../../test/support/pacer.ts';
import { PAGE_ROWS, say } from './bench.ts';
import { JOB_FILE, KEY, REQUESTS_PER_SECOND, withService } from './product.ts';

export interface PageSet {
  readonly date: string;
  readonly rows: number;
  readonly bytes: number;
  /** Window of each page and the path of its file. */
  readonly pages: readonly { readonly window: string; readonly path: string }[];
}

const INDEX = 'pages.json';

export async function readPageSet(folder: string): Promise<PageSet> {
  return JSON.parse(await readFile(join(folder, INDEX), 'utf8')) as PageSet;
}

export async function readBenchJob(): Promise<SqlJob> {
  const job = await readJob(JOB_FILE, '');
  assertSqlJob(job);
  return job;
}

/**
 * Makes the ids of a page those of another copy, in place: the first two digits, which are those of the year, become the
 * copy's number. The rows of all copies have the same times, so that sorting has to interleave them.
 */
export function markCopy(body: Buffer, copy: number): void {
  const start = '{"id":"';
  const digits = Buffer.from(String(copy).padStart(2, '0'));
  for (let at = body.indexOf(start); at >= 0; at = body.indexOf(start, at)) {
    at += start.length;
    digits.copy(body, at);
  }
}

/** Fills the folder with the pages of one generated session. */
export async function fetchPages(folder: string, rows: number): Promise<PageSet> {
  say(`generating ${rows} rows`);
  return await withService(rows, async ({ url }) => await fetchPagesFrom(url, folder, rows));
}

/** The same from a service that has the session. @param url of the service */
export async function fetchPagesFrom(url: string, folder: string, rows: number): Promise<PageSet> {
  say(`fetching ${rows} rows in pages of ${PAGE_ROWS} ...`);
  await mkdir(folder, { recursive: true });
  const job = await readBenchJob();
  const { date, windows } = await planPages(job, url + HISTORICAL_PATH);
  const pages: { window: string; path: string }[] = [];
  let bytes = 0;
  for (const [index, window] of windows.entries()) {
    const body = await post(url + HISTORICAL_PATH, buildPage(job, window, 'open'));
    const path = join(folder, `${String(index).padStart(6, '0')}.json`);
    await writeFile(path, body);
    bytes += body.byteLength;
    pages.push({ window: formatWindow(window), path });
  }
  const set: PageSet = { date, rows, bytes, pages };
  await writeFile(join(folder, INDEX), JSON.stringify(set));
  return set;
}

/** The one generated date and its windows. */
async function planPages(job: SqlJob, url: string) {
  const clock = systemClock;
  const pacer = createPacer(clock, { requestsPerSecond: REQUESTS_PER_SECOND });
  const options = { url, apiKey: KEY, expectsMeta: true, clockOffsetMs: 0 };
  const source = createHistoricalSource(options, { clock, pacer, log: createSilentLog() });
  const limits = await new ApiLimits('', clock.now()).load();
  const clocks = new Clocks(clock, source, job);
  const api = { kind: 'sql', job, source, limits, clocks, log: createSilentLog() } as const;
  const found = await probeDates(api, listSettled(computeLookback(clock.now())));
  const [first] = found ?? [];
  if (!first) throw new Error('the service has no rows of a settled session');
  const [date, counts] = first;
  return { date, windows: packWindows(date, counts, [], limits.rowLimit) };
}

/** The raw body: the client of the worker gives only its parts. */
async function post(url: string, sql: string): Promise<Uint8Array> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: KEY, sql }),
  });
  if (!response.ok) throw new Error(`the service answered ${response.status}: ${await response.text()}`);
  return new Uint8Array(await response.arrayBuffer());
}
