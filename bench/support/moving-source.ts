/**
 * A source whose rows move: two services, one with the rows as they were and one with the rows as they are, and a front on
 * loopback that asks the first until the given moment and the second from then on. So every answer is the real service's
 * own, and is what it held at one moment.
 */
import { once } from 'node:events';
import { type IncomingMessage, request as startRequest } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { readSql } from '../../test/support/fault-plan.ts';
import type { TestService } from '../../test/support/flowdrop.ts';
import { serveHttp } from '../../test/support/http-server.ts';

export interface Asked {
  readonly sql: string;
  readonly kind: 'page' | 'count' | 'other';
}

export interface MovingSource {
  /** Base address of both historical entry points. */
  readonly url: string;
  /** What was asked, in order. */
  readonly asked: readonly Asked[];
  /** Requests that were asked when the rows moved; `undefined` while they have not. */
  readonly movedAt: number | undefined;
  close(): Promise<void>;
}

/** Says, before a request is passed on, whether the rows move now. @param asked this request is the last of them */
export type IsMoment = (asked: readonly Asked[]) => boolean;

export async function startMovingSource(
  before: TestService,
  after: TestService,
  isMoment: IsMoment,
): Promise<MovingSource> {
  const asked: Asked[] = [];
  let movedAt: number | undefined;
  const { url, close } = await serveHttp(async (request, response) => {
    const body = await buffer(request);
    const sql = readSql(body.toString('utf8'));
    asked.push({ sql, kind: kindOf(sql) });
    if (movedAt === undefined && isMoment(asked)) movedAt = asked.length;
    const service = movedAt === undefined ? before : after;
    const target = request.url === PORTAL_PATH ? service.portalUrl : service.url;
    const { host: _, ...headers } = request.headers;
    const outgoing = startRequest(new URL(request.url ?? '/', target), { agent: false, method: 'POST', headers });
    outgoing.end(body);
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    response.writeHead(answer.statusCode ?? 0, answer.headers);
    await pipeline(answer, response);
  });
  return {
    ...{ url, close, asked },
    get movedAt() {
      return movedAt;
    },
  };
}

/**
 * A page has columns as they are. Every count says which dates it found; that of a single symbol is no count of the date,
 * but looks for what differs in it.
 */
function kindOf(sql: string): Asked['kind'] {
  if (sql.includes(' AS dates')) return sql.includes("symbol = '") ? 'other' : 'count';
  return sql.includes('option_symbol') && !sql.includes(' AS ') ? 'page' : 'other';
}
