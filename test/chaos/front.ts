/**
 * The API of a chaos table: both historical entry points in the contract's shapes, rows and SQL of a real engine. It guards
 * nothing and knows no entitlements; the service does, and other scenarios run against it. Invariant: an answer is what
 * the table held at one moment.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../../src/engine/engine-fault.ts';
import { readSql } from '../support/fault-plan.ts';
import { serveHttp } from '../support/http-server.ts';
import type { ChaosTable } from './table.ts';

export interface Front {
  readonly url: string;
  /** Queries that were answered with rows. */
  readonly answered: readonly { readonly sql: string; readonly rows: number }[];
  close(): Promise<void>;
}

export interface FrontOptions {
  readonly table: Pick<ChaosTable, 'query' | 'rows'>;
  readonly rowLimit: number;
  /** Most rows that a query may read. */
  readonly scanLimit?: number | undefined;
  readonly isPage: (sql: string) => boolean;
  /** What its `Date` header shows, milliseconds since the epoch. Default: the time of this process. */
  readonly now?: (() => number) | undefined;
}

const LINE_END = 0x0a;

export async function startFront(options: FrontOptions): Promise<Front> {
  const answered: { sql: string; rows: number }[] = [];
  const server = await serveHttp((request, response) => {
    if (options.now) response.setHeader('date', new Date(options.now()).toUTCString());
    return serve(options, answered, request, response);
  });
  return { ...server, answered };
}

async function serve(
  { table, rowLimit, scanLimit, isPage }: FrontOptions,
  answered: { sql: string; rows: number }[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const sql = readSql((await buffer(request)).toString('utf8'));
  const isPortal = request.url === PORTAL_PATH;
  if (!isPortal && request.url !== HISTORICAL_PATH) return send(request, response, 404, Buffer.from('{}'));
  const settings = [
    `limit = ${rowLimit + 1}`,
    'output_format_json_quote_64bit_integers = 0',
    "session_timezone = 'UTC'",
    ...(scanLimit === undefined ? [] : [`max_rows_to_read = ${scanLimit}`]),
  ];
  let lines: Buffer;
  try {
    lines = await table.query(`${sql} SETTINGS ${settings.join(', ')}`, isPage(sql));
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error;
    return send(request, response, 422, Buffer.from(JSON.stringify(describeFault(error))));
  }
  const { body, rows, truncated } = cutLines(isPage(sql) ? answerOddly(lines, table) : lines, rowLimit);
  answered.push({ sql, rows });
  const meta = {
    ...{ entitlement: 'active', row_limit: rowLimit, capped: false, truncated },
    ...{ lookback_days: 15, minimum_data_delay_minutes: 15 },
  };
  const end = isPortal ? ']}' : `],"meta":${JSON.stringify(meta)}}`;
  const answer = Buffer.concat([Buffer.from('{"status":"SUCCESS","data":['), body, Buffer.from(end)]);
  send(request, response, 200, answer);
}

function describeFault(error: EngineFault) {
  const isTooBroad = error.clickhouseCode === CLICKHOUSE_CODES.TOO_MANY_ROWS;
  return {
    status: 'ERROR',
    errorCode: isTooBroad ? 'QUERY_TOO_BROAD' : 'INVALID_QUERY',
    reason: isTooBroad ? 'SCAN_LIMIT_EXCEEDED' : 'INVALID_EXPRESSION',
    errorMsg: error.message,
  };
}

/** The first lines, as members of an array. */
function cutLines(
  lines: Buffer,
  most: number,
): { readonly body: Buffer; readonly rows: number; readonly truncated: boolean } {
  const ends: number[] = [];
  for (let at = lines.indexOf(LINE_END); at >= 0; at = lines.indexOf(LINE_END, at + 1)) ends.push(at);
  const rows = Math.min(ends.length, most);
  const body = Buffer.from(lines.subarray(0, ends[rows - 1] ?? 0));
  for (const end of ends.slice(0, Math.max(0, rows - 1))) body[end] = ','.charCodeAt(0);
  return { body, rows, truncated: ends.length > most };
}

/** Cells that are answered otherwise than they are held, in every answer that has them. */
function answerOddly(lines: Buffer, table: FrontOptions['table']): Buffer {
  const odd = table.rows.filter(({ answered }) => answered !== undefined);
  if (odd.length === 0) return lines;
  // Bytes that are no UTF-8 must come through as they are.
  const text = lines.toString('latin1').split('\n');
  for (const { id, answered = {} } of odd) {
    const at = text.findIndex((line) => line.includes(`"id":"${id}"`));
    for (const [column, value] of Object.entries(answered)) {
      const cell = new RegExp(`"${column}":(?:"[^"]*"|[^,}]*)`);
      if (at >= 0) text[at] = (text[at] ?? '').replace(cell, () => `"${column}":${value}`);
    }
  }
  return Buffer.from(text.join('\n'), 'latin1');
}

function send(request: IncomingMessage, response: ServerResponse, status: number, body: Buffer): void {
  const isZipped = String(request.headers['accept-encoding'] ?? '').includes('gzip');
  const bytes = isZipped ? gzipSync(body, { level: 1 }) : body;
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    ...(isZipped ? { 'content-encoding': 'gzip' } : {}),
    'content-length': String(bytes.length),
  });
  response.end(bytes);
}
