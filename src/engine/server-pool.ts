/**
 * Many callers on a ClickHouse server, over HTTP. Invariant: at most `size` statements run at the same time, and one that
 * is given up is ended on the server before its place is given away.
 *
 * Three things end it: the closed connection, which newer servers watch (`cancel_http_readonly_queries_on_client_close`);
 * KILL QUERY by the statement's own id, for older ones; and, where neither reaches the server, its own time limit.
 *
 * An error after a 200 is impossible, because the server keeps the result until the statement has ended
 * (`wait_end_of_query`), beyond `RESULT_MEMORY_BYTES` on its disk. The other way, to send at once and to look for the
 * exception at the body's end, would have the whole result kept here instead, as nothing may be passed on before success is
 * known; it frees the server's threads only as fast as the caller reads; and older servers write that end differently.
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
   * What is sent with every statement, by the names of the settings that the server knows; unknown ones are left out. Old
   * servers obey `max_memory_usage` and `max_result_rows` only here, not in a SETTINGS clause. Default: nothing.
   */
  readonly settings?: (known: ReadonlySet<string>) => Readonly<Record<string, string | number>>;
}

export interface ServerPool extends EnginePool {
  /** As they were when the pool was opened. */
  readonly capabilities: Capabilities;
}

/** Bytes of a result that the server keeps in memory; an answer of 10,000 trade records has about 7 MB. */
const RESULT_MEMORY_BYTES = 16_000_000;
/** A statement that has not ended so long after KILL is left to the server's own time limit. */
const KILL_WAIT_MS = 5_000;
/** KILL may overtake the statement that it is for, which the server then does not know yet. */
const KILL_ATTEMPTS = 3;

/**
 * Opens the pool and asks the server what it can do.
 * @throws EngineFault when the server cannot be reached or refuses the user
 */
export async function openServerPool(options: ServerPoolOptions): Promise<ServerPool> {
  const capabilities = await readServerCapabilities(options.url);
  const client = await openServerClient({
    url: options.url,
    // One statement each, and as many KILLs.
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
  /** Tasks under way, by what gives them up. */
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
      // Who gives up need not wait for the server to end the statement; its place does.
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

  /** The task's result, or the reason for which it is given up; in either case no statement is left on the server. */
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
  /** Statements that the server may still be working on, by their ids. */
  readonly #open = new Map<string, AbortController>();
  /** Ends when the statements so far have. */
  #last: Promise<unknown> = Promise.resolve();
  /** Results that were not read to their end. */
  readonly #results = new Set<Readable>();
  #isOver = false;

  constructor(client: ClickHouseClient) {
    this.#client = client;
    // All share the server's.
    this.state = client;
  }

  async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
    const result = await this.#send(`${sql}\nFORMAT JSON`, json);
    return (result as { data: Row[] }).data; // The shape of the format; the rows' is the caller's claim.
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

  /** Ends what is under way. No statement begins afterwards. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const result of this.#results) result.destroy();
    const open = [...this.#open.keys()];
    for (const control of this.#open.values()) control.abort();
    await Promise.all(open.map((id) => this.#kill(id)));
  }

  async *#read(result: Readable): AsyncGenerator<Uint8Array> {
    try {
      // Without objects in it, a stream of bytes gives bytes.
      for await (const piece of result) yield piece as Uint8Array;
    } catch (cause) {
      throw toEngineFault(cause);
    } finally {
      this.#results.delete(result);
      result.destroy();
    }
  }

  /** Sends one statement after those before it and reads its result. */
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
      // With a number the server has spoken, and the statement is over.
      if (fault.clickhouseCode !== 0) this.#open.delete(id);
      throw fault;
    }
  }

  /** Best effort: where the server is gone, or another one behind the same address answers, its time limit remains. */
  async #kill(id: string): Promise<void> {
    const abort_signal = AbortSignal.timeout(KILL_WAIT_MS);
    try {
      for (let attempt = 0; attempt < KILL_ATTEMPTS; attempt += 1) {
        const { stream } = await this.#client.exec({
          query: `KILL QUERY WHERE query_id = ${quoteString(id)} SYNC`,
          abort_signal,
        });
        // The answer names what was killed.
        if ((await buffer(stream)).length > 0) break;
      }
    } catch {
      // Nobody can do more about it from here.
    }
    this.#open.delete(id);
  }
}
