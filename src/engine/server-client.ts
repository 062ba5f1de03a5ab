/**
 * The HTTP client of a ClickHouse server, for `server.ts` (one caller) and `server-pool.ts` (many). Invariant: the
 * server sends the head of an answer only after the statement has ended, so a 200 means success; and ClickHouse's error
 * number is kept, from servers of any age.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { describeError, Fault } from '../core/errors.ts';
import { EngineFault } from './engine-fault.ts';
import type { EngineSettings } from './literal.ts';

interface ServerClientOptions {
  /** `http(s)://user:password@host:port/database`. */
  readonly url: string;
  /** Maximum concurrent connections. Default: the client's own, 10. */
  readonly maxConnections?: number;
  /** Sent with every statement, in the URL: old servers accept limits of results and memory only there. */
  readonly settings?: EngineSettings;
}

/**
 * The server sends nothing before a statement has ended, and the client gives up after this much silence; its default
 * of 30 s would end loads and exports. Callers that want to wait less use their signal.
 */
const MAX_SILENCE_MS = 3_600_000;

/**
 * Opens a client; no request is sent until the first statement.
 * @throws Fault `SERVER_URL_INVALID` (kind `usage`)
 */
export async function openServerClient(options: ServerClientOptions): Promise<ClickHouseClient> {
  if (!URL.canParse(options.url) || !/^https?:$/.test(new URL(options.url).protocol)) {
    // Do not show the URL: it contains a password.
    throw new Fault('SERVER_URL_INVALID', 'the address of the ClickHouse server is not an http or https URL', {
      kind: 'usage',
      hint: 'It looks like http://USER:PASSWORD@HOST:8123/DATABASE.',
    });
  }
  const { ClickHouseLogLevel, createClient } = await import('@clickhouse/client');
  return createClient({
    url: options.url,
    request_timeout: MAX_SILENCE_MS,
    ...(options.maxConnections === undefined ? {} : { max_open_connections: options.maxConnections }),
    // Failures are thrown; the client would also print them, bypassing our log and its masking.
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: { output_format_json_quote_64bit_integers: 0, wait_end_of_query: 1, ...options.settings },
  });
}

/** Converts anything that the client throws, with ClickHouse's error number if the server sent one. */
export function toEngineFault(cause: unknown): EngineFault {
  if (cause instanceof EngineFault) return cause;
  const message = describeError(cause);
  // The client recognises the code only in the wording of newer servers.
  const code = Number((cause as { code?: unknown }).code ?? /^Code: (\d+)/.exec(message)?.[1]);
  return new EngineFault(Number.isInteger(code) ? code : 0, message, cause);
}
