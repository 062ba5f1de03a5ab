/**
 * A ClickHouse server at one address, over HTTP with the official client; a load balancer may choose the server behind
 * it. Invariant: the server sends the head of an answer only after the statement has ended (`wait_end_of_query`), so a
 * 200 means success, and ClickHouse's error number is kept. Until then it keeps the result, above `RESULT_MEMORY_BYTES`
 * on its disk: otherwise its threads would be freed only as fast as the caller reads.
 *
 * Three things end a statement that is aborted or whose connection breaks: the closed connection, which the server
 * watches (`cancel_http_readonly_queries_on_client_close`); KILL QUERY with the statement's own id; and, if neither
 * reaches the server, its own time limit.
 */
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { buffer, json } from 'node:stream/consumers';
import type { ClickHouseClient } from '@clickhouse/client';
import { describeError, Fault } from '../core/errors.ts';
import { EngineFault } from './engine-fault.ts';
import type { EngineSettings } from './literal.ts';
import { EnginePool, type Lane, type PooledEngine, type TurnLimits } from './pool.ts';

interface ServerOptions {
  /** `http(s)://user:password@host:port/database`. */
  readonly url: string;
  /** Maximum concurrent connections. Default: the client's own, 10. */
  readonly maxConnections?: number;
  /** Sent with every statement. Default: none. */
  readonly settings?: EngineSettings;
}

interface SendOptions {
  readonly settings?: EngineSettings | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The server sends nothing before a statement has ended, and the client gives up after this much silence; its default
 * of 30 s would end loads and exports. Callers that want to wait less use their signal.
 */
const MAX_SILENCE_MS = 3_600_000;
/** A statement still running this long after KILL is left to the server's own time limit. */
const KILL_MS = 5_000;
/** KILL may overtake its statement, which the server then does not know yet. */
const KILL_ATTEMPTS = 3;

/**
 * Opens a client; no request is sent until the first statement.
 * @throws Fault `SERVER_URL_INVALID` (kind `usage`)
 */
export async function openServerEngine(options: ServerOptions): Promise<ServerEngine> {
  const { url, maxConnections, settings } = options;
  const { ClickHouseLogLevel, createClient } = await import('@clickhouse/client');
  try {
    const client = createClient({
      url,
      request_timeout: MAX_SILENCE_MS,
      ...(maxConnections === undefined ? {} : { max_open_connections: maxConnections }),
      // Failures are thrown; the client would also print them, bypassing our log and its masking.
      log: { level: ClickHouseLogLevel.OFF },
      clickhouse_settings: { output_format_json_quote_64bit_integers: 0, wait_end_of_query: 1, ...settings },
    });
    return new ServerEngine(client);
  } catch (cause) {
    // Do not show the URL: it contains a password.
    throw new Fault('SERVER_URL_INVALID', 'the address of the ClickHouse server is not an http or https URL', {
      kind: 'usage',
      cause,
      hint: 'It looks like http://USER:PASSWORD@HOST:8123/DATABASE. In a password, % is written as %25, and @ as %40.',
    });
  }
}

export class ServerEngine {
  readonly #client: ClickHouseClient;

  constructor(client: ClickHouseClient) {
    this.#client = client;
  }

  /** Runs one statement that returns no rows. @throws EngineFault */
  async command(sql: string, options: SendOptions = {}): Promise<void> {
    await this.#run(sql, options, buffer);
  }

  /** Runs one query and returns its rows as objects. 64-bit integers become numbers. @throws EngineFault */
  async rows<Row extends object>(sql: string, options: SendOptions = {}): Promise<readonly Row[]> {
    const result = await this.#run(`${sql}\nFORMAT JSON`, options, json);
    return (result as { data: Row[] }).data; // The format defines the shape; the caller is responsible for `Row`.
  }

  /** Runs one query; the stream's bytes are its result in `format`. @throws EngineFault before the first byte */
  async stream(sql: string, format: string | undefined, options: SendOptions = {}): Promise<Readable> {
    return await this.#run(format === undefined ? sql : `${sql}\nFORMAT ${format}`, options, async (stream) => stream);
  }

  /** Runs an `INSERT INTO ... FORMAT ...` with the bytes of its rows. @throws EngineFault */
  async send(sql: string, rows: Readable, options: SendOptions = {}): Promise<void> {
    // Not the client's own insert: that takes rows as objects, and ours are bytes.
    await this.#run(sql, { ...options, values: rows }, buffer);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #run<T>(
    query: string,
    { settings, signal, values }: SendOptions & { readonly values?: Readable },
    read: (answer: Readable) => Promise<T>,
  ): Promise<T> {
    // The client only waits for the signal's event; a signal that is already aborted sends none.
    if (signal?.aborted) throw toEngineFault(signal.reason);
    const id = `flowdrop-${randomUUID()}`;
    try {
      const { stream } = await this.#client.exec({
        query,
        query_id: id,
        ...(settings ? { clickhouse_settings: { ...settings } } : {}),
        ...(signal ? { abort_signal: signal } : {}),
        ...(values ? { values } : {}),
      });
      return await read(stream);
    } catch (cause) {
      const fault = toEngineFault(signal?.aborted ? signal.reason : cause);
      // An error number means that the server has answered, so the statement is over.
      if (fault.clickhouseCode === 0) await this.#kill(id);
      throw fault;
    }
  }

  /** Best effort: if the server is gone, or another one answers at its address, the server's time limit remains. */
  async #kill(id: string): Promise<void> {
    const query = `KILL QUERY WHERE query_id = '${id}' SYNC`;
    const abort_signal = AbortSignal.timeout(KILL_MS);
    try {
      for (let attempt = 0; attempt < KILL_ATTEMPTS; attempt += 1) {
        const { stream } = await this.#client.exec({ query, abort_signal });
        // The answer lists the killed statements.
        if ((await buffer(stream)).length > 0) break;
      }
    } catch {
      // Nothing more can be done from here.
    }
  }
}

/** Converts anything that the client throws, with ClickHouse's error number if the server sent one. */
function toEngineFault(cause: unknown): EngineFault {
  if (cause instanceof EngineFault) return cause;
  const message = describeError(cause);
  // The client recognizes the code only in the wording of newer servers.
  const code = Number((cause as { code?: unknown }).code ?? /^Code: (\d+)/.exec(message)?.[1]);
  return new EngineFault(Number.isInteger(code) ? code : 0, message, cause);
}

/** Bytes of a result that the server keeps in memory; an answer of 10,000 trade records has about 7 MB. */
const RESULT_MEMORY_BYTES = 16_000_000;
/** A server that does not answer in this time is not there. */
const OPEN_MS = 10_000;

export type ServerPool = Awaited<ReturnType<typeof openServerPool>>;

/**
 * Opens the pool and reads the capabilities of the server, which it has as `capabilities`.
 * @throws Fault `SERVER_URL_INVALID` (kind `usage`), EngineFault if the server is not reachable or refuses the user
 */
export async function openServerPool(options: TurnLimits & Pick<ServerOptions, 'url'>) {
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

export type Capabilities = Readonly<Awaited<ReturnType<typeof readCapabilities>>>;

/**
 * The features of a server, and the rights of its user: it is asked itself, so that builds with fewer of them are
 * recognized. @throws EngineFault
 */
export async function readCapabilities(engine: Pick<PooledEngine, 'rows'>) {
  const [server] = await engine.rows<{ version: string }>('SELECT version() AS version');
  const settings = await engine.rows<{ name: string; value: string }>('SELECT name, value FROM system.settings');
  const functions = await engine.rows<{ name: string }>('SELECT name FROM system.functions');
  const level = Number(settings.find(({ name }) => name === 'readonly')?.value);
  if (server === undefined || (level !== 0 && level !== 1 && level !== 2))
    throw new EngineFault(0, 'the server does not report its version or its setting `readonly`: is it ClickHouse?');
  return {
    /** As the server writes it, e.g. `24.8.4.13`. */
    version: server.version,
    /** Names of all settings: any other setting makes a statement fail. */
    settings: new Set(settings.map(({ name }) => name)),
    /** Names of all functions and their aliases, as the server writes them. */
    functions: functions.map(({ name }) => name),
    /** 0: may write; 1: may read and change no setting; 2: may read and change settings, except this one. */
    readonly: level,
  };
}

/** The first version in which a view can have the rights of its owner, and the oldest that is supported. */
export const OLDEST_VERSION = '24.2';

/** Whether a server is older than the oldest that will do; that of the tests, 18.16, always is. */
export function isTooOld(version: string, oldest = OLDEST_VERSION): boolean {
  const [oldestMajor = 0, oldestMinor = 0] = oldest.split('.').map(Number);
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < oldestMajor || (major === oldestMajor && minor < oldestMinor);
}

export function keepKnown<Value>(
  settings: Readonly<Record<string, Value>>,
  capabilities: Pick<Capabilities, 'settings'>,
): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(settings).filter(([name]) => capabilities.settings.has(name)));
}
