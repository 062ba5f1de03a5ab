/**
 * The options data service: both historical SQL entry points over trades from files or from the generator. This module
 * joins the parts and owns their order: rows in, views published, keys checked, listeners opened; it knows no SQL and no
 * HTTP. The engine is the caller's, who closes it after `close()`.
 */
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { isDate } from '../calendar/wall-clock.ts';
import { type Clock, shiftClock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import { EARLIEST_DATE, REQUESTS_PER_SECOND } from '../wire/limits.ts';
import { Gate } from './gate.ts';
import { generateSessions, listClosedSessions } from './generate.ts';
import { openGuard } from './guard.ts';
import { createHistorical } from './historical.ts';
import { KeyRing } from './keys.ts';
import { createListener } from './listener.ts';
import { loadFile } from './load.ts';
import { Pace } from './pace.ts';
import { createPortal } from './portal.ts';
import { createQueryRunner } from './query.ts';
import { createTrades, type TradeOrder, type Trades } from './trades.ts';

export interface ServiceOptions {
  /** Files of trade records: `.ndjson`, `.jsonl`, `.csv` (each also gzipped) or `.parquet`. Default: none. */
  readonly data: readonly string[];
  /** Sessions to generate, ending with the last one closed. Default: 0. */
  readonly generateSessions: number;
  /** Trades of each generated session: a real one has millions, and each costs about 6 µs to make. Default: 100,000. */
  readonly generateRows: number;
  /** Seed of the generator: the same seed gives the same trades. Default: 1. */
  readonly seed: number;
  /** ISO instant at which the service's clock starts, from where it runs on. Default: the present. */
  readonly asOf?: string;
  /** First visible date, YYYY-MM-DD. Default: 2025-02-28, or the first date of `data` where that is older. */
  readonly earliest?: string;
  /** Most rows of one answer. Larger pages mean fewer requests and longer ones. Default: 10,000. */
  readonly rowLimit: number;
  /** Most rows that the engine may read for one answer; more gives QUERY_TOO_BROAD. Default: 10,000,000. */
  readonly scanLimit: number;
  /** Requests a second that one key may send. Default: 1. */
  readonly requestsPerSecond: number;
  /** Accepted keys; they begin with cus_ or apikey_. At least one. */
  readonly keys: readonly string[];
  /** What the trades are sorted by, and so which filters read few rows. Default: `time`. */
  readonly order: TradeOrder;
  /** Interface to listen on. Default: 127.0.0.1. */
  readonly host: string;
  /** Ports of the main and of the separate entry point; 0 picks a free one. Defaults: 8100 and 8101. */
  readonly port: number;
  readonly portalPort: number;
}

export const SERVICE_DEFAULTS = {
  data: [],
  generateSessions: 0,
  generateRows: 100_000,
  seed: 1,
  rowLimit: 10_000,
  scanLimit: 10_000_000,
  requestsPerSecond: REQUESTS_PER_SECOND,
  keys: [],
  order: 'time',
  host: '127.0.0.1',
  port: 8100,
  portalPort: 8101,
} as const satisfies ServiceOptions;

export interface RunningService {
  /** Base address of the main entry point. */
  readonly url: string;
  /** Base address of the separate entry point. */
  readonly portalUrl: string;
  /** Trades held, hidden ones included. */
  readonly rows: number;
  /** Stops listening, lets requests in flight finish, and drops the trades. */
  close(): Promise<void>;
}

export interface ServiceDependencies {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Loads or generates the trades and starts both listeners.
 * @throws Fault `SERVICE_OPTION_INVALID`, `KEY_INVALID`, `DATA_INVALID`, `DATA_UNREADABLE` (kind `usage`), or
 *   `LISTEN_FAILED`
 */
export async function startService(options: ServiceOptions, deps: ServiceDependencies): Promise<RunningService> {
  assertOptions(options);
  const keys = new KeyRing(options.keys);
  const clock = options.asOf === undefined ? deps.clock : shiftClock(deps.clock, Date.parse(options.asOf));
  const trades = await createTrades(deps.engine, clock, options.order, options.scanLimit);
  const opened: FastifyInstance[] = [];
  const close = async () => {
    await Promise.all(opened.map((listener) => listener.close()));
    await trades.drop();
  };
  try {
    const rows = await fillTrades(options, { ...deps, clock }, trades);
    const guard = await openGuard(deps.engine, trades.databases);
    const runner = createQueryRunner({ engine: deps.engine, clock, guard, trades }, options);
    const gate = new Gate(keys, new Pace(clock, options.requestsPerSecond));
    const parts = { gate, runner, rowLimit: options.rowLimit };
    const health = () => ({ status: 'ok', rows, time: new Date(clock.now()).toISOString() });
    const main = createListener({ entry: createHistorical(parts), clock, log: deps.log, health });
    const portal = createListener({ entry: createPortal(parts), clock, log: deps.log });
    opened.push(main, portal);
    const url = await listen(main, options.host, options.port);
    const portalUrl = await listen(portal, options.host, options.portalPort);
    return { url, portalUrl, rows, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @returns the number of trades */
async function fillTrades(options: ServiceOptions, deps: ServiceDependencies, trades: Trades): Promise<number> {
  for (const file of options.data) await loadFile(deps.engine, file, trades.table);
  const firstDate = await trades.firstDate();
  const dates = listClosedSessions(deps.clock.now(), options.generateSessions);
  const { generateRows: rows, seed } = options;
  const places = { into: trades.table, scratch: trades.scratch };
  await generateSessions(deps.engine, { dates, rows, seed, ...places });
  const moved = firstDate !== undefined && firstDate < EARLIEST_DATE ? firstDate : EARLIEST_DATE;
  const earliest = options.earliest ?? moved;
  const count = await trades.publish(earliest);
  deps.log.info({ event: 'loaded', rows: count, files: options.data.length, generated: dates, earliest });
  return count;
}

async function listen(listener: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    await listener.listen({ host, port });
  } catch (cause) {
    throw new Fault('LISTEN_FAILED', `cannot listen on ${host}:${port}: ${describeError(cause)}`, {
      cause,
      hint: 'Choose another port; 0 picks a free one.',
    });
  }
  const address = listener.server.address() as AddressInfo; // A TCP listener, so never a path or null.
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}

function assertOptions(options: ServiceOptions): void {
  const wholes = ['generateSessions', 'seed', 'port', 'portalPort'] as const;
  for (const name of wholes) assertOption(name, options[name], isWhole(options[name], 0), 'a whole number, 0 or more');
  const positives = ['generateRows', 'rowLimit', 'scanLimit'] as const;
  for (const name of positives) assertOption(name, options[name], isWhole(options[name], 1), 'a whole number above 0');
  const { asOf, earliest, requestsPerSecond } = options;
  assertOption('requestsPerSecond', requestsPerSecond, requestsPerSecond > 0, 'a number above 0');
  assertOption('asOf', asOf, asOf === undefined || !Number.isNaN(Date.parse(asOf)), 'an ISO instant');
  assertOption('earliest', earliest, earliest === undefined || isDate(earliest), 'a date, YYYY-MM-DD');
}

function assertOption(name: string, value: unknown, valid: boolean, allowed: string): void {
  if (valid) return;
  throw new Fault('SERVICE_OPTION_INVALID', `${name} is ${String(value)}; allowed is ${allowed}`, { kind: 'usage' });
}

function isWhole(value: number, from: number): boolean {
  return Number.isSafeInteger(value) && value >= from;
}
