/**
 * A ClickHouse server or cluster, over HTTP with the official client. Same contract as the embedded engine; an aborted
 * signal also aborts the HTTP request.
 */
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { ClickHouseClient } from '@clickhouse/client';
import { readTable } from './arrow-table.ts';
import type { Engine, FormattedResult, InsertRequest, StatementOptions } from './engine.ts';
import { EngineFault } from './engine-fault.ts';
import { type EngineSettings, quoteIdentifier } from './literal.ts';
import { openServerClient, toEngineFault } from './server-client.ts';

export interface ServerOptions {
  /** `http(s)://user:password@host:port/database`. */
  readonly url: string;
  /** Sent with every statement. Default: none. */
  readonly settings?: EngineSettings;
}

interface StreamOptions extends StatementOptions {
  /** Names the query on the server; when the signal is aborted, the query is also killed there. */
  readonly queryId?: string | undefined;
}

/** Only a server can do this: stream a result larger than memory, encoded by the server. */
export interface StreamingEngine extends Engine {
  /** Runs one query; the stream's bytes are its result in `format`. @throws EngineFault before the first byte */
  stream(sql: string, format: string, options?: StreamOptions): Promise<Readable>;
  rows<Row extends object>(sql: string, options?: StreamOptions): Promise<readonly Row[]>;
}

/** A server that does not answer loses its connection anyway, which ends most queries. */
const KILL_MS = 5_000;

/** Opens a client; no request is sent until the first statement. */
export async function openServerEngine(options: ServerOptions): Promise<StreamingEngine> {
  return new ServerEngine(await openServerClient(options));
}

class ServerEngine implements StreamingEngine {
  readonly kind = 'server';
  readonly #client: ClickHouseClient;

  constructor(client: ClickHouseClient) {
    this.#client = client;
  }

  async command(sql: string, options: StatementOptions = {}): Promise<void> {
    await guard(() => this.#client.command({ query: sql, ...bound(options) }), options.signal);
  }

  async rows<Row extends object>(sql: string, options: StreamOptions = {}): Promise<readonly Row[]> {
    return await this.#named(options, async (named) =>
      guard(async () => {
        const result = await this.#client.query({ query: sql, format: 'JSON', ...named });
        return (await result.json<Row>()).data;
      }, options.signal),
    );
  }

  async format(sql: string, format: string, options: StatementOptions = {}): Promise<FormattedResult> {
    return await guard(async () => {
      const result = await this.#client.exec({ query: `${sql}\nFORMAT ${format}`, ...bound(options) });
      const bytes = await buffer(result.stream);
      const rows = result.summary?.result_rows;
      if (rows === undefined)
        throw new EngineFault(0, 'the ClickHouse server is too old: it does not report how many rows it sent');
      return { bytes, rows: Number(rows) };
    }, options.signal);
  }

  async stream(sql: string, format: string, options: StreamOptions = {}): Promise<Readable> {
    return await this.#named(options, async (named) =>
      guard(async () => {
        const { stream } = await this.#client.exec({ query: `${sql}\nFORMAT ${format}`, ...named });
        return stream;
      }, options.signal),
    );
  }

  /** Kills the statement on the server when the signal is aborted. */
  async #named<T>(
    options: StreamOptions,
    run: (named: ReturnType<typeof bound> & { readonly query_id?: string }) => Promise<T>,
  ): Promise<T> {
    const { queryId, signal } = options;
    try {
      return await run({ ...(queryId === undefined ? {} : { query_id: queryId }), ...bound(options) });
    } catch (error) {
      if (queryId !== undefined && signal?.aborted) await this.#kill(queryId);
      throw error;
    }
  }

  /** Best effort: the caller has a failure to report already. */
  async #kill(queryId: string): Promise<void> {
    const query = `KILL QUERY WHERE query_id = '${queryId.replaceAll(/[^\w-]/g, '')}' ASYNC`;
    await this.#client.command({ query, abort_signal: AbortSignal.timeout(KILL_MS) }).catch(() => {});
  }

  async columns(sql: string, options: StatementOptions = {}) {
    return await readTable((await this.format(sql, 'ArrowStream', options)).bytes);
  }

  async insert(request: InsertRequest): Promise<void> {
    // Not the client's own insert: that takes rows as objects, and ours are bytes.
    await guard(async () => {
      const table = request.table.split('.').map(quoteIdentifier).join('.');
      const { stream } = await this.#client.exec({
        query: `INSERT INTO ${table} FORMAT ${request.format}`,
        values: Readable.from([request.payload], { objectMode: false }),
        ...(request.settings ? { clickhouse_settings: { ...request.settings } } : {}),
      });
      await buffer(stream);
    });
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

function bound(options: StatementOptions) {
  return {
    ...(options.params ? { query_params: { ...options.params } } : {}),
    ...(options.signal ? { abort_signal: options.signal } : {}),
  };
}

async function guard<T>(action: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    // The client only waits for the signal's event; a signal that is already aborted sends none.
    signal?.throwIfAborted();
    return await action();
  } catch (cause) {
    throw toEngineFault(cause);
  }
}
