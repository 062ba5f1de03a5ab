/**
 * The options data service beside the bare engine: the same SQL over copies of the same data, once as a request to the
 * compiled service and once as a statement of chdb in this process, in turns, so that both meet the same machine. The
 * engine alone has neither guard, keys, pace, cutting nor HTTP; what is more is the service's overhead.
 */
import { cp } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { HISTORICAL_PATH } from '../src/api-contract/published-limits.ts';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { systemClock } from '../src/core/clock.ts';
import { createLog } from '../src/core/log.ts';
import { formatCount, formatPercent } from '../src/core/units.ts';
import { openEmbeddedEngine } from '../src/engine/embedded.ts';
import { EnginePool, type Lane } from '../src/engine/pool.ts';
import type { BackendParts } from '../src/service/backend.ts';
import { openLocalBackend } from '../src/service/data/local-data.ts';
import { settingsSql } from '../src/service/historical/query-runner.ts';
import { SERVICE_DEFAULTS } from '../src/service/options.ts';
import { median, PAGE_ROWS, type RunBench, say } from './support/bench.ts';
import { KEY, withFolder, withServiceOn } from './support/product.ts';

/** Pairs of measurements for each time the bench repeats. */
const PAIRS_PER_REPEAT = 30;
/** Requests under way at the same time, for the throughput. */
const CONCURRENCY = [1, 4] as const;
const WARM_UP = 5;

/** Every request is a text of its own, as the pages of an export are. */
const STATEMENTS: Readonly<Record<string, (turn: number) => string>> = {
  'small aggregate': (turn) => `SELECT symbol, count() AS trades, sum(premium) AS premium
    FROM RawOptionTradesMaxDateOnlyMV WHERE put_call = 'CALL' AND time >= concat(date, '${startOf(turn)}')
    GROUP BY symbol ORDER BY premium DESC LIMIT 10`,
  '10,000-row page': (turn) => `SELECT * FROM RawOptionTradesMaxDateOnlyMV
    WHERE time >= concat(date, '${startOf(turn)}') ORDER BY time, id LIMIT ${PAGE_ROWS}`,
};

/** A time after the opening, another for each of a quarter of an hour's seconds. */
function startOf(turn: number): string {
  const second = 36_000 + (turn % 900);
  return ` ${new Date(second * 1_000).toISOString().slice(11, 19)}`;
}

type Ask = (sql: string, encoding?: string) => Promise<number>;

export const benchService: RunBench = async ({ rows, repeat }) =>
  await withFolder(async (folder) => {
    const data = join(folder, 'data');
    say(`service: generating ${formatCount(rows)} rows ...`);
    await withServiceOn(data, rows, async () => {});
    const copy = join(folder, 'copy');
    await cp(data, copy, { recursive: true });
    const engine = await openBareEngine(copy);
    try {
      return await withServiceOn(data, rows, ({ url }) => compare(createAsk(url), engine.ask, repeat));
    } finally {
      await engine.close();
    }
  });

async function compare(service: Ask, engine: Ask, repeat: number): Promise<string> {
  const lines: (readonly string[])[] = [];
  const throughput: (readonly string[])[] = [];
  let turn = 0;
  for (const [name, write] of Object.entries(STATEMENTS)) {
    const next = () => {
      turn += 1;
      return write(turn);
    };
    say(`service: ${name}`);
    const bytes = await service(next());
    for (let time = 0; time < WARM_UP; time += 1) await Promise.all([service(next()), engine(next())]);
    const pairs: (readonly [number, number])[] = [];
    for (let pair = 0; pair < PAIRS_PER_REPEAT * repeat; pair += 1) {
      const sql = next();
      pairs.push([await time(() => service(sql)), await time(() => engine(sql))]);
    }
    const [asked, bare] = [pairs.map(([ours]) => ours), pairs.map(([, alone]) => alone)];
    // Pair by pair, because what disturbs the machine disturbs both of a pair.
    const overhead = median(pairs.map(([ours, alone]) => ours / alone)) - 1;
    const figures = [asked, bare].flatMap((times) => [median(times), quantile(times, 0.99)]);
    lines.push([name, formatCount(bytes), ...figures.map(formatMs), formatPercent(overhead)]);
    for (const encoding of ['identity', 'gzip', 'br']) {
      const rates: string[] = [];
      for (const concurrency of CONCURRENCY) {
        rates.push((await measureRate(() => service(next(), encoding), concurrency, PAIRS_PER_REPEAT)).toFixed(1));
      }
      throughput.push([name, encoding, formatCount(await service(next(), encoding)), ...rates]);
    }
  }
  return [
    `The service and the bare engine in turns, ${PAIRS_PER_REPEAT * repeat} pairs, milliseconds, uncompressed`,
    '',
    formatTable(
      ['statement', ...['bytes', 'service p50', 'p99', 'engine p50', 'p99', 'overhead (median of pairs)'].map(right)],
      lines,
    ),
    '',
    'Requests a second by encoding and requests under way at the same time',
    '',
    formatTable(
      ['statement', 'encoding', right('bytes sent'), ...CONCURRENCY.map((number) => right(`${number} at a time`))],
      throughput,
    ),
  ].join('\n');
}

/** The engine in this process over a copy of the service's data, with its views and its settings. */
async function openBareEngine(folder: string): Promise<{ readonly ask: Ask; close(): Promise<void> }> {
  const engine = await openEmbeddedEngine({ path: join(folder, 'engine', '0') });
  const lane: Lane = {
    state: engine,
    run: async (sql, format = 'Null') => Readable.from([await engine.format(sql, format)]),
    settle: async (idle) => await idle,
  };
  const lanes = { open: async () => lane, close: async () => {} };
  const startEngines: BackendParts['startEngines'] = async (_folder, size, more) =>
    new EnginePool({ ...more, size, maxWaiting: 1 }, lanes);
  const options = { ...SERVICE_DEFAULTS, dataDir: folder, concurrency: 1 };
  const log = createLog({ level: 'error', pretty: false, secrets: [], write: say });
  await openLocalBackend(options, { clock: systemClock, log, folder, startEngines, closers: [] });
  const { scanLimit, rowLimit } = SERVICE_DEFAULTS;
  const settings = settingsSql(rowLimit, scanLimit);
  return {
    ask: async (sql) => (await engine.format(`${sql} ${settings}`, 'JSONEachRow')).length,
    close: () => engine.close(),
  };
}

/** Sends SQL over kept connections and reads the whole answer. @returns its bytes as sent */
function createAsk(url: string): Ask {
  const agent = new Agent({ keepAlive: true });
  return async (sql, encoding = 'identity') =>
    await new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'accept-encoding': encoding };
      const sent = request(`${url}${HISTORICAL_PATH}`, { method: 'POST', agent, headers }, (answer) => {
        let bytes = 0;
        answer.on('data', (piece: Buffer) => {
          bytes += piece.length;
        });
        answer.on('end', () => {
          if (answer.statusCode === 200) resolve(bytes);
          else reject(new Error(`the service answered ${answer.statusCode}`));
        });
        answer.on('error', reject);
      });
      sent.on('error', reject);
      sent.end(JSON.stringify({ api_key: KEY, sql }));
    });
}

async function time(action: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await action();
  return performance.now() - start;
}

async function measureRate(action: () => Promise<unknown>, concurrency: number, count: number): Promise<number> {
  const start = performance.now();
  let left = count;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      await action();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return count / ((performance.now() - start) / 1_000);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function formatMs(value: number): string {
  return value.toFixed(1);
}
