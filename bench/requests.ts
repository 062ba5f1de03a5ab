/**
 * Requests of a run beside the fewest possible, `ceil(rows / row limit)`: the compiled worker against the compiled
 * service, two generated sessions, hidden scan limits, the table ordered by time and by symbol. The first session is
 * exported with an empty state, the second with what the first taught; dates without trades are not asked for. Beside it,
 * what the ways of peers would take on the counts of the second session: windows of an hour, halved when too much, and one
 * window a symbol.
 */
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { formatTable } from '../src/cli/terminal/text.ts';
import { formatCount, formatDuration } from '../src/core/units.ts';
import { listClosedSessions } from '../src/service/generate/generate.ts';
import type { RunResult } from '../src/state/run-result.ts';
import { PAGE_ROWS, type RunBench, say } from './support/bench.ts';
import { atMost, type Goal } from './support/goal.ts';
import { JOB_FILE, KEY, REQUESTS_PER_SECOND, runJson, withFolder, withService } from './support/product.ts';

/**
 * Scan limits as shares of a session's rows: 2 million of 7 million as in the issue, and half a million, which is less
 * than the largest symbol has.
 */
const SCAN_SHARES = [2 / 7, 0.5 / 7];
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

export const benchRequests: RunBench = async ({ rows, goalsOnly, note }) => {
  const tables: string[] = [];
  // The numbers to reach are of the first limit.
  for (const [index, share] of (goalsOnly === true ? SCAN_SHARES.slice(0, 1) : SCAN_SHARES).entries()) {
    const scanLimit = Math.round(rows * share);
    const lines = await measureLimit(rows, scanLimit);
    if (index === 0) for (const line of lines) note(goalOf(line, scanLimit));
    tables.push(describeLimit(lines, scanLimit));
  }
  return tables.join('\n\n');
};

async function measureLimit(rows: number, scanLimit: number): Promise<readonly Line[]> {
  const lines: Line[] = [];
  for (const order of ORDERS) lines.push(...(await measureOrder(order, rows, scanLimit)));
  return lines;
}

/** What peers would do is printed beside it. */
function goalOf({ order, way, rows, requests, note }: Line, scanLimit: number): Goal {
  const size = `${formatCount(rows)} rows, scan limit ${formatCount(scanLimit)}`;
  const what = `requests / fewest, ${size}, table by ${order}: ${way} (${note})`;
  const ratio = requests === undefined ? Number.POSITIVE_INFINITY : requests / Math.ceil(rows / PAGE_ROWS);
  const format = (value: number) => (Number.isFinite(value) ? value.toFixed(3) : 'never done');
  if (!way.startsWith('flowdrop')) return { what, measured: format(ratio) };
  return atMost(what, REACH[order], ratio, format);
}

function describeLimit(lines: readonly Line[], scanLimit: number): string {
  const right = 'right' as const;
  const columns = [
    { title: 'table ordered by' },
    { title: 'way' },
    { title: 'rows', align: right },
    { title: 'fewest', align: right },
    { title: 'used', align: right },
    { title: 'ratio', align: right },
    { title: '' },
  ];
  return [
    `Requests of one session: row limit ${formatCount(PAGE_ROWS)}, scan limit ${formatCount(scanLimit)} rows, counts and recounts included`,
    '',
    formatTable(columns, lines.map(describe)),
  ].join('\n');
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
        const counts = await readCells(join(cwd, 'out/drops/trades', `session=${second.date}`, 'trades.parquet'));
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
          line('hourly windows, halved', simulateHourly(counts, order, scanLimit), 'session hours only'),
          line('a window a symbol, halved', simulateSymbols(counts, order, scanLimit), 'symbols known'),
        ];
      }),
    options,
  );
}

async function runWorker(cwd: string, url: string): Promise<RunResult> {
  const env = {
    FLOWDROP_API_URL: url,
    FLOWDROP_API_KEY: KEY,
    FLOWDROP_REQUESTS_PER_SECOND: String(REQUESTS_PER_SECOND),
    FLOWDROP_LOG_LEVEL: 'warn',
  };
  const [from, to] = listClosedSessions(Date.now(), 2);
  if (from === undefined || to === undefined) throw new Error('there are no two sessions');
  // What `backfill --json` prints.
  return (await runJson(cwd, ['backfill', JOB_FILE, '--from', from, '--to', to], env)) as RunResult;
}

interface Cell {
  readonly symbol: string;
  readonly second: number;
  readonly rows: number;
}

async function readCells(path: string): Promise<readonly Cell[]> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    const result = await connection.runAndReadAll(
      `SELECT symbol, (epoch_ms(time) // 1000 % 86400)::INTEGER AS second, count(*)::INTEGER AS rows FROM read_parquet('${path}') GROUP BY ALL`,
    );
    return result.getRowObjectsJson() as unknown as readonly Cell[]; // The columns asked for.
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** A window of time: refused by the scan limit, cut short by the row limit, or an answer; halved until it is one. */
function countWindows(
  bySecond: readonly number[],
  from: number,
  to: number,
  scanned: (rows: number) => number,
  scanLimit: number,
): number | undefined {
  const rows = bySecond.slice(from, to).reduce((sum, n) => sum + n, 0);
  if (scanned(rows) <= scanLimit && rows <= PAGE_ROWS) return 1;
  if (to - from <= 1) return undefined;
  const middle = Math.floor((from + to) / 2);
  const left = countWindows(bySecond, from, middle, scanned, scanLimit);
  const right = left === undefined ? undefined : countWindows(bySecond, middle, to, scanned, scanLimit);
  return left === undefined || right === undefined ? undefined : 1 + left + right;
}

function spread(cells: readonly Cell[]): readonly number[] {
  const bySecond = new Array<number>(86_400).fill(0);
  for (const { second, rows } of cells) bySecond[second] = (bySecond[second] ?? 0) + rows;
  return bySecond;
}

/** Each query of time reads the whole date where the table is ordered by symbol. */
function simulateHourly(cells: readonly Cell[], order: Order, scanLimit: number): number | undefined {
  const total = cells.reduce((sum, { rows }) => sum + rows, 0);
  const bySecond = spread(cells);
  const scanned = (rows: number) => (order === 'time' ? rows : total);
  let requests = 0;
  for (let hour = 9; hour < 17; hour += 1) {
    const used = countWindows(bySecond, hour * 3600, (hour + 1) * 3600, scanned, scanLimit);
    if (used === undefined) return undefined;
    requests += used;
  }
  return requests;
}

/** Each query of a symbol reads the whole stretch of time where the table is ordered by time. */
function simulateSymbols(cells: readonly Cell[], order: Order, scanLimit: number): number | undefined {
  const all = spread(cells);
  const symbols = [...new Set(cells.map(({ symbol }) => symbol))];
  let requests = 0;
  for (const symbol of symbols) {
    const own = spread(cells.filter((cell) => cell.symbol === symbol));
    const used =
      order === 'symbol'
        ? countWindows(own, 0, 86_400, (rows) => rows, scanLimit)
        : countInTime(own, all, 0, 86_400, scanLimit);
    if (used === undefined) return undefined;
    requests += used;
  }
  return requests;
}

function countInTime(
  own: readonly number[],
  all: readonly number[],
  from: number,
  to: number,
  scanLimit: number,
): number | undefined {
  const rows = own.slice(from, to).reduce((sum, n) => sum + n, 0);
  const scanned = all.slice(from, to).reduce((sum, n) => sum + n, 0);
  if (scanned <= scanLimit && rows <= PAGE_ROWS) return 1;
  if (to - from <= 1) return undefined;
  const middle = Math.floor((from + to) / 2);
  const left = countInTime(own, all, from, middle, scanLimit);
  const right = left === undefined ? undefined : countInTime(own, all, middle, to, scanLimit);
  return left === undefined || right === undefined ? undefined : 1 + left + right;
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
