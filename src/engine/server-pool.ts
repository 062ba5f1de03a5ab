/**
 * Many callers on a ClickHouse server, over HTTP. Invariant: at most `size` statements run at the same time, and an
 * aborted statement is ended on the server before its slot is released.
 *
 * Three things end it: the closed connection, which newer servers watch
 * (`cancel_http_readonly_queries_on_client_close`); KILL QUERY with the statement's own id, for older ones; and, if
 * neither reaches the server, its own time limit.
 *
 * An error after a 200 is impossible, because the server keeps the result until the statement has ended
 * (`wait_end_of_query`); results above `RESULT_MEMORY_BYTES` go to its disk. The alternative would be to send at once
 * and to look for the exception at the body's end. Then we would have to keep the whole result here, since nothing may
 * be passed on before success is known; the server's threads would be freed only as fast as the caller reads; and older
 * servers write that end differently.
 */
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { buffer, json } from 'node:stream/consumers';
import type { ClickHouseClient } from '@clickhouse/client';
import { type Capabilities, keepKnown, readCapabilities } from './capabilities.ts';
import { EngineFault } from './engine-fault.ts';
import { FairSlots, type TurnLimits } from './fair-slots.ts';
import { quoteString } from './literal.ts';
import type { EnginePool, PooledEngine, PoolRequest } from './pool.ts';
import { openServerClient, toEngineFault } from './server-client.ts';

export interface ServerPoolOptions extends TurnLimits {
  /** `http(s)://user:password@host:port/database`. */
  readonly url: string;
  /**
   * Settings sent with every statement, given the names of the settings that the server knows; unknown ones are left
   * out. Old servers obey `max_memory_usage` and `max_result_rows` only here, not in a SETTINGS clause. Default: none.
   */
  readonly settings?: (known: ReadonlySet<string>) => Readonly<Record<string, string | number>>;
}

export interface ServerPool extends EnginePool {
  /** Read when the pool was opened. */
  readonly capabilities: Capabilities;
}

/** Bytes of a result that the server keeps in memory; an answer of 10,000 trade records has about 7 MB. */
const RESULT_MEMORY_BYTES = 16_000_000;
/** A statement still running this long after KILL is left to the server's own time limit. */
const KILL_WAIT_MS = 5_000;
/** KILL may overtake its statement, which the server then does not know yet. */
const KILL_ATTEMPTS = 3;

/**
 * Opens the pool and reads the server's capabilities.
 * @throws EngineFault if the server is unreachable or refuses the user
 */
export async function openServerPool(options: ServerPoolOptions): Promise<ServerPool> {
  const capabilities = await readServerCapabilities(options.url);
  const client = await openServerClient({
    url: options.url,
    // One statement per slot, and as many KILLs.
    maxConnections: 2 * options.size,
    settings: {
      buffer_size: RESULT_MEMORY_BYTES,
      ...keepKnown(
        { cancel_http_readonly_queries_on_client_close: 1, ...options.settings?.(capabilities.settings) },
        capabilities,
      ),
    },
  });
  return new HttpPool(client, capabilities, options);
}

async function readServerCapabilities(url: string): Promise<Capabilities> {
  const client = await openServerClient({ url });
  try {
    return await readCapabilities(new ServerStatements(client));
  } finally {
    await client.close();
  }
}

class HttpPool implements ServerPool {
  readonly kind = 'server';
  readonly size: number;
  readonly capabilities: Capabilities;
  readonly #client: ClickHouseClient;
  readonly #turns: FairSlots;
  /** Running tasks, by the function that aborts each. */
  readonly #running = new Map<(reason: unknown) => void, Promise<unknown>>();

  constructor(client: ClickHouseClient, capabilities: Capabilities, limits: TurnLimits) {
    this.#client = client;
    this.capabilities = capabilities;
    this.size = limits.size;
    this.#turns = new FairSlots(limits);
  }

  get running(): number {
    return this.#turns.running;
  }

  get waiting(): number {
    return this.#turns.waiting;
  }

  async use<T>(request: PoolRequest, task: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const turn = await this.#turns.take(request.owner, request.signal);
    let give: (reason: unknown) => void = () => {};
    const given = new Promise<never>((_resolve, reject) => {
      give = reject;
    });
    const abort = () => give(request.signal.reason);
    const running = this.#run(given, task).finally(() => {
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
    await this.#client.close();
  }

  /** Returns the task's result, or throws the abort reason; in either case no statement is left on the server. */
  async #run<T>(given: Promise<never>, task: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const engine = new ServerStatements(this.#client);
    try {
      return await Promise.race([task(engine), given]);
    } finally {
      await engine.end();
    }
  }
}

/** The statements of one task. */
class ServerStatements implements PooledEngine {
  readonly state: object;
  readonly #client: ClickHouseClient;
  /** Statements that the server may still be running, by id. */
  readonly #open = new Map<string, AbortController>();
  /** Resolves when all statements so far have ended. */
  #last: Promise<unknown> = Promise.resolve();
  /** Results that were not read to their end. */
  readonly #results = new Set<Readable>();
  #isOver = false;

  constructor(client: ClickHouseClient) {
    this.#client = client;
    // All tasks share the state of the server.
    this.state = client;
  }

  async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
    const result = await this.#send(`${sql}\nFORMAT JSON`, json);
    return (result as { data: Row[] }).data; // The format defines the shape; the caller is responsible for `Row`.
  }

  async command(sql: string): Promise<void> {
    await this.#send(sql, buffer);
  }

  async stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>> {
    return await this.#send(`${sql}\nFORMAT ${format}`, async (result) => {
      this.#results.add(result);
      return this.#read(result);
    });
  }

  /** Ends running statements. No statement begins afterwards. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const result of this.#results) result.destroy();
    const open = [...this.#open.keys()];
    for (const control of this.#open.values()) control.abort();
    await Promise.all(open.map((id) => this.#kill(id)));
  }

  async *#read(result: Readable): AsyncGenerator<Uint8Array> {
    try {
      // A byte stream, not in object mode, yields bytes.
      for await (const piece of result) yield piece as Uint8Array;
    } catch (cause) {
      throw toEngineFault(cause);
    } finally {
      this.#results.delete(result);
      result.destroy();
    }
  }

  /** Sends one statement after earlier ones and reads its result. */
  async #send<T>(query: string, read: (result: Readable) => Promise<T>): Promise<T> {
    const turn = this.#last.then(() => this.#execute(query, read));
    this.#last = turn.catch(() => {});
    return await turn;
  }

  async #execute<T>(query: string, read: (result: Readable) => Promise<T>): Promise<T> {
    if (this.#isOver) throw new EngineFault(0, 'the task of this engine is over');
    const id = randomUUID();
    const control = new AbortController();
    this.#open.set(id, control);
    try {
      const { stream } = await this.#client.exec({ query, query_id: id, abort_signal: control.signal });
      const result = await read(stream);
      this.#open.delete(id);
      return result;
    } catch (cause) {
      const fault = toEngineFault(cause);
      // An error number means that the server has answered, so the statement is over.
      if (fault.clickhouseCode !== 0) this.#open.delete(id);
      throw fault;
    }
  }

  /** Best effort: if the server is gone, or another one answers at its address, the server's time limit remains. */
  async #kill(id: string): Promise<void> {
    const abort_signal = AbortSignal.timeout(KILL_WAIT_MS);
    try {
      for (let attempt = 0; attempt < KILL_ATTEMPTS; attempt += 1) {
        const { stream } = await this.#client.exec({
          query: `KILL QUERY WHERE query_id = ${quoteString(id)} SYNC`,
          abort_signal,
        });
        // The answer lists the killed statements.
        if ((await buffer(stream)).length > 0) break;
      }
    } catch {
      // Nothing more can be done from here.
    }
    this.#open.delete(id);
  }
}
