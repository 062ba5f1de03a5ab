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
import { FairSlots, type TurnLimits } from './fair-slots.ts';
import type { EngineSettings } from './literal.ts';
import type { EnginePool, PooledEngine, PoolRequest } from './pool.ts';
import { openServerEngine, type StreamingEngine, type StreamOptions } from './server.ts';

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
    const settings = keepKnown({ cancel_http_readonly_queries_on_client_close: 1 }, capabilities);
    return new HttpPool(server, capabilities, options, { buffer_size: RESULT_MEMORY_BYTES, ...settings });
  } catch (error) {
    await server.close();
    throw error;
  }
}

class HttpPool implements ServerPool {
  readonly size: number;
  readonly capabilities: Capabilities;
  readonly #server: StreamingEngine;
  readonly #settings: EngineSettings;
  readonly #turns: FairSlots;
  /** Running tasks, by the function that aborts each. */
  readonly #running = new Map<(reason: unknown) => void, Promise<unknown>>();

  constructor(server: StreamingEngine, capabilities: Capabilities, limits: TurnLimits, settings: EngineSettings) {
    this.size = limits.size;
    this.capabilities = capabilities;
    this.#server = server;
    this.#settings = settings;
    this.#turns = new FairSlots(limits);
  }

  get running(): number {
    return this.#turns.running;
  }

  get waiting(): number {
    return this.#turns.waiting;
  }

  async use<T>(request: PoolRequest, act: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const turn = await this.#turns.take(request.owner, request.signal);
    let give: (reason: unknown) => void = () => {};
    const given = new Promise<never>((_resolve, reject) => {
      give = reject;
    });
    const abort = () => give(request.signal.reason);
    const running = this.#run(given, act).finally(() => {
      turn.release();
      this.#running.delete(give);
    });
    this.#running.set(give, running);
    request.signal.addEventListener('abort', abort, { once: true });
    if (request.signal.aborted) abort();
    try {
      // An aborting caller need not wait until the server has ended the statement; the slot does.
      return await Promise.race([running, given]);
    } finally {
      request.signal.removeEventListener('abort', abort);
    }
  }

  async close(): Promise<void> {
    this.#turns.close();
    for (const give of this.#running.keys()) give(new EngineFault(0, 'the engines are closed'));
    await Promise.allSettled(this.#running.values());
    await this.#server.close();
  }

  /** Returns the task's result, or throws the abort reason; in either case no statement is left on the server. */
  async #run<T>(given: Promise<never>, act: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const task = new ServerTask(this.#server, this.#settings);
    try {
      return await Promise.race([act(task), given]);
    } finally {
      await task.end();
    }
  }
}

/** The statements of one task, one after another. */
class ServerTask implements PooledEngine {
  readonly state: object;
  readonly #server: StreamingEngine;
  readonly #options: StreamOptions;
  readonly #over = new AbortController();
  /** Resolves when all statements so far have ended. */
  #last: Promise<unknown> = Promise.resolve();
  /** Results that were not read to their end. */
  readonly #results = new Set<Readable>();

  constructor(server: StreamingEngine, settings: EngineSettings) {
    // All tasks share the state of the server.
    this.state = server;
    this.#server = server;
    this.#options = { settings, signal: this.#over.signal };
  }

  async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
    return await this.#inTurn(() => this.#server.rows<Row>(sql, this.#options));
  }

  async command(sql: string): Promise<void> {
    await this.#inTurn(() => this.#server.command(sql, this.#options));
  }

  async stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>> {
    const result = await this.#inTurn(() => this.#server.stream(sql, format, this.#options));
    this.#results.add(result);
    return this.#read(result);
  }

  /** Ends the running statement. None begins afterwards. */
  async end(): Promise<void> {
    this.#over.abort(new EngineFault(0, 'the task of this engine is over'));
    for (const result of this.#results) result.destroy();
    await this.#last;
  }

  async *#read(result: Readable): AsyncGenerator<Uint8Array> {
    try {
      yield* result;
    } catch (cause) {
      throw new EngineFault(0, `the result broke off: ${describeError(cause)}`, cause);
    } finally {
      this.#results.delete(result);
      result.destroy();
    }
  }

  async #inTurn<T>(send: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(send);
    this.#last = turn.catch(() => {});
    return await turn;
  }
}
