/**
 * Requests of a run beside the fewest possible, `ceil(rows / row limit)`: the compiled worker against the compiled
 * service, two generated sessions, hidden scan limits, the table ordered by time and by symbol. The first session is
 * exported with an empty state, the second with what the first taught; dates without trades are not asked for. Beside it,
 * what the way of peers would take on the counts of the second session: windows of an hour, halved when too much.
 */
import { join } from 'node:path';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatCount, formatDuration } from '../src/core/units.ts';
import { listClosedSessions } from '../src/service/generate/generate.ts';
import type { RunResult } from '../src/state/run-result.ts';
import { queryDuckDb } from '../test/support/drop.ts';
import { PAGE_ROWS, type RunBench, say } from './support/bench.ts';
import { atMost, type Goal } from './support/goal.ts';
import { JOB_FILE, runJson, withFolder, withService, workerEnv } from './support/product.ts';

/** Rows that a query may read: 2 million of 7 million. */
const SCAN_SHARE = 2 / 7;
const ORDERS = ['time', 'symbol'] as const;
type Order = (typeof ORDERS)[number];
/** Requests used beside the fewest for 7 million rows, by the order of the table: windows end between seconds. */
const REACH: Readonly<Record<Order, number>> = { time: 1.04, symbol: 1.05 };

interface Line {
  readonly order: Order;
  readonly way: string;
  readonly rows: number;
  readonly requests: number | undefined;
  readonly note: string;
}

export const benchRequests: RunBench = async ({ rows, note }) => {
  const scanLimit = Math.round(rows * SCAN_SHARE);
  const lines: Line[] = [];
  for (const order of ORDERS) lines.push(...(await measureOrder(order, rows, scanLimit)));
  for (const line of lines) note(goalOf(line, scanLimit));
  const numbers = ['rows', 'fewest', 'used', 'ratio'].map(right);
  return [
    `Requests of one session: row limit ${formatCount(PAGE_ROWS)}, scan limit ${formatCount(scanLimit)} rows, counts and recounts included`,
    '',
    formatTable(['table ordered by', 'way', ...numbers, ''], lines.map(describe)),
  ].join('\n');
};

/** What peers would do is printed beside it. */
function goalOf({ order, way, rows, requests, note }: Line, scanLimit: number): Goal {
  const size = `${formatCount(rows)} rows, scan limit ${formatCount(scanLimit)}`;
  const what = `requests / fewest, ${size}, table by ${order}: ${way} (${note})`;
  const ratio = requests === undefined ? Number.POSITIVE_INFINITY : requests / Math.ceil(rows / PAGE_ROWS);
  const format = (value: number) => (Number.isFinite(value) ? value.toFixed(3) : 'never done');
  if (!way.startsWith('flowdrop')) return { what, measured: format(ratio) };
  return atMost(what, REACH[order], ratio, format);
}

async function measureOrder(order: Order, rows: number, scanLimit: number): Promise<readonly Line[]> {
  say(`requests: generating two sessions of ${formatCount(rows)} rows, ordered by ${order} ...`);
  const options = ['--generate', '2', '--order', order, '--scan-limit', String(scanLimit)];
  return await withService(
    rows,
    async ({ url }) =>
      await withFolder(async (cwd) => {
        const run = await runWorker(cwd, url);
        const [, second] = run.dates;
        if (!second) throw new Error('the run did not export two dates');
        // What was asked for both at once is the first night's: the second would not ask it again.
        const first = run.requests - second.requests;
        const tookMs = Date.parse(run.finished_at) - Date.parse(run.started_at);
        say(`requests: ${run.requests} for both in ${formatDuration(tookMs)}`);
        const seconds = await readSeconds(join(cwd, 'out/drops/trades', `session=${second.date}`, 'trades.parquet'));
        const line = (way: string, requests: number | undefined, note: string): Line => ({
          order,
          way,
          rows: second.rows,
          requests,
          note,
        });
        return [
          line('flowdrop, first night', first, 'nothing known'),
          line('flowdrop, next night', second.requests, 'limits learnt'),
          line('hourly windows, halved', simulateHourly(seconds, order, scanLimit), 'session hours only'),
        ];
      }),
    options,
  );
}

async function runWorker(cwd: string, url: string): Promise<RunResult> {
  const [from, to] = listClosedSessions(Date.now(), 2);
  if (from === undefined || to === undefined) throw new Error('there are no two sessions');
  // What `backfill --json` prints.
  return (await runJson(cwd, ['backfill', JOB_FILE, '--from', from, '--to', to], workerEnv(url))) as RunResult;
}

/** Rows of each second of the day. */
async function readSeconds(path: string): Promise<readonly number[]> {
  const found = await queryDuckDb(
    `SELECT (epoch_ms(time) // 1000 % 86400)::INTEGER AS second, count(*)::INTEGER AS rows FROM read_parquet('${path}') GROUP BY ALL`,
  );
  const seconds = new Array<number>(86_400).fill(0);
  for (const { second, rows } of found) seconds[Number(second)] = Number(rows);
  return seconds;
}

/** A window of time: refused by the scan limit, cut short by the row limit, or an answer; halved until it is one. */
function countWindows(
  seconds: readonly number[],
  from: number,
  to: number,
  isScannable: (rows: number) => boolean,
): number | undefined {
  const rows = sum(seconds.slice(from, to));
  if (isScannable(rows) && rows <= PAGE_ROWS) return 1;
  if (to - from <= 1) return undefined;
  const middle = Math.floor((from + to) / 2);
  const left = countWindows(seconds, from, middle, isScannable);
  const right = left === undefined ? undefined : countWindows(seconds, middle, to, isScannable);
  return left === undefined || right === undefined ? undefined : 1 + left + right;
}

/** Each query of time reads the whole date where the table is ordered by symbol. */
function simulateHourly(seconds: readonly number[], order: Order, scanLimit: number): number | undefined {
  const total = sum(seconds);
  let requests = 0;
  for (let hour = 9; hour < 17; hour += 1) {
    const isScannable = (rows: number) => (order === 'time' ? rows : total) <= scanLimit;
    const used = countWindows(seconds, hour * 3600, (hour + 1) * 3600, isScannable);
    if (used === undefined) return undefined;
    requests += used;
  }
  return requests;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function describe({ order, way, rows, requests, note }: Line): readonly string[] {
  const fewest = Math.ceil(rows / PAGE_ROWS);
  return [
    order,
    way,
    formatCount(rows),
    formatCount(fewest),
    requests === undefined ? 'never done' : formatCount(requests),
    requests === undefined ? '' : (requests / fewest).toFixed(3),
    note,
  ];
}
