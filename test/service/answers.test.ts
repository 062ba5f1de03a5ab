/**
 * Answers on their way: compression, long ones and slow readers, memory, request ids, and what callers get when too many
 * ask at once. Shapes and statuses of single requests are in `contract.test.ts`; turns in `test/engine/turns.test.ts`.
 */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import * as zlib from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { measureHeld } from '../support/memory.ts';
import { KEY, postJson, type Reply, startTestService, type TestService } from './running-service.ts';

/** Rows of the long answer: about 70 MB. */
const LONG_ROWS = 100_000;
const LONG = 'SELECT * FROM RawOptionTradesMaxDateOnlyMV';
/** Above the size from which answers are compressed, and little enough to compare as text. */
const PAGE = 'SELECT * FROM RawOptionTradesMaxDateOnlyMV ORDER BY id LIMIT 50';
/** Runs until it is stopped, as far as a test is concerned. */
const ENDLESS = `SELECT count() FROM RawOptionTradesMaxDateOnlyMV AS a CROSS JOIN RawOptionTradesMaxDateOnlyMV AS b
  CROSS JOIN RawOptionTradesMaxDateOnlyMV AS c WHERE a.size + b.size + c.size > 0`;
/** Memory that an answer may take, as a multiple of its size: the queue, what is on its way, and garbage of either. */
const MAX_MEMORY_RATIO = 10;
/** Values of a list that costs the parser some milliseconds. */
const LIST_LENGTH = 3_000;
/** The waiting places before an engine, and before the parser. */
const WAITING_PLACES = 64;
const WAIT = { timeout: 20_000, interval: 20 };

interface Answered {
  readonly status: number;
  readonly encoding: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly bytes: Buffer;
}

/** What Node's zlib unpacks, by the name of the encoding. */
const UNPACK: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  br: zlib.brotliDecompressSync,
  gzip: zlib.gunzipSync,
  deflate: zlib.inflateSync,
  identity: (bytes) => bytes,
};
const zstdDecompress = (zlib as { readonly zstdDecompressSync?: (bytes: Buffer) => Buffer }).zstdDecompressSync;
if (!zstdDecompress)
  console.warn(`SKIPPED: the zlib of Node ${process.version} has no zstd, so answers cannot have it`);

/** One engine: whoever kept it would keep it from all others. */
let service: TestService;

beforeAll(async () => {
  service = await startTestService({
    generateSessions: 1,
    generateRows: LONG_ROWS,
    rowLimit: LONG_ROWS,
    concurrency: 1,
    scanLimit: 1_000_000_000,
  });
});
afterAll(() => service.stop());

/** Sends a query without any default header, and gives the answer as soon as it has begun. */
async function begin(sql: string, headers: Readonly<Record<string, string>> = {}): Promise<IncomingMessage> {
  const asking = request(`${service.url}${HISTORICAL_PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    agent: false,
  });
  asking.end(JSON.stringify({ api_key: KEY, sql }));
  const [answer] = (await once(asking, 'response')) as [IncomingMessage];
  return answer;
}

async function ask(sql: string, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
  const answer = await begin(sql, headers);
  const bytes = await buffer(answer);
  const { statusCode: status = 0, headers: received } = answer;
  return { status, encoding: received['content-encoding'], headers: received, bytes };
}

/** The value of one of the service's metrics. */
async function readMetric(name: string): Promise<number> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return Number(new RegExp(`^flowdrop_service_${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

/** Sends a query that its caller can give up. */
function startQuery(sql: string) {
  const control = new AbortController();
  const init = { ...postJson({ api_key: KEY, sql }), signal: control.signal };
  const reply: Promise<Reply | undefined> = service.send(HISTORICAL_PATH, init).catch(() => undefined);
  return { reply, abort: () => control.abort() };
}

describe('compression', () => {
  let plain: Answered;
  beforeAll(async () => {
    plain = await ask(PAGE);
  });

  test('is not for those who do not ask for it', () => {
    expect([plain.status, plain.encoding]).toEqual([200, undefined]);
    expect(JSON.parse(plain.bytes.toString('utf8')).data).toHaveLength(50);
  });

  test.each([
    ['br', ['br']],
    ['gzip', ['gzip']],
    ['deflate', ['deflate']],
    ['gzip, deflate, br', ['gzip', 'deflate', 'br']],
    ['br;q=1.0, gzip;q=0', ['br']],
    ['gzip;q=0, deflate', ['deflate']],
    ['gzip, identity;q=0', ['gzip']],
    ['identity;q=0, *', ['br', 'gzip', 'deflate']],
    ['*', ['br', 'gzip', 'deflate', undefined]],
    ['gzip;q=0', [undefined]],
    ['gzip;q=0, br;q=0, deflate;q=0, zstd;q=0', [undefined]],
    ['identity', [undefined]],
    ['unheard-of', [undefined]],
    ['unheard-of, gzip', ['gzip']],
    ['', [undefined]],
  ])('asked for as %j gives the same JSON', async (accepted, allowed) => {
    const answer = await ask(PAGE, { 'accept-encoding': accepted });
    const encodings = zstdDecompress && accepted.includes('*') ? [...allowed, 'zstd'] : allowed;
    expect(answer.status).toBe(200);
    expect(encodings).toContain(answer.encoding);
    const unpack = answer.encoding === 'zstd' ? zstdDecompress : UNPACK[answer.encoding ?? 'identity'];
    expect(unpack?.(answer.bytes).toString('utf8')).toBe(plain.bytes.toString('utf8'));
    if (answer.encoding !== undefined) {
      expect(answer.bytes.length).toBeLessThan(plain.bytes.length / 2);
      expect(answer.headers['vary']).toMatch(/accept-encoding/i);
    }
  });

  test('asked for as zstd, or something older, is what this Node has of them', async () => {
    const answer = await ask(PAGE, { 'accept-encoding': 'zstd, gzip;q=0.5' });
    expect(answer.encoding).toBe(zstdDecompress ? 'zstd' : 'gzip');
    expect((zstdDecompress ?? zlib.gunzipSync)(answer.bytes).toString('utf8')).toBe(plain.bytes.toString('utf8'));
  });

  test.skipIf(!zstdDecompress)('as zstd alone gives the same JSON', async () => {
    const answer = await ask(PAGE, { 'accept-encoding': 'zstd' });
    expect(answer.encoding).toBe('zstd');
    expect(zstdDecompress?.(answer.bytes).toString('utf8')).toBe(plain.bytes.toString('utf8'));
  });

  test('is left out of failures, which are short', async () => {
    for (const sql of ['SELECT nosuch', 'DROP TABLE x']) {
      const answer = await ask(sql, { 'accept-encoding': 'gzip' });
      expect(answer.encoding, sql).toBeUndefined();
      expect(JSON.parse(answer.bytes.toString('utf8'))).toMatchObject({ status: 'ERROR' });
    }
  });
});

describe('a long answer', () => {
  test('to a slow reader keeps no engine from others, and takes memory like its own size', async () => {
    const before = await measureHeld();
    let peak = 0;
    const measure = () => {
      const { rss, arrayBuffers } = process.memoryUsage();
      peak = Math.max(peak, rss - before.rss, arrayBuffers - before.arrayBuffers);
    };
    const answer = await begin(LONG);
    // Nobody reads it, and the one engine answers the others.
    for (let round = 0; round < 20; round += 1) {
      expect((await service.ask(`SELECT ${round} AS round`)).body.data).toEqual([{ round }]);
      measure();
    }
    await vi.waitFor(async () => expect(await readMetric('engine_pool_running')).toBe(0), WAIT);
    expect(answer.complete).toBe(false);
    const size = await countSlowly(answer, measure);
    process.stdout.write(
      `an answer of ${LONG_ROWS} rows, ${megabytes(size.bytes)} MB, raised memory by at most ${megabytes(peak)} MB: ${(peak / size.bytes).toFixed(1)} times its size\n`,
    );
    expect(size.rows).toBe(LONG_ROWS);
    expect(size.bytes).toBeGreaterThan(30_000_000);
    expect(peak).toBeLessThan(MAX_MEMORY_RATIO * size.bytes);
  });

  test('whose caller leaves in the middle leaves the engine to the next', async () => {
    for (let round = 0; round < 3; round += 1) {
      const answer = await begin(LONG);
      await once(answer, 'readable');
      answer.destroy();
      expect((await service.ask('SELECT 1 AS one')).body.data).toEqual([{ one: 1 }]);
    }
  });
});

describe('a request', () => {
  test('has an id of its own, which its line in the log has as well, failures included', async () => {
    const replies = await Promise.all(
      ['SELECT 1', 'SELECT 1', 'SELECT nosuch', 'DROP TABLE x'].map((sql) => service.ask(sql)),
    );
    const other = [
      await service.send('/nowhere', { method: 'GET' }),
      await service.send('/healthz', { method: 'GET' }),
      await service.sendPortal('/nowhere', { method: 'GET' }),
    ];
    const ids = [...replies, ...other].map(({ headers }) => headers.get('x-request-id'));
    expect(new Set(ids).size).toBe(7);
    for (const [at, { status }] of [...replies, ...other].entries()) {
      // The line is written when the answer has been sent, a moment after it has arrived.
      await vi.waitFor(() => {
        const lines = service.lines.filter((line) => line['event'] === 'request' && line['requestId'] === ids[at]);
        expect(lines.map((line) => line['status'])).toEqual([status]);
      }, WAIT);
    }
  });

  test('cannot choose its id', async () => {
    const { headers } = await ask('SELECT 1', { 'x-request-id': 'mine', 'request-id': 'mine' });
    expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });

  test('with headers of more than 16 kB is 431, and with a little less is answered', async () => {
    const refused = await fetch(`${service.url}/healthz`, { headers: { 'x-long': 'x'.repeat(17 * 1024) } });
    expect(refused.status).toBe(431);
    await refused.arrayBuffer();
    const accepted = await fetch(`${service.url}/healthz`, { headers: { 'x-long': 'x'.repeat(15 * 1024) } });
    expect(accepted.status).toBe(200);
    await accepted.arrayBuffer();
  });
});

describe('too many requests at once', () => {
  test('for the engine are 429 with Retry-After, and those who wait are served', async () => {
    const running = startQuery(ENDLESS);
    await vi.waitFor(async () => expect(await readMetric('engine_pool_running')).toBe(1), WAIT);
    // Known to the guard, so that only the engine is waited for.
    const waiting = Array.from({ length: WAITING_PLACES }, () => startQuery('SELECT 1'));
    await vi.waitFor(async () => expect(await readMetric('engine_pool_waiting')).toBe(WAITING_PLACES), WAIT);
    const refused = await service.ask('SELECT 1');
    expect([refused.status, refused.body.errorCode]).toEqual([429, 'RATE_LIMITED']);
    expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    const portal = await service.askPortal('SELECT 1');
    expect([portal.status, portal.body.errorCode]).toEqual([429, 'RATE_LIMITED']);
    expect(portal.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);

    for (const { abort } of waiting.slice(10)) abort();
    await vi.waitFor(async () => expect(await readMetric('engine_pool_waiting')).toBe(10), WAIT);
    running.abort();
    const served = await Promise.all(waiting.slice(0, 10).map(({ reply }) => reply));
    expect(served.map((reply) => reply?.status)).toEqual(Array.from({ length: 10 }, () => 200));
    await running.reply;
  });

  test('for the parser are 429 with Retry-After, never a fault of the service', async () => {
    // Each text is new and long, so that each costs the parser some time.
    const list = Array.from({ length: LIST_LENGTH }, (_, at) => at).join(', ');
    const queries = Array.from({ length: 4 * WAITING_PLACES }, (_, n) =>
      startQuery(`SELECT length([${list}]) + ${n} AS total`),
    );
    const replies = await Promise.all(queries.map(({ reply }) => reply));
    const statuses = replies.map((reply) => reply?.status);
    const refused = replies.filter((reply) => reply?.status === 429);
    expect([...new Set(statuses)].sort()).toEqual([200, 429]);
    for (const reply of refused) {
      expect(reply?.body.errorCode).toBe('RATE_LIMITED');
      expect(reply?.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    }
    for (const [n, reply] of replies.entries()) {
      if (reply?.status === 200) expect(reply.body.data).toEqual([{ total: LIST_LENGTH + n }]);
    }
    expect((await service.ask('SELECT 1 AS one')).body.data).toEqual([{ one: 1 }]);
  });
});

/** Reads an answer piece by piece, keeping none. */
async function countSlowly(answer: IncomingMessage, measure: () => void): Promise<{ bytes: number; rows: number }> {
  let [bytes, rows] = [0, 0];
  for await (const piece of answer as AsyncIterable<Buffer>) {
    bytes += piece.length;
    // No value of a row holds a brace.
    for (let at = piece.indexOf('{'); at >= 0; at = piece.indexOf('{', at + 1)) rows += 1;
    await new Promise(setImmediate);
    measure();
  }
  // The braces of the body itself, and of its meta.
  return { bytes, rows: rows - 2 };
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1e6);
}
