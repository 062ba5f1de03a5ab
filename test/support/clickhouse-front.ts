/**
 * A ClickHouse server of today for the tests: the HTTP interface, as far as @clickhouse/client speaks it, over an embedded
 * engine. The engine, its SQL, its formats and the wire are real; users and sessions are not there. Old servers are tested
 * with Debian's (`clickhouse-server.ts`).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { serveHttp } from './http-server.ts';
import { createTurns } from './turns.ts';

/** Where the engine makes tables, which a job must name. */
export const FRONT_DATABASE = 'flowdrop_tables';

export interface ClickHouseFront {
  /** `http://user:password@127.0.0.1:port/default`. */
  readonly url: string;
  /** The same for tests that put a proxy in between: without user and database. */
  readonly origin: string;
  /** To put rows into it; statements of both take turns. */
  readonly engine: Engine;
  /** Statements that came over the wire. */
  readonly statements: readonly string[];
  /** Called before a statement runs; a number is the error that it ends with instead, a text the statement that runs. */
  onStatement: ((sql: string) => Promise<number | undefined> | number | string | undefined) | undefined;
  close(): Promise<void>;
}

export const FRONT_USER = 'reader';
export const FRONT_PASSWORD = 'pass-4711';

/** Members of the query string that are no settings of a statement; the engine has finished before the answer begins. */
const NO_SETTINGS: ReadonlySet<string> = new Set(['query', 'query_id', 'database', 'session_id', 'wait_end_of_query']);
const CHUNK_BYTES = 16_384;

export async function startClickHouseFront(): Promise<ClickHouseFront> {
  const engine = await openEmbeddedEngine();
  const statements: string[] = [];
  const hooks: Pick<ClickHouseFront, 'onStatement'> = { onStatement: undefined };
  const takeTurn = createTurns();
  const server = await serveHttp((request, response) =>
    answer(engine, { statements, hooks, takeTurn }, request, response),
  );
  return {
    url: `${server.url.replace('//', `//${FRONT_USER}:${FRONT_PASSWORD}@`)}/default`,
    origin: server.url,
    engine,
    statements,
    get onStatement() {
      return hooks.onStatement;
    },
    set onStatement(hook) {
      hooks.onStatement = hook;
    },
    async close() {
      await server.close();
      await engine.close();
    },
  };
}

interface FrontState {
  readonly statements: string[];
  readonly hooks: Pick<ClickHouseFront, 'onStatement'>;
  /** Settings hold for the whole engine, so statements of several requests take turns. */
  readonly takeTurn: ReturnType<typeof createTurns>;
}

async function answer(
  engine: Engine,
  { statements, hooks, takeTurn }: FrontState,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { searchParams } = new URL(request.url ?? '/', 'http://front');
  const query = searchParams.get('query') ?? '';
  const body = await buffer(request);
  const isInsert = /^INSERT INTO \S+ FORMAT (JSONEachRow|CSVWithNames)$/.test(query);
  const text = isInsert ? query : query + body.toString('utf8');
  statements.push(text);
  if (!isAllowed(request)) return fail(response, 516, 'Code: 516. DB::Exception: reader: Authentication failed');
  const told = (await hooks.onStatement?.(text)) ?? text;
  if (typeof told === 'number') return fail(response, told, `Code: ${told}. DB::Exception: as the test wants it`);
  const [, sql = told, format = 'TabSeparated'] = /^([\s\S]*?)\s+FORMAT\s+(\w+)\s*$/i.exec(told) ?? [];
  const settings = [...searchParams].filter(([name]) => !NO_SETTINGS.has(name));
  try {
    const bytes = await takeTurn(async () => {
      try {
        for (const [name, value] of settings) await engine.command(`SET ${name} = ${quoteValue(value)}`);
        if (!isInsert) return await run(engine, sql, format);
        await engine.command(`${query}\n${body.toString('utf8')}`);
        return new Uint8Array();
      } finally {
        // A server keeps them for one statement only.
        for (const [name] of settings) await engine.command(`SET ${name} = DEFAULT`);
      }
    });
    response.writeHead(200, {
      'x-clickhouse-format': format,
      'transfer-encoding': 'chunked',
    });
    await pipeline(Readable.from(pieces(bytes)), response);
  } catch (error) {
    if (!(error instanceof EngineFault) || response.headersSent) throw error;
    fail(response, error.clickhouseCode, error.message);
  }
}

/** Numbers as such: the engine takes no other text for them. */
function quoteValue(value: string): string {
  return /^-?\d+(\.\d+)?$/.test(value) ? value : quoteString(value);
}

async function run(engine: Engine, sql: string, format: string): Promise<Uint8Array> {
  if (/^\s*(SELECT|WITH|DESCRIBE|SHOW|EXPLAIN)\b/i.test(sql)) return await engine.format(sql, format);
  await engine.command(sql);
  return new Uint8Array();
}

function isAllowed({ headers }: IncomingMessage): boolean {
  const basic = Buffer.from(`${FRONT_USER}:${FRONT_PASSWORD}`).toString('base64');
  return headers.authorization === `Basic ${basic}` || headers['x-clickhouse-key'] === FRONT_PASSWORD;
}

function fail(response: ServerResponse, code: number, message: string): void {
  const text = message.startsWith('Code:') ? message : `Code: ${code}. DB::Exception: ${message}`;
  response.writeHead(code === 516 ? 403 : 500, { 'x-clickhouse-exception-code': String(code) }).end(text);
}

function* pieces(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES);
}
