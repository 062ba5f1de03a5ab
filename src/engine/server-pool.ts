/**
 * Many callers on a ClickHouse server, over HTTP. Invariant: at most `size` statements run at the same time, and an
 * aborted statement is ended on the server before its slot is released.
 *
 * Three things end it: the closed connection, which the server watches
 * (`cancel_http_readonly_queries_on_client_close`); KILL QUERY with the statement's own id; and, if neither reaches the
 * server, its own time limit.
 *
 * The server keeps a result until the statement has ended; above `RESULT_MEMORY_BYTES` on its disk. The alternative
 * would be to look for an exception at the end of the result. Then we would have to keep the whole result here, since
 * nothing may be passed on before success is known, and the server's threads would be freed only as fast as the caller
 * reads.
 */
import type { Readable } from 'node:stream';
import { describeError } from '../core/errors.ts';
import { type Capabilities, keepKnown, readCapabilities } from './capabilities.ts';
import { EngineFault } from './engine-fault.ts';
import type { TurnLimits } from './fair-slots.ts';
import { EnginePool, type Lane } from './pool.ts';
import { openServerEngine } from './server.ts';

export interface ServerPoolOptions extends TurnLimits {
  /** `http(s)://user:password@host:port/database`. */
  readonly url: string;
}

export interface ServerPool extends EnginePool {
  /** What the server had when the pool was opened. */
  readonly capabilities: Capabilities;
}

/** Bytes of a result that the server keeps in memory; an answer of 10,000 trade records has about 7 MB. */
const RESULT_MEMORY_BYTES = 16_000_000;
/** A server that does not answer in this time is not there. */
const OPEN_MS = 10_000;

/**
 * Opens the pool and reads the capabilities of the server.
 * @throws Fault `SERVER_URL_INVALID` (kind `usage`), EngineFault if the server is not reachable or refuses the user
 */
export async function openServerPool(options: ServerPoolOptions): Promise<ServerPool> {
  // One statement per slot, and as many KILLs.
  const server = await openServerEngine({ url: options.url, maxConnections: 2 * options.size });
  try {
    const signal = AbortSignal.timeout(OPEN_MS);
    const capabilities = await readCapabilities({ rows: (sql) => server.rows(sql, { signal }) });
    const known = keepKnown({ cancel_http_readonly_queries_on_client_close: 1 }, capabilities);
    const settings = { buffer_size: RESULT_MEMORY_BYTES, ...known };
    // All slots share the state of the server.
    const lane: Lane = {
      state: server,
      async run(sql, format, over) {
        const result = await server.stream(sql, format, { settings, signal: over });
        over.addEventListener('abort', () => result.destroy());
        return readResult(result);
      },
      settle: async (idle) => await idle,
    };
    const pool = new EnginePool(options, { open: async () => lane, close: () => server.close() });
    return Object.assign(pool, { capabilities });
  } catch (error) {
    await server.close();
    throw error;
  }
}

async function* readResult(result: Readable): AsyncGenerator<Uint8Array> {
  try {
    yield* result;
  } catch (cause) {
    throw new EngineFault(0, `the result broke off: ${describeError(cause)}`, cause);
  }
}
