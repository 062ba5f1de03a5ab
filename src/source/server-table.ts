/**
 * A table of a ClickHouse server, as jobs read it. Invariant: the server encodes rows as a finished file, which streams
 * to disk with backpressure; no row becomes a JavaScript object.
 */
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { elapsedMs } from '../core/clock.ts';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import type { StatementOptions } from '../engine/engine.ts';
import { type EngineSettings, quoteIdentifier } from '../engine/literal.ts';
import { isTooOld, keepKnown, OLDEST_VERSION, readCapabilities, type ServerEngine } from '../engine/server.ts';
import type { ServerSource } from '../job/job.ts';
import type { Surroundings } from './requester.ts';
import { createServerClock } from './server-clock.ts';
import type { SourceStats } from './source.ts';

export type ServerTable = ReturnType<typeof openServerTable>;

/** @param address `http(s)://user:password@host:port/database` */
export function openServerTable(
  address: string,
  source: ServerSource,
  { engine, clock, log }: Pick<Surroundings, 'clock' | 'log'> & { readonly engine: ServerEngine },
) {
  const stats: SourceStats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 };
  const serverClock = createServerClock(clock, 0);
  let shape: ReturnType<typeof describe> | undefined;
  const begin = (sql: string, signal: AbortSignal | undefined) => {
    assertNotAborted(signal);
    stats.requests += 1;
    log.debug({ event: 'statement', sql }, 'a statement');
  };
  /** Returns the rows of a query with a small result. @throws EngineFault */
  const rows = async <Row extends object>(sql: string, { signal }: StatementOptions = {}): Promise<readonly Row[]> => {
    begin(sql, signal);
    try {
      return await engine.rows<Row>(sql, { signal });
    } catch (cause) {
      assertNotAborted(signal);
      throw cause;
    }
  };
  const describe = async (signal?: AbortSignal) => {
    assertNotAborted(signal);
    const ask = { signal };
    const capabilities = await readCapabilities({ rows: (sql) => rows(sql, ask) });
    assertModern(capabilities.version);
    const [now] = await rows<{ ms: number }>('SELECT toUnixTimestamp(now()) * 1000 AS ms', ask);
    if (now) serverClock.note({ serverMs: Number(now.ms), ownMs: clock.now(), elapsedMs: elapsedMs(clock) });
    const found = await rows<{ name: string; type: string }>(`DESCRIBE TABLE ${quoteTable(source.table)}`, ask);
    const types = new Map(found.map(({ name, type }) => [name, type]));
    assertColumns(source, types);
    return {
      /** ClickHouse type of each column of the table. */
      types: types as ReadonlyMap<string, string>,
      /** Keeps only the settings that the server knows. */
      keepKnown: (settings: EngineSettings) => keepKnown(settings, capabilities),
    };
  };
  return {
    /** Address of the server, without user and password. */
    url: withoutUser(address),
    stats: stats as Readonly<SourceStats>,
    /** Queries the server once. @throws Fault `SERVER_TOO_OLD`, `TABLE_UNFIT` (usage) that names the missing columns */
    describe(signal?: AbortSignal) {
      shape ??= describe(signal);
      return shape;
    },
    rows,
    /** Streams the result of a query, encoded by the server, into a file. @throws EngineFault, Fault `DOWNLOAD_BROKEN` */
    async download(sql: string, format: string, path: string, signal?: AbortSignal): Promise<void> {
      begin(sql, signal);
      const stream = await engine.stream(sql, format, { signal });
      const file = createWriteStream(path);
      try {
        await pipeline(stream, file, { signal });
        stats.bytes += file.bytesWritten;
      } catch (cause) {
        assertNotAborted(signal);
        if (isFault(cause)) throw cause;
        throw new Fault('DOWNLOAD_BROKEN', `the transfer of the rows of ${source.table} to ${path} broke off`, {
          cause,
          hint: 'Check the network, the server, and the space on this disk. Run again: nothing was published.',
        });
      }
    },
    /** Measured when the table was described. */
    serverNow: serverClock.now,
    tellsTime: serverClock.isTold,
    /** Requests to the user's own server are not paced. */
    intervalMs: () => 0,
    close: () => engine.close(),
  };
}

/** The table's name, quoted part by part. */
export function quoteTable(table: string): string {
  return table.split('.').map(quoteIdentifier).join('.');
}

function assertModern(version: string): void {
  if (!isTooOld(version)) return;
  throw new Fault(
    'SERVER_TOO_OLD',
    `the ClickHouse server has version ${version}; allowed is ${OLDEST_VERSION} or newer`,
    {
      kind: 'usage',
      hint: 'Set FLOWDROP_CLICKHOUSE_URL to a newer server.',
    },
  );
}

function assertColumns(source: ServerSource, types: ReadonlyMap<string, string>): void {
  const missing = source.columns.map(({ name }) => name).filter((name) => !types.has(name));
  if (missing.length === 0) return;
  throw new Fault(
    'TABLE_UNFIT',
    `${source.table} has no column ${missing.join(', ')}; its columns are ${[...types.keys()].join(', ')}`,
    { kind: 'usage', hint: 'Name the columns of this table in the job: `source.columns`, and `source.types`.' },
  );
}

function withoutUser(address: string): string {
  if (!URL.canParse(address)) return '';
  const { origin, pathname } = new URL(address);
  return origin + pathname;
}
