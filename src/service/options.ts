/** What the service can be told: every option with its meaning, unit, default and allowed values. */

import { REQUESTS_PER_SECOND } from '../api-contract/published-limits.ts';
import { isDate } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import type { TradeOrder } from './data/stored-tables.ts';

export interface ServiceOptions {
  /** Files of trade records: `.ndjson`, `.jsonl`, `.csv` (each also gzipped) or `.parquet`. Default: none. */
  readonly data: readonly string[];
  /** Files of option chains, each the snapshot of its symbol and date. Default: none. */
  readonly chain: readonly string[];
  /** Folder that keeps what was loaded; a file loaded before is not loaded again. Default: a temporary one. */
  readonly dataDir?: string;
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
  /** Most rows of one answer to a trialing caller. Default: 1,000. */
  readonly trialRowLimit: number;
  /** Most contracts of one option chain; more give REQUEST_TOO_BROAD. Default: 25,000. */
  readonly chainLimit: number;
  /** Most rows that the engine may read for one answer; more gives QUERY_TOO_BROAD. Default: 10,000,000. */
  readonly scanLimit: number;
  /** Queries that run at the same time; each has an engine process of about 200 MB, or a connection. Default: 3. */
  readonly concurrency: number;
  /** Requests a second that one key may send to the historical entry points. Default: 1. */
  readonly requestsPerSecond: number;
  /** Accepted keys, entitled to everything; they begin with cus_ or apikey_. Default: none. */
  readonly keys: readonly string[];
  /** File of hashed keys and their entitlements, read again when it changes. Default: none. */
  readonly keyFile?: string;
  /** Whether the session cookie is for TLS connections only: set it behind a proxy that has TLS. Default: false. */
  readonly secureCookies: boolean;
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
  chain: [],
  generateSessions: 0,
  generateRows: 100_000,
  seed: 1,
  rowLimit: 10_000,
  trialRowLimit: 1_000,
  chainLimit: 25_000,
  scanLimit: 10_000_000,
  concurrency: 3,
  requestsPerSecond: REQUESTS_PER_SECOND,
  keys: [],
  secureCookies: false,
  order: 'time',
  host: '127.0.0.1',
  port: 8100,
  portalPort: 8101,
} as const satisfies ServiceOptions;

/** @throws Fault `SERVICE_OPTION_INVALID` (kind `usage`) */
export function assertOptions(options: ServiceOptions): void {
  const wholes = ['generateSessions', 'seed', 'port', 'portalPort'] as const;
  for (const name of wholes) assertOption(name, options[name], isWhole(options[name], 0), 'a whole number, 0 or more');
  const positives = ['generateRows', 'rowLimit', 'trialRowLimit', 'chainLimit', 'scanLimit', 'concurrency'] as const;
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
