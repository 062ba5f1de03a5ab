/**
 * An HTTP listener for small answers, with limits on all resources that a caller could hold. It uses Node's own server,
 * because a framework would cost an idle process 18 MB for a handful of addresses. What an answer contains is its
 * callers' task. The body of a request is read only where the caller allows one, up to a limit.
 */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import type { Clock } from './clock.ts';
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

/** What a caller asked. */
export interface HeardRequest {
  readonly method: string;
  /** Path and query, as sent. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** Address of the other side of the connection: the caller, or a proxy. */
  readonly remote: string;
  /** Reads the body. @throws RangeError when it has more bytes; the connection should be closed then */
  readBody(maxBytes: number): Promise<string>;
}

/** An answer. The length of a text is added; a stream is sent while it is read, and its length need not be known. */
export interface ReadyAnswer<Body extends string | Readable = string> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}

interface ListenerOptions {
  readonly address: ListenAddress;
  /** Must not throw. */
  readonly answer: (request: HeardRequest) => Promise<ReadyAnswer<string | Readable>>;
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
    const remote = request.socket.remoteAddress ?? '';
    const readBody = async (maxBytes: number) => await readText(request, maxBytes);
    void answer({ method, target, headers, remote, readBody }).then((ready) => send(response, method, ready));
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

function send(
  response: ServerResponse,
  method: string,
  { status, headers, body }: ReadyAnswer<string | Readable>,
): void {
  if (typeof body === 'string') {
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
    response.end(method === 'HEAD' ? undefined : body);
    return;
  }
  response.writeHead(status, headers);
  if (method === 'HEAD') {
    body.destroy();
    response.end();
    return;
  }
  // A caller who is gone ends the reading; a reading that fails ends the connection, so that nobody takes a part for the
  // whole.
  pipeline(body, response, () => undefined);
}

/** @throws RangeError when there are more bytes; the rest is not read */
export async function readText(body: Readable, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw new RangeError(`the body has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
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

/** The server's hard limit, as a multiple of `maxConnections`. It applies when all connections wait for answers. */
const HARD_FACTOR = 2;

/**
 * Makes room on a server with a connection limit: a new connection beyond the limit closes the one idle longest. A
 * connection is idle when no complete request waits for its answer. That includes a half-sent request, and a client
 * that does not read its answer. Invariant: a connection that waits for its answer is never closed here. Time-outs are
 * the server's own job. Call it before the server listens.
 * @param maxConnections limit of open connections, idle ones included
 */
export function keepRoom(server: Server, maxConnections: number): void {
  /** Open connections with their unfinished answers; the one without activity for longest comes first. */
  const open = new Map<Socket, Set<ServerResponse>>();
  server.maxConnections = HARD_FACTOR * maxConnections;
  server.on('connection', (socket: Socket) => {
    open.set(socket, new Set());
    socket.once('close', () => open.delete(socket));
    if (open.size > maxConnections) findIdle(open)?.destroy();
  });
  server.on('request', ({ socket }, response) => {
    const answers = open.get(socket);
    answers?.add(response);
    response.once('close', () => {
      answers?.delete(response);
      if (answers === undefined || !open.delete(socket)) return;
      open.set(socket, answers);
    });
  });
}

function findIdle(open: ReadonlyMap<Socket, ReadonlySet<ServerResponse>>): Socket | undefined {
  for (const [socket, answers] of open) {
    if ([...answers].every(({ writableEnded, req }) => writableEnded || !req.complete)) return socket;
  }
  return undefined;
}
