/**
 * A ClickHouse server or cluster, over HTTP with the official client. Same contract as the embedded engine; here a
 * statement is truly cancelled when its signal aborts.
 */
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { ClickHouseClient } from '@clickhouse/client';
import { describeError } from '../core/errors.ts';
import { readTable } from './columns.ts';
import type { Engine, FormattedResult, InsertRequest, StatementOptions } from './engine.ts';
import { EngineFault } from './fault.ts';

export interface ServerOptions {
  /** `http(s)://user:password@host:port/database`. */
  readonly url: string;
}

/** Opens a client; no request is sent until the first statement. */
export async function openServerEngine(options: ServerOptions): Promise<Engine> {
  const { createClient } = await import('@clickhouse/client');
  return new ServerEngine(
    createClient({ url: options.url, clickhouse_settings: { output_format_json_quote_64bit_integers: 0 } }),
  );
}

class ServerEngine implements Engine {
  readonly kind = 'server';
  readonly #client: ClickHouseClient;

  constructor(client: ClickHouseClient) {
    this.#client = client;
  }

  async command(sql: string, options: StatementOptions = {}): Promise<void> {
    await guard(() => this.#client.command({ query: sql, ...bound(options) }));
  }

  async rows<Row extends object>(sql: string, options: StatementOptions = {}): Promise<readonly Row[]> {
    const { bytes } = await this.format(sql, 'JSON', options);
    return (JSON.parse(Buffer.from(bytes).toString('utf8')) as { data: Row[] }).data;
  }

  async format(sql: string, format: string, options: StatementOptions = {}): Promise<FormattedResult> {
    return await guard(async () => {
      const result = await this.#client.exec({ query: `${sql}\nFORMAT ${format}`, ...bound(options) });
      const bytes = await buffer(result.stream);
      return { bytes, rows: Number(result.summary?.result_rows ?? 0) };
    });
  }

  async columns(sql: string, options: StatementOptions = {}) {
    return await readTable((await this.format(sql, 'ArrowStream', options)).bytes);
  }

  async insert(request: InsertRequest): Promise<void> {
    await guard(() =>
      this.#client.insert({
        table: request.table,
        format: request.format,
        values: Readable.from([request.payload], { objectMode: false }),
        ...(request.settings ? { clickhouse_settings: { ...request.settings } } : {}),
      }),
    );
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

async function guard<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (cause) {
    const code = Number((cause as { code?: unknown }).code);
    throw new EngineFault(Number.isInteger(code) ? code : 0, describeError(cause), cause);
  }
}
