/**
 * Answers without measure: too long, too long when unpacked, heads and bodies without end. The client against a raw server
 * that makes them as they are read; what else answers lead to is in `faults.test.ts`.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createHistoricalSource } from '../../src/source/historical.ts';
import { SourceFault } from '../../src/source/source.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { createSilentLog } from '../support/log.ts';
import { createPacer } from '../support/pacer.ts';

const KEY = 'cus_test_key_1';
const MEGABYTE = 1_000_000;
const TRIES = 5;

let server: Server;
/** Bytes that the system took from the server. */
let sentBytes = 0;
const sockets = new Set<Socket>();
afterEach(async () => {
  vi.restoreAllMocks();
  for (const socket of sockets) socket.destroy();
  server.close();
  await once(server, 'close');
});

/** @param head of every answer @param pieces what follows, until the caller has enough */
async function serve(head: string, pieces: () => Iterable<Buffer>): Promise<string> {
  sentBytes = 0;
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', async () => {
      socket.write(head);
      for (const piece of pieces()) {
        if (socket.destroyed) return;
        if (!socket.write(piece)) await once(socket, 'drain').catch(() => undefined);
        sentBytes += piece.length;
      }
      socket.end();
    });
    // Whoever waits for the caller to read must hear that it is gone.
    socket.once('close', () => socket.emit('drain'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function* repeat(text: string, bytes: number): Iterable<Buffer> {
  const piece = Buffer.from(text.repeat(Math.ceil(MEGABYTE / text.length)));
  for (let sent = 0; sent < bytes; sent += piece.length) yield piece;
}

async function ask(
  url: string,
  { tries = TRIES, ...limits }: { readonly maxAnswerBytes?: number; readonly tries?: number } = {},
): Promise<SourceFault> {
  const clock = createFakeClock();
  const pacer = createPacer(clock, { requestsPerSecond: 1 });
  const options = { url, apiKey: KEY, expectsMeta: tries > 1, clockOffsetMs: 0, ...limits };
  const source = createHistoricalSource(options, { clock, pacer, log: createSilentLog() });
  const failure: unknown = await source.ask('SELECT 1').catch((error: unknown) => error);
  if (!(failure instanceof SourceFault)) throw new Error(`no fault of the source: ${String(failure)}`);
  expect(source.stats.requests).toBe(tries);
  return failure;
}

const head = (status: string, length: number, more = '') =>
  `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n${more}Content-Length: ${length}\r\nConnection: close\r\n\r\n`;
const SIZE = 600 * MEGABYTE;

describe('an answer of 600 MB', () => {
  it('that is no page is cut off at the limit, tried again and told with its first bytes', async () => {
    const failure = await ask(await serve(head('200 OK', SIZE), () => repeat('no page', SIZE)));
    expect(failure).toMatchObject({ code: 'ANSWER_MALFORMED', action: 'fail' });
    expect(failure.message).toContain('more than 256.0 MB');
    expect(failure.message).toContain('no page');
    expect(sentBytes).toBeLessThan(TRIES * 300 * MEGABYTE);
  });

  it('that is an error is read no further than its first words', async () => {
    const failure = await ask(await serve(head('500 Oops', SIZE), () => repeat('no page', SIZE)));
    expect(failure).toMatchObject({ code: 'SERVER_ERROR', action: 'fail' });
    expect(sentBytes).toBeLessThan(TRIES * 20 * MEGABYTE);
  });

  it('in half a megabyte of gzip is cut off at the limit, too', async () => {
    const bomb = gzipSync(Buffer.alloc(100 * MEGABYTE, 'x'));
    const gzip = head('200 OK', bomb.length, 'Content-Encoding: gzip\r\n');
    const failure = await ask(await serve(gzip, () => [bomb]), { maxAnswerBytes: 10 * MEGABYTE });
    expect(failure).toMatchObject({ code: 'ANSWER_MALFORMED', action: 'fail' });
    expect(failure.message).toContain('more than 10.0 MB');
  });
});

it('a head without end is a broken connection', async () => {
  const failure = await ask(await serve('HTTP/1.1 200 OK\r\n', () => repeat('X-More: and more\r\n', SIZE)));
  expect(failure).toMatchObject({ code: 'API_UNREACHABLE', action: 'fail' });
  expect(sentBytes).toBeLessThan(TRIES * 20 * MEGABYTE);
});

it('a body that comes byte by byte is given up at the deadline, however lively it is', async () => {
  const real = AbortSignal.timeout.bind(AbortSignal);
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => real(150));
  const url = await serve(head('200 OK', SIZE), () => []);
  server.removeAllListeners('connection');
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.write(head('200 OK', SIZE));
    const drip = setInterval(() => socket.write(' '), 5);
    socket.once('close', () => clearInterval(drip));
  });
  expect(await ask(url)).toMatchObject({ code: 'API_UNREACHABLE', action: 'fail' });
});

it('a page with a few rows too many is split, not asked for again', async () => {
  const rows = `{"status":"SUCCESS","data":[{}${',{}'.repeat(50_000)}]}`;
  const failure = await ask(await serve(head('200 OK', rows.length), () => [Buffer.from(rows)]), { tries: 1 });
  expect(failure).toMatchObject({ code: 'PAGE_TOO_LARGE', action: 'split' });
  expect(failure.message).toContain('50,001 rows, 50,000 at most');
});
