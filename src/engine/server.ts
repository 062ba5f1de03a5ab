/**
 * A ClickHouse server at one address, over HTTP with the official client; a load balancer may choose the server behind
 * it. Same contract as the embedded engine. Invariant: the server sends the head of an answer only after the statement
 * has ended (`wait_end_of_query`), so a 200 means success, and ClickHouse's error number is kept. A statement that is
 * aborted, or whose connection breaks, is also killed on the server.
 */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer, json } from 'node:stream/consumers';
import type { ClickHouseClient } from '@clickhouse/client';
import { describeError, Fault } from '../core/errors.ts';
import { readTable } from './arrow-table.ts';
import type { Engine, FormattedResult, InsertRequest, StatementOptions } from './engine.ts';
import { EngineFault } from './engine-fault.ts';
import { type EngineSettings, quoteIdentifier } from './literal.ts';

export interface ServerOptions {
  /** `http(s)://user:password@host:port/database`. */
  readonly url: string;
  /** Maximum concurrent connections. Default: the client's own, 10. */
  readonly maxConnections?: number;
  /** Sent with every statement. Default: none. */
  readonly settings?: EngineSettings;
}

export interface StreamOptions extends StatementOptions {
  /** Settings of this statement alone. */
  readonly settings?: EngineSettings | undefined;
}

/** Only a server can do this: stream a result larger than memory, encoded by the server. */
export interface StreamingEngine extends Engine {
  /** Runs one query; the stream's bytes are its result in `format`. @throws EngineFault before the first byte */
  stream(sql: string, format: string, options?: StreamOptions): Promise<Readable>;
  rows<Row extends object>(sql: string, options?: StreamOptions): Promise<readonly Row[]>;
  /** Runs an `INSERT INTO ... FORMAT ...` with the bytes of its rows. @throws EngineFault */
  send(sql: string, rows: Readable, options?: StreamOptions): Promise<void>;
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
export async function openServerEngine(options: ServerOptions): Promise<StreamingEngine> {
  const { url, maxConnections, settings } = options;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    // Do not show the URL: it contains a password.
    throw new Fault('SERVER_URL_INVALID', 'the address of the ClickHouse server is not an http or https URL', {
      kind: 'usage',
      hint: 'It looks like http://USER:PASSWORD@HOST:8123/DATABASE.',
    });
  }
  const { ClickHouseLogLevel, createClient } = await import('@clickhouse/client');
  const client = createClient({
    url,
    request_timeout: MAX_SILENCE_MS,
    ...(maxConnections === undefined ? {} : { max_open_connections: maxConnections }),
    // Failures are thrown; the client would also print them, bypassing our log and its masking.
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: { output_format_json_quote_64bit_integers: 0, wait_end_of_query: 1, ...settings },
  });
  return new ServerEngine(client);
}

/** What the server answered, from the head on. */
type Answer = Awaited<ReturnType<ClickHouseClient['exec']>>;

class ServerEngine implements StreamingEngine {
  readonly #client: ClickHouseClient;

  constructor(client: ClickHouseClient) {
    this.#client = client;
  }

  async command(sql: string, options: StreamOptions = {}): Promise<void> {
    await this.#run(sql, options, ({ stream }) => buffer(stream));
  }

  async rows<Row extends object>(sql: string, options: StreamOptions = {}): Promise<readonly Row[]> {
    const result = await this.#run(`${sql}\nFORMAT JSON`, options, ({ stream }) => json(stream));
    return (result as { data: Row[] }).data; // The format defines the shape; the caller is responsible for `Row`.
  }

  async stream(sql: string, format: string, options: StreamOptions = {}): Promise<Readable> {
    return await this.#run(`${sql}\nFORMAT ${format}`, options, async ({ stream }) => stream);
  }

  async format(sql: string, format: string, options: StatementOptions = {}): Promise<FormattedResult> {
    return await this.#run(`${sql}\nFORMAT ${format}`, options, async ({ stream, summary }) => {
      const bytes = await buffer(stream);
      const rows = summary?.result_rows;
      if (rows === undefined) throw new EngineFault(0, 'the ClickHouse server does not report how many rows it sent');
      return { bytes, rows: Number(rows) };
    });
  }

  async columns(sql: string, options: StatementOptions = {}) {
    return await readTable((await this.format(sql, 'ArrowStream', options)).bytes);
  }

  async send(sql: string, rows: Readable, options: StreamOptions = {}): Promise<void> {
    // Not the client's own insert: that takes rows as objects, and ours are bytes.
    await this.#run(sql, { ...options, values: rows }, ({ stream }) => buffer(stream));
  }

  async insert({ table, format, payload, settings }: InsertRequest): Promise<void> {
    const name = table.split('.').map(quoteIdentifier).join('.');
    await this.send(`INSERT INTO ${name} FORMAT ${format}`, Readable.from([payload], { objectMode: false }), {
      settings,
    });
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #run<T>(
    query: string,
    options: StreamOptions & { readonly values?: Readable },
    read: (answer: Answer) => Promise<T>,
  ): Promise<T> {
    const { params, settings, signal, values } = options;
    // The client only waits for the signal's event; a signal that is already aborted sends none.
    if (signal?.aborted) throw toEngineFault(signal.reason);
    const id = `flowdrop-${randomUUID()}`;
    try {
      const answer = await this.#client.exec({
        query,
        query_id: id,
        ...(settings ? { clickhouse_settings: { ...settings } } : {}),
        ...(params ? { query_params: { ...params } } : {}),
        ...(signal ? { abort_signal: signal } : {}),
        ...(values ? { values } : {}),
      });
      return await read(answer);
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
