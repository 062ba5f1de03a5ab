/** Options of the service, each with meaning, unit, default and allowed values. */
import { z } from 'zod';
import { REQUESTS_PER_SECOND } from '../api-contract/published-limits.ts';
import { isDate } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';

const texts = z.array(z.string()).readonly().default([]);
const whole = z.int('a whole number, 0 or more').min(0, 'a whole number, 0 or more');
const positive = z.int('a whole number above 0').min(1, 'a whole number above 0');

const optionsSchema = z.object({
  /** Trade files: `.ndjson`, `.jsonl`, `.csv` (each may be gzipped) or `.parquet`. */
  data: texts,
  /** Option chain files, each a snapshot of one symbol and date. */
  chain: texts,
  /** Folder for loaded data; a file that was loaded before is not loaded again. Default: a temporary folder. */
  dataDir: z.string().optional(),
  /** Number of sessions to generate, up to and including the last closed session. */
  generateSessions: whole.default(0),
  /**
   * Trades per generated session; a real session has millions. Each costs about 6 µs to generate. Default: about 100,000,
   * different each session.
   */
  generateRows: positive.optional(),
  /** Seed of the generator: the same seed gives the same trades. */
  seed: whole.default(1),
  /** ISO instant at which the service's clock starts; it runs on from there. Default: the present. */
  asOf: z
    .string()
    .refine((text) => !Number.isNaN(Date.parse(text)), 'an ISO instant')
    .optional(),
  /** First visible date. Default: 2025-02-28; with the embedded engine the first loaded date, if earlier. */
  earliest: z.string().refine(isDate, 'a date, YYYY-MM-DD').optional(),
  /** Maximum rows per answer. Larger pages mean fewer requests that take longer. */
  rowLimit: positive.default(10_000),
  /** Maximum rows per answer for a trial caller. */
  trialRowLimit: positive.default(1_000),
  /** Maximum contracts per option chain; a larger one fails with REQUEST_TOO_BROAD. A whole SPX chain has about 21,000. */
  chainLimit: positive.default(25_000),
  /** Maximum rows that the engine may read for one answer; more fails with QUERY_TOO_BROAD. */
  scanLimit: positive.default(10_000_000),
  /** Concurrent queries; each needs an engine process of about 200 MB, or a server connection. */
  concurrency: positive.default(3),
  /** Requests per second that one key may send to the historical entry points. */
  requestsPerSecond: z.number('a number above 0').positive('a number above 0').default(REQUESTS_PER_SECOND),
  /** Accepted keys, entitled to every product; they begin with cus_ or apikey_. */
  keys: texts,
  /** File of hashed keys and their entitlements, reloaded when it changes. Default: none. */
  keyFile: z.string().optional(),
  /** Whether the session cookie is sent over TLS only; set it behind a TLS proxy. */
  secureCookies: z.boolean().default(false),
  /** Sort order of the trades; it decides which filters read few rows. */
  order: z.enum(['time', 'symbol']).default('time'),
  /** Interface to listen on. */
  host: z.string().default('127.0.0.1'),
  /** Ports of the main and of the separate entry point; 0 picks a free port. */
  port: whole.default(8100),
  portalPort: whole.default(8101),
});

export type ServiceOptions = Readonly<z.output<typeof optionsSchema>>;

export const SERVICE_DEFAULTS: ServiceOptions = optionsSchema.parse({});

/** @throws Fault `SERVICE_OPTION_INVALID` (kind `usage`) */
export function assertOptions(options: ServiceOptions): void {
  const issue = optionsSchema.safeParse(options).error?.issues[0];
  if (issue === undefined) return;
  const name = String(issue.path[0]);
  const came = String(options[name as keyof ServiceOptions]);
  throw invalidOption(name, came, issue.message);
}

export function invalidOption(name: string, came: string | undefined, allowed: string): Fault {
  return new Fault('SERVICE_OPTION_INVALID', `${name} is ${came}; allowed is ${allowed}`, { kind: 'usage' });
}
