/**
 * An HTTP source whose rows are bytes that a test writes, whatever they are: both entry points over a table of an
 * embedded engine. Its counts are real SQL over that table; of a page it asks the table which rows are in it, and sends
 * their bytes. So it counts an odd row as a real server would that has it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteIdentifier } from '../../src/engine/literal.ts';
import { insertRows } from './engine-source.ts';
import { readSql } from './fault-plan.ts';
import { workerEnvironment } from './flowdrop.ts';
import { serveHttp } from './http-server.ts';
import type { TradeRow } from './trades.ts';

export interface RawRow {
  /** What the table has of it. */
  readonly row: TradeRow;
  /** What a page has of it. */
  readonly bytes: Buffer;
}

export interface RawSource {
  readonly url: string;
  /** Environment for a worker. */
  readonly env: Readonly<Record<string, string>>;
  /** SQL of every query so far. */
  readonly asked: string[];
  /** Called with the number of pages sent so far, before the next one is read. */
  onPage: (pages: number) => Promise<void> | void;
  close(): Promise<void>;
}

export interface RawSourceOptions {
  readonly rowLimit: number;
  /** The clock that its answers tell, ISO 8601. */
  readonly now: string;
}

/** A row with one value as other bytes. @param token JSON, or what stands where JSON should be */
export function writeRow(row: TradeRow, odd: Readonly<Record<string, string | Buffer>> = {}): Buffer {
  const members = Object.entries({ ...row, ...odd }).map(([name]) => {
    const token = odd[name];
    return Buffer.concat([
      Buffer.from(`${JSON.stringify(name)}:`),
      token === undefined ? Buffer.from(JSON.stringify(row[name])) : Buffer.from(token),
    ]);
  });
  return joinBytes('{', members, '}');
}

function joinBytes(before: string, all: readonly Buffer[], after: string): Buffer {
  const parts = all.flatMap((bytes, at) => (at === 0 ? [bytes] : [Buffer.from(','), bytes]));
  return Buffer.concat([Buffer.from(before), ...parts, Buffer.from(after)]);
}

/** A row that is sent as it is held. */
export function toRaw(row: TradeRow): RawRow {
  return { row, bytes: writeRow(row) };
}

/** @param engine holds the table of one source at a time */
export async function startRawSource(
  engine: Engine,
  rows: readonly RawRow[],
  options: RawSourceOptions,
): Promise<RawSource> {
  const type = { string: 'String', integer: 'Int64', float: 'Float64' } as const;
  const columns = TRADE_COLUMNS.map(({ name, wire }) => `${quoteIdentifier(name)} Nullable(${type[wire]})`);
  await engine.command(
    `CREATE OR REPLACE TABLE RawOptionTrades (${columns.join(', ')}, place UInt32) ENGINE = MergeTree ORDER BY tuple()`,
  );
  await insertRows(
    engine,
    'RawOptionTrades',
    rows.map(({ row }, place) => ({ ...row, place })),
  );
  const asked: string[] = [];
  let pages = 0;
  const answer = async (sql: string): Promise<{ data: Buffer; truncated: boolean }> => {
    asked.push(sql);
    // Its pages have other bytes than its table has values, so hashes of the table would be of something else.
    if (sql.includes('cityHash64')) throw new RangeError('Unknown function cityHash64');
    if (!sql.startsWith('SELECT id, symbol')) {
      return { data: Buffer.from(JSON.stringify(await engine.rows(sql))), truncated: false };
    }
    const where = sql.slice(sql.indexOf(' FROM '));
    await source.onPage(pages);
    const found = await engine.rows<{ place: number }>(`SELECT place${where} ORDER BY place`);
    const sent = found.slice(0, options.rowLimit).map(({ place }) => rows[place]?.bytes ?? Buffer.from(''));
    pages += 1;
    return { data: joinBytes('[', sent, ']'), truncated: found.length > sent.length };
  };
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { data, truncated } = await answer(readSql((await buffer(incoming)).toString('utf8')));
    const meta = `,"meta":${JSON.stringify({
      ...{ entitlement: 'active', row_limit: options.rowLimit, capped: false, truncated },
      ...{ lookback_days: 15, minimum_data_delay_minutes: 15 },
    })}`;
    outgoing.writeHead(200, { 'content-type': 'application/json', date: new Date(options.now).toUTCString() });
    outgoing.end(joinBytes('{"status":"SUCCESS","data":', [data], incoming.url === PORTAL_PATH ? '}' : `${meta}}`));
  };
  const { url, close } = await serveHttp((incoming, outgoing) =>
    serve(incoming, outgoing).catch((error: unknown) => {
      outgoing.writeHead(422, { 'content-type': 'application/json', date: new Date(options.now).toUTCString() });
      outgoing.end(JSON.stringify({ status: 'ERROR', errorCode: 'INVALID_QUERY', errorMsg: String(error) }));
    }),
  );
  const source: RawSource = {
    url: url + HISTORICAL_PATH,
    env: workerEnvironment(url, url),
    asked,
    onPage: () => undefined,
    close,
  };
  return source;
}
