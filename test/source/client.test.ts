/**
 * The historical client against a local HTTP server that fails in every way a server can. What each answer means is tested
 * in `answers.test.ts`, the pace in `pacer.test.ts`.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createLog } from '../../src/core/log.ts';
import { createHistoricalSource } from '../../src/source/historical.ts';
import type { Pacer } from '../../src/source/pacer.ts';
import type { Source } from '../../src/source/source.ts';
import { createFakeClock, FAKE_START } from '../support/fake-clock.ts';
import { createPacer } from '../support/pacer.ts';

const KEY = 'apikey_0123456789abcdef';
const NOW = FAKE_START;

describe('the client', () => {
  type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;
  const META = {
    entitlement: 'active',
    row_limit: 10,
    capped: false,
    truncated: false,
    lookback_days: 15,
    minimum_data_delay_minutes: 15,
  };
  const PAGE = JSON.stringify({ status: 'SUCCESS', data: [{ a: 1 }], meta: META });
  const ok: Handler = (_request, response) => void response.end(PAGE);
  const answer =
    (status: number, body = '', headers: Record<string, string> = {}): Handler =>
    (_request, response) => {
      response.writeHead(status, headers).end(body);
    };

  let server: Server;
  let queue: Handler[];
  let bodies: string[];
  let clock: ReturnType<typeof createFakeClock>;
  let source: Source;
  let lines: string[];

  beforeEach(async () => {
    queue = [];
    bodies = [];
    lines = [];
    server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += String(chunk);
      });
      request.on('end', () => {
        bodies.push(body);
        (queue.shift() ?? ok)(request, response, body);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    clock = createFakeClock();
    source = open(true);
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect(lines.join('')).not.toContain(KEY);
  });

  function open(expectsMeta: boolean, pacer: Pacer = createPacer(clock, { requestsPerSecond: 1 })): Source {
    const log = createLog({ level: 'debug', pretty: false, secrets: [KEY], write: (line) => lines.push(line) });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sql`;
    return createHistoricalSource({ url, apiKey: KEY, expectsMeta, clockOffsetMs: 0 }, { clock, pacer, log });
  }

  const failing = async (handlers: readonly Handler[]) => {
    queue.push(...handlers);
    return await source.ask('SELECT 1').then(
      () => {
        throw new Error('the answer was accepted');
      },
      (error: unknown) => error as Error & { code: string; action: string; hint?: string },
    );
  };
  const repeat = (handler: Handler) => Array.from({ length: 10 }, () => handler);

  test('does not send a query again that was refused as too broad, but one that ran out of time', async () => {
    const refusal = answer(
      422,
      JSON.stringify({ status: 'ERROR', errorCode: 'QUERY_TOO_BROAD', errorMsg: 'too broad' }),
    );
    queue = [refusal];
    await expect(source.ask('SELECT 1')).rejects.toMatchObject({ code: 'QUERY_TOO_BROAD' });
    await expect(source.ask('SELECT 1')).rejects.toMatchObject({ code: 'QUERY_TOO_BROAD', action: 'split' });
    expect(bodies).toHaveLength(1);
    expect((await source.ask('SELECT 2')).rows).toBe(1);
    queue = [answer(504), answer(504)];
    await expect(source.ask('SELECT 3')).rejects.toMatchObject({ action: 'split' });
    expect((await source.ask('SELECT 3')).rows).toBe(1);
    expect(bodies).toHaveLength(5);
  });

  test('brings a page home and sends the key in the body only', async () => {
    const page = await source.ask('SELECT 1', { testMode: true });
    expect(page).toMatchObject({ rows: 1, firstRow: { a: 1 }, meta: META });
    expect(JSON.parse(bodies[0] ?? '')).toEqual({ api_key: KEY, sql: 'SELECT 1', test_mode: true });
    expect(source.stats).toMatchObject({ requests: 1, retries: 0, bytes: PAGE.length });
  });

  const passing: readonly (readonly [string, Handler])[] = [
    [
      'a body cut short in the middle of a chunked answer',
      (_q, r) => {
        r.write(PAGE.slice(0, 40));
        setImmediate(() => r.destroy());
      },
    ],
    [
      'fewer bytes than Content-Length says',
      (_q, r) => {
        r.writeHead(200, { 'content-length': String(PAGE.length + 10) });
        r.write(PAGE);
        setImmediate(() => r.destroy());
      },
    ],
    ['a whole answer that ends too early', answer(200, PAGE.slice(0, -1))],
    ['a reset connection', (q) => void q.socket.resetAndDestroy()],
    ['a closed connection', (q) => void q.socket.destroy()],
    ['a 500', answer(500, '{"status":"ERROR","errorCode":"INTERNAL_ERROR"}')],
    ['a 502 of a gateway', answer(502, '<html>')],
    ['a 503', answer(503)],
    ['a 504', answer(504)],
    ['a 429', answer(429)],
    ['a 200 of a login page', answer(200, '<html>')],
    ['a 200 with an error inside', answer(200, '{"status":"ERROR","data":[]}')],
    ['a 200 without meta', answer(200, '{"status":"SUCCESS","data":[]}')],
    ['a 204', answer(204)],
    ['gzip that is none', answer(200, PAGE, { 'content-encoding': 'gzip' })],
  ];

  test.each(passing)('asks again after %s', async (_title, handler) => {
    queue.push(handler);
    expect(await source.ask('SELECT 1')).toMatchObject({ rows: 1 });
    expect(source.stats).toMatchObject({ requests: 2, retries: 1 });
  });

  test('reads a gzipped and a slow answer', async () => {
    queue.push(
      (_q, r) => void r.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(PAGE)),
      (_q, r) => {
        r.write(PAGE.slice(0, 10));
        setImmediate(() => r.write(PAGE.slice(10, 50)));
        setImmediate(() => setImmediate(() => r.end(PAGE.slice(50))));
      },
    );
    expect((await source.ask('SELECT 1')).rows).toBe(1);
    expect((await source.ask('SELECT 1')).rows).toBe(1);
    expect(source.stats.retries).toBe(0);
  });

  test.each([
    ['500', answer(500), 5, 'fail'],
    ['429', answer(429), 5, 'fail'],
    ['garbage', answer(200, 'x'), 5, 'fail'],
    ['504', answer(504), 2, 'split'],
    ['422 too broad', answer(422, '{"status":"ERROR","errorCode":"QUERY_TOO_BROAD"}'), 1, 'split'],
    ['401', answer(401), 1, 'denied'],
    ['403', answer(403), 1, 'denied'],
    ['400', answer(400), 1, 'stop'],
  ] as const)('gives up an endless %s after its number of tries', async (_title, handler, requests, action) => {
    expect((await failing(repeat(handler))).action).toBe(action);
    expect(source.stats.requests).toBe(requests);
  });

  test('backs off longer each time, jittered, and never over its cap', async () => {
    await failing(repeat(answer(500)));
    // After each of the four back-offs the pacer may ask for the rest of its second.
    const longest = Math.max(...clock.slept);
    expect(longest).toBeGreaterThanOrEqual(2000);
    expect(longest).toBeLessThanOrEqual(4000);
    expect(clock.now() - NOW).toBeGreaterThan(250 + 500 + 1000 + 2000);
  });

  test('tells the pacer what is urgent, and when a request that met a 429 started', async () => {
    const pacer = createPacer(clock, { requestsPerSecond: 1 });
    const urgent: unknown[] = [];
    const refused: unknown[] = [];
    const recording: Pacer = {
      ...pacer,
      acquire: async (options) => {
        urgent.push(options?.urgent);
        await pacer.acquire(options);
      },
      slowDown: async (retryAfterMs, startedAtMs) => {
        refused.push(startedAtMs);
        await pacer.slowDown(retryAfterMs, startedAtMs);
      },
    };
    queue.push(answer(429));
    const asked = open(true, recording);
    await asked.ask('SELECT 1', { urgent: true });
    await asked.ask('SELECT 1');
    expect(urgent).toEqual([true, true, undefined]);
    expect(refused).toEqual([NOW]);
  });

  test.each([429, 503])('waits as long as Retry-After of a %i says', async (status) => {
    queue.push(answer(status, '', { 'retry-after': '40' }));
    await source.ask('SELECT 1');
    expect(clock.now() - NOW).toBeGreaterThanOrEqual(40_000);
    expect(clock.now() - NOW).toBeLessThan(42_000);
    expect(source.stats.rateLimited).toBe(status === 429 ? 1 : 0);
    expect(source.intervalMs()).toBeCloseTo(status === 429 ? 1.02 * 1010 : 1010);
  });

  test.each([
    ['an echo in an error', answer(400, `{"status":"ERROR","errorMsg":"bad key ${KEY}"}`)],
    ['an echo in HTML', answer(500, `<html>${KEY}`)],
    ['an echo that the message cuts', answer(200, 'x'.repeat(190) + KEY)],
    ['an echo as the status', answer(200, `{"status":"${KEY}","data":[]}`)],
  ])('shows nothing of the key after %s', async (_title, handler) => {
    const error = await failing(repeat(handler));
    const told = JSON.stringify([
      error.message,
      error.hint,
      error.stack,
      String(error.cause),
      String((error.cause as Error)?.stack),
    ]);
    expect(told).not.toContain('apikey_');
  });

  test('follows no redirect, because the key would go along', async () => {
    const error = await failing([answer(307, '', { location: '/elsewhere' })]);
    expect(error).toMatchObject({ action: 'denied', hint: expect.stringContaining('FLOWDROP_API_URL') });
    expect(bodies).toHaveLength(1);
  });

  test("takes the server's clock from the Date header and runs it on", async () => {
    queue.push((_q, r) => void r.writeHead(200, { date: 'Tue, 17 Nov 2026 20:00:00 GMT' }).end(PAGE));
    await source.ask('SELECT 1');
    expect(new Date(source.serverNow()).toISOString()).toBe('2026-11-17T20:00:00.500Z');
    clock.advance(60_000);
    expect(new Date(source.serverNow()).toISOString()).toBe('2026-11-17T20:01:00.500Z');
  });

  test('takes no clock from an answer that is not a page: a gateway has its own', async () => {
    const offsetMs = source.serverNow() - clock.now();
    const date = 'Tue, 17 Nov 2026 20:00:00 GMT';
    await failing(Array.from({ length: 5 }, () => answer(502, '<html>', { date })));
    expect(source.serverNow() - clock.now()).toBe(offsetMs);
  });

  test.each([
    '{"status":"SUCCESS","data":[]}',
    '{"status":"SUCCESS","data":[],"meta":null}',
    '{"status":"SUCCESS","data":[],"meta":{"page":1}}',
  ])('asks no meta of the portal: %s', async (body) => {
    queue.push(answer(200, body));
    expect(await open(false).ask('SELECT 1')).toMatchObject({ rows: 0, meta: undefined });
  });

  test('is interrupted in the middle of an answer', async () => {
    const stop = new AbortController();
    queue.push(() => stop.abort());
    await expect(source.ask('SELECT 1', { signal: stop.signal })).rejects.toMatchObject({ kind: 'interrupted' });
    await expect(source.ask('SELECT 1', { signal: stop.signal })).rejects.toMatchObject({ kind: 'interrupted' });
    expect(bodies).toHaveLength(1);
  });
});
