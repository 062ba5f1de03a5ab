/**
 * From the last page to the mail: a session is staged while it runs, the API's delay lets its last rows out, and one run
 * fetches them, counts the date again, seals it and hands over the report. Beside it DuckDB, which begins with all pages on
 * disk as JSON and only converts them, or also computes the headline. Service, worker and DuckDB are processes of their own.
 */
import { readFileSync } from 'node:fs';
import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sessionCloseSecond } from '../src/calendar/session.ts';
import { parseWallClock } from '../src/calendar/wall-clock.ts';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatCount } from '../src/core/units.ts';
import { openDuckDb } from '../test/support/drop.ts';
import { median, type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { fetchPagesFrom } from './support/pages.ts';
import { runJson, withFolder, withServiceOn, workerEnv } from './support/product.ts';
import { runWay } from './support/way.ts';

/** Seconds from the release of the last row to the mail, at 7 million rows on 2 cores. */
const REACH_S = 25;
const MINUTE_MS = 60_000;
const DELAY_MS = 15 * MINUTE_MS;
/** Long enough for services to start on a busy machine; what it delays is not measured. */
const SETTLE_MINUTES = 30;

/** Steps of a run, in order: each ends with its first event of this name. */
const STEPS: readonly (readonly [step: string, event: string, detail?: string])[] = [
  ['start and count', 'date'],
  ['last pages', 'phase', 'recounting'],
  ['recount; hashes, ids, checksum, file', 'recounted'],
  ['rest of the file', 'seal-step', 'write'],
  ['footer', 'seal-step', 'footer'],
  ['verify, second read, checks, summary', 'seal-step', 'verify'],
  ['publish', 'sealed'],
  ['report, mail', 'mailed'],
];

interface Closed {
  /** Seconds of each step. */
  readonly steps: readonly number[];
  readonly seconds: number;
  readonly requests: number;
  readonly left: number;
  /** Most memory of the worker's process, MiB. */
  readonly peakMib: number;
}

export const benchClose: RunBench = async ({ rows, repeat, note }) =>
  await withFolder(async (folder) => {
    const [data, pages] = [join(folder, 'data'), join(folder, 'pages')];
    say(`close: generating ${rows} rows`);
    const { date } = await withServiceOn(data, rows, async ({ url }) => await fetchPagesFrom(url, pages, rows));
    const closeMs = parseWallClock(date, sessionCloseSecond(date));
    const staged = await stage(folder, data, { rows, closeMs });
    const closed: Closed[] = [];
    for (let round = 1; round <= repeat; round += 1) {
      say(`close: ${round} of ${repeat}`);
      closed.push(await close(staged, data, { rows, closeMs }));
      say(`  ${JSON.stringify(closed.at(-1))}`);
    }
    const out = join(folder, 'duckdb.parquet');
    const ducks: number[] = [];
    for (let round = 1; round <= repeat; round += 1) {
      say(`close: DuckDB, ${round} of ${repeat}`);
      ducks.push((await runWay('duckdb', { pages, out })).wallMs / 1000);
      say(`  ${ducks.at(-1)?.toFixed(1)} s`);
    }
    const headlineMs = await askHeadline(out);
    const seconds = median(closed.map((one) => one.seconds));
    const conversion = median(ducks);
    const ofRows = `${formatCount(rows)} rows staged`;
    note(atMost(`${ofRows}: seconds from the last release to the mail`, REACH_S, seconds, (s) => `${s.toFixed(1)} s`));
    const beside = `${ofRows}: the same, beside DuckDB's conversion of the pages`;
    note(atMost(beside, conversion, seconds, (s) => `${s.toFixed(1)} s`));
    return describe(rows, closed, [conversion, conversion + headlineMs / 1000]);
  });

const envOf = (url: string) => ({ ...workerEnv(url), FLOWDROP_CLOCK: 'source' });

interface Staged {
  /** Working folder of the worker. */
  readonly cwd: string;
  /** A copy of it, as it is when the session is staged. */
  readonly copy: string;
  /** Of the service: a stage belongs to the address that it came from. */
  readonly port: number;
}

interface Session {
  readonly rows: number;
  readonly closeMs: number;
}

/** Stages everything but the last pages once: 700 requests take longer than all that is measured. */
async function stage(folder: string, data: string, { rows, closeMs }: Session): Promise<Staged> {
  const [cwd, copy] = [join(folder, 'close'), join(folder, 'staged')];
  await writeJobFile(cwd);
  // All rows are visible, and the date may not be sealed yet.
  const asOf = new Date(closeMs + DELAY_MS + 1_000).toISOString();
  const stageAll = async ({ url }: { readonly url: string }) => {
    const staged = (await runJson(cwd, ['run', 'nightly.yaml', '--stage'], envOf(url))) as { rows: number };
    say(`  staged ${formatCount(staged.rows)} rows`);
    return Number(new URL(url).port);
  };
  const port = await withServiceOn(data, rows, stageAll, { asOf });
  await cp(cwd, copy, { recursive: true });
  return { cwd, copy, port };
}

async function close({ cwd, copy, port }: Staged, data: string, { rows, closeMs }: Session): Promise<Closed> {
  await rm(cwd, { recursive: true, force: true });
  await cp(copy, cwd, { recursive: true });
  const asOf = new Date(closeMs + DELAY_MS + SETTLE_MINUTES * MINUTE_MS + 1_000).toISOString();
  return await withServiceOn(data, rows, async ({ url }) => await measure(cwd, url), { asOf, port });
}

async function measure(cwd: string, url: string): Promise<Closed> {
  const started = performance.now();
  const ends: number[] = [];
  let left = 0;
  let peakMib = 0;
  const onLine = (text: string) => {
    peakMib = Math.max(peakMib, readPeakMib(cwd));
    const line = JSON.parse(text) as Record<string, unknown>;
    if (line['event'] === 'page') left += 1;
    const [, event, detail] = STEPS[ends.length] ?? [];
    if (line['event'] !== event) return;
    if (detail !== undefined && line['phase'] !== detail && line['step'] !== detail) return;
    ends.push((performance.now() - started) / 1000);
  };
  const env = { ...envOf(url), FLOWDROP_LOG_LEVEL: 'debug' };
  const result = (await runJson(cwd, ['run', 'nightly.yaml'], env, onLine)) as { requests: number };
  const mails = await readdir(join(cwd, 'out', 'mail'));
  if (ends.length !== STEPS.length || mails.length === 0) throw new Error(`only ${ends.length} steps were seen`);
  const steps = ends.map((end, index) => end - (ends[index - 1] ?? 0));
  return { steps, seconds: ends.at(-1) ?? Number.NaN, requests: result.requests, left, peakMib };
}

/** Most memory of the process that holds the engine so far, where the system tells it; else 0. */
function readPeakMib(cwd: string): number {
  try {
    const [, pid] =
      /^PID: (\d+)/m.exec(readFileSync(join(cwd, '.flowdrop', 'nightly', 'engine', 'status'), 'utf8')) ?? [];
    const [, kib] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Math.round(Number(kib ?? 0) / 1024);
  } catch {
    return 0;
  }
}

async function writeJobFile(cwd: string): Promise<void> {
  await mkdir(cwd, { recursive: true });
  const text = `name: nightly
source:
  api: historical
drop:
  to: out/drops
  dataset: trades
settle: ${SETTLE_MINUTES}m
reports:
  - template: flow
    to: [desk@example.com]
    symbols: [SPY, QQQ, NVDA]
`;
  await writeFile(join(cwd, 'nightly.yaml'), text);
}

/** Premium by side and sentiment, the most traded symbols: what the head of the report says. @returns milliseconds */
async function askHeadline(path: string): Promise<number> {
  const { query, close } = await openDuckDb();
  const started = performance.now();
  const source = `read_parquet('${path}')`;
  const sums = "count(*), sum(premium), sum(size), sum(premium) FILTER (put_call = 'CALL')";
  await query(`SELECT ${sums}, sum(premium) FILTER (sentiment = 'BULLISH') FROM ${source}`);
  await query(`SELECT symbol, sum(premium) AS premium FROM ${source} GROUP BY symbol ORDER BY premium DESC LIMIT 20`);
  const ms = performance.now() - started;
  close();
  return ms;
}

function describe(rows: number, closed: readonly Closed[], duck: readonly [number, number]): string {
  const seconds = (value: number) => `${value.toFixed(1)} s`;
  const at = (step: number) => median(closed.map(({ steps }) => steps[step] ?? Number.NaN));
  const whole = median(closed.map((one) => one.seconds));
  const lines = STEPS.map(([step], index) => [step, seconds(at(index)), `${((at(index) / whole) * 100).toFixed(0)} %`]);
  const [first] = closed;
  return [
    `From the last page to the mail: ${formatCount(rows)} rows staged while the session ran (medians of ${closed.length})`,
    '',
    formatTable(
      ['step', right('seconds'), right('share')],
      [...lines, ['to the mail handed over', seconds(whole), '100 %']],
    ),
    '',
    `${first?.left ?? 0} pages were left to fetch, ${first?.requests ?? 0} requests in all after the close; the process's start is included.`,
    `Memory of the worker's process: ${formatCount(Math.max(...closed.map(({ peakMib }) => peakMib)))} MiB at most.`,
    `DuckDB from the same pages on disk: ${seconds(duck[0])} to convert them, ${seconds(duck[1])} with the headline numbers.`,
  ].join('\n');
}
