/**
 * The historical client against a local HTTP server: what it sends, how it waits, what it takes the clock from, and that it
 * shows no key. Faults on the way are in `faults.test.ts`, what each answer means in `answers.test.ts`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createLog } from '../../src/core/log.ts';
import { createHistoricalSource } from '../../src/source/historical.ts';
import type { Pacer } from '../../src/source/pacer.ts';
import type { Source } from '../../src/source/source.ts';
import { createFakeClock, FAKE_START, type FakeClock } from '../support/fake-clock.ts';
import { serveHttp } from '../support/http-server.ts';
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

  let server: Awaited<ReturnType<typeof serveHttp>>;
  let queue: Handler[];
  let bodies: string[];
  let clock: FakeClock;
  let source: Source;
  let lines: string[];

  beforeEach(async () => {
    queue = [];
    bodies = [];
    lines = [];
    server = await serveHttp(async (request, response) => {
      const body = await text(request);
      bodies.push(body);
      (queue.shift() ?? ok)(request, response, body);
    });
    clock = createFakeClock();
    source = open(true);
  });
  afterEach(async () => {
    await server.close();
    expect(lines.join('')).not.toContain(KEY);
  });

  function open(expectsMeta: boolean, pacer: Pacer = createPacer(clock, { requestsPerSecond: 1 })): Source {
    const log = createLog({ level: 'debug', pretty: false, secrets: [KEY], write: (line) => lines.push(line) });
    const url = `${server.url}/sql`;
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

  test('brings a page home and sends the key in the body only', async () => {
    const page = await source.ask('SELECT 1', { testMode: true });
    expect(page).toMatchObject({ rows: 1, firstRow: { a: 1 }, meta: META });
    expect(JSON.parse(bodies[0] ?? '')).toEqual({ api_key: KEY, sql: 'SELECT 1', test_mode: true });
    expect(source.stats).toMatchObject({ requests: 1, retries: 0, bytes: PAGE.length });
  });

  test('backs off longer each time, jittered, and never over its cap', async () => {
    await failing(repeat(answer(500)));
    // After each of the four back-offs the pacer may ask for the rest of its second.
    const longest = Math.max(...clock.slept);
    expect(longest).toBeGreaterThanOrEqual(2000);
    expect(longest).toBeLessThanOrEqual(4000);
    expect(clock.now() - NOW).toBeGreaterThan(250 + 500 + 1000 + 2000);
  });

  test('tells the pacer when a request that met a 429 started', async () => {
    const pacer = createPacer(clock, { requestsPerSecond: 1 });
    const refused: unknown[] = [];
    const recording: Pacer = {
      ...pacer,
      slowDown: async (retryAfterMs, startedAtMs) => {
        refused.push(startedAtMs);
        await pacer.slowDown(retryAfterMs, startedAtMs);
      },
    };
    queue.push(answer(429));
    await open(true, recording).ask('SELECT 1');
    expect(refused).toEqual([NOW]);
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
});
