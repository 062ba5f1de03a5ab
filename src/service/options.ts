/** Options of the service, each with meaning, unit, default and allowed values. */

import { REQUESTS_PER_SECOND } from '../api-contract/published-limits.ts';
import { isDate } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import type { TradeOrder } from './data/stored-tables.ts';

export interface ServiceOptions {
  /** Trade files: `.ndjson`, `.jsonl`, `.csv` (each may be gzipped) or `.parquet`. Default: none. */
  readonly data: readonly string[];
  /** Option chain files, each a snapshot of one symbol and date. Default: none. */
  readonly chain: readonly string[];
  /** Folder for loaded data; a file that was loaded before is not loaded again. Default: a temporary folder. */
  readonly dataDir?: string;
  /** Number of sessions to generate, up to and including the last closed session. Default: 0. */
  readonly generateSessions: number;
  /**
   * Trades per generated session; a real session has millions. Each costs about 6 µs to generate. Default: about 100,000,
   * different each session.
   */
  readonly generateRows?: number;
  /** Seed of the generator: the same seed gives the same trades. Default: 1. */
  readonly seed: number;
  /** ISO instant at which the service's clock starts; it runs on from there. Default: the present. */
  readonly asOf?: string;
  /**
   * First visible date, YYYY-MM-DD. Default: 2025-02-28; with the embedded engine the first loaded date, if earlier.
   */
  readonly earliest?: string;
  /** Maximum rows per answer. Larger pages mean fewer requests that take longer. Default: 10,000. */
  readonly rowLimit: number;
  /** Maximum rows per answer for a trial caller. Default: 1,000. */
  readonly trialRowLimit: number;
  /** Maximum contracts per option chain; a larger one fails with REQUEST_TOO_BROAD. A whole SPX chain has about 21,000. Default: 25,000. */
  readonly chainLimit: number;
  /** Maximum rows that the engine may read for one answer; more fails with QUERY_TOO_BROAD. Default: 10,000,000. */
  readonly scanLimit: number;
  /** Concurrent queries; each needs an engine process of about 200 MB, or a server connection. Default: 3. */
  readonly concurrency: number;
  /** Requests per second that one key may send to the historical entry points. Default: 1. */
  readonly requestsPerSecond: number;
  /** Accepted keys, entitled to every product; they begin with cus_ or apikey_. Default: none. */
  readonly keys: readonly string[];
  /** File of hashed keys and their entitlements, reloaded when it changes. Default: none. */
  readonly keyFile?: string;
  /** Whether the session cookie is sent over TLS only; set it behind a TLS proxy. Default: false. */
  readonly secureCookies: boolean;
  /** Sort order of the trades; it decides which filters read few rows. Default: `time`. */
  readonly order: TradeOrder;
  /** Interface to listen on. Default: 127.0.0.1. */
  readonly host: string;
  /** Ports of the main and of the separate entry point; 0 picks a free port. Defaults: 8100 and 8101. */
  readonly port: number;
  readonly portalPort: number;
}

export const SERVICE_DEFAULTS = {
  data: [],
  chain: [],
  generateSessions: 0,
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
  const positives = ['rowLimit', 'trialRowLimit', 'chainLimit', 'scanLimit', 'concurrency'] as const;
  for (const name of positives) assertOption(name, options[name], isWhole(options[name], 1), 'a whole number above 0');
  const { asOf, earliest, generateRows = 1, requestsPerSecond } = options;
  assertOption('generateRows', generateRows, isWhole(generateRows, 1), 'a whole number above 0');
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
