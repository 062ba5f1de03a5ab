/**
 * An HTTP listener for small answers, with limits on all resources that a caller could hold. It uses Node's own server,
 * because a framework would cost an idle process 18 MB for a handful of addresses. What an answer contains is its
 * callers' task; bodies of requests are not read.
 */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Clock } from './clock.ts';
import { keepRoom } from './connections.ts';
import { describeError, Fault } from './errors.ts';
import { formatListenAddress, type ListenAddress } from './listen-address.ts';

/** A request with a cookie or a token needs a fraction of it. */
const MAX_HEADER_BYTES = 8 * 1024;
/** A few people or programs with their spare connections. Beyond it idle connections are closed. */
const MAX_CONNECTIONS = 64;
/** Limits for request headers that arrive slowly, and for idle connections. */
const HEADERS_TIMEOUT_MS = 5_000;
const REQUEST_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** Longer than a process needs to read an object from the store. */
const SILENCE_TIMEOUT_MS = 60_000;
/** How often Node checks for late requests. */
const CHECK_INTERVAL_MS = 1_000;
/** Time for answers in flight when the server closes. */
const CLOSE_GRACE_MS = 1_000;

/** What a caller asked, without its body. */
export interface HeardRequest {
  readonly method: string;
  /** Path and query, as sent. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
}

/** An answer that is ready to be sent; the length is added. */
export interface ReadyAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface ListenerOptions {
  readonly address: ListenAddress;
  /** Must not throw. */
  readonly answer: (request: HeardRequest) => Promise<ReadyAnswer>;
  /** What to do if the address is taken. */
  readonly hint: string;
  readonly clock: Clock;
}

export interface HttpListener {
  /** Base address, without a trailing slash. */
  readonly url: string;
  /** Stops listening, and gives answers in flight one second. Idempotent. */
  close(): Promise<void>;
}

/** @throws Fault `LISTEN_FAILED` */
export async function listenHttp({ address, answer, hint, clock }: ListenerOptions): Promise<HttpListener> {
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES, connectionsCheckingInterval: CHECK_INTERVAL_MS });
  keepRoom(server, MAX_CONNECTIONS);
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.timeout = SILENCE_TIMEOUT_MS;
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { method = 'GET', url: target = '/', headers } = request;
    void answer({ method, target, headers }).then(({ status, headers: more, body }) => {
      response.writeHead(status, { ...more, 'content-length': Buffer.byteLength(body) });
      response.end(method === 'HEAD' ? undefined : body);
    });
  });
  server.on('clientError', refuseBroken);
  await listen(server, address, hint);
  const bound = server.address() as AddressInfo; // A listening TCP server has neither a path nor null.
  let closing: Promise<void> | undefined;
  return {
    url: `http://${formatListenAddress({ host: bound.address, port: bound.port })}`,
    close: () => {
      closing ??= close(server, clock);
      return closing;
    },
  };
}

async function listen(server: Server, { host, port }: ListenAddress, hint: string): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      // Without a host Node listens on all addresses, also on IPv4 if the machine has no IPv6.
      server.listen(host === '' ? { port } : { host, port }, resolve);
    });
  } catch (cause) {
    const where = formatListenAddress({ host, port });
    throw new Fault('LISTEN_FAILED', `cannot listen on ${where}: ${describeError(cause)}`, { cause, hint });
  }
}

/** Handles bytes that are not a request, and headers that are too long or too late. */
function refuseBroken(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const status = {
    HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
    ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  }[error.code ?? ''];
  socket.end(`HTTP/1.1 ${status ?? '400 Bad Request'}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

async function close(server: Server, clock: Clock): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const grace = new AbortController();
  const patience = clock.sleep(CLOSE_GRACE_MS, grace.signal).then(
    () => server.closeAllConnections(),
    // All answers were sent within the grace time.
    () => undefined,
  );
  await closed;
  grace.abort();
  await patience;
}
