/**
 * The daemon's HTTP server: a listener with limits on all resources that a caller could hold. It uses Node's own
 * server, because a framework would cost an idle daemon 18 MB for five addresses. `site.ts` has the pages.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type CalendarOverride, NO_OVERRIDE } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import { keepRoom } from '../../core/connections.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { formatListenAddress, isLoopback, type ListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import type { DaemonView } from '../job-view.ts';
import { headersOf } from './answer.ts';
import { createAccess } from './page-access.ts';
import { Site } from './site.ts';

/** A page request with its cookie needs a fraction of it. */
const MAX_HEADER_BYTES = 8 * 1024;
/** A few people, their browsers' spare connections, and Prometheus. Beyond it idle connections are closed. */
const MAX_CONNECTIONS = 64;
/** Limits for request headers that arrive slowly, and for idle connections. */
const HEADERS_TIMEOUT_MS = 5_000;
const REQUEST_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** Longer than a process needs to read a report from the store. */
const SILENCE_TIMEOUT_MS = 60_000;
/** How often Node checks for late requests. */
const CHECK_INTERVAL_MS = 1_000;
/** Time for answers in flight when the server closes. */
const CLOSE_GRACE_MS = 1_000;

export interface WebOptions {
  readonly address: ListenAddress;
  /** Token that viewers need. Required unless the address is a loopback one. */
  readonly token: string | undefined;
  /** The data to show; pages call it at most once a second. */
  readonly view: () => DaemonView;
  /** Called when someone views the page, at most once a second. */
  readonly onLook?: () => void;
  /** HTML of an archived report in the view; `undefined` when it no longer exists. */
  readonly readReport: (job: string, date: string, report: string, revision: number) => Promise<string | undefined>;
  /** Calendar overrides; absent: none. */
  readonly calendar?: CalendarOverride;
  readonly log: Log;
  readonly clock: Clock;
}

export interface RunningWeb {
  /** Base address, without a trailing slash. */
  readonly url: string;
  /** Stops listening, and gives answers in flight one second. Idempotent. */
  close(): Promise<void>;
}

/** @throws Fault `SETTING_MISSING` (kind `usage`) if the address needs a token and there is none; `LISTEN_FAILED` */
export async function startWeb(options: WebOptions): Promise<RunningWeb> {
  const { address, token, clock, log } = options;
  if (token === undefined && !isLoopback(address.host)) {
    throw new Fault('SETTING_MISSING', `the status page on ${formatListenAddress(address)} needs a token`, {
      kind: 'usage',
      hint: 'Set FLOWDROP_STATUS_TOKEN, or listen on 127.0.0.1.',
    });
  }
  const access = createAccess(token, ['localhost', '127.0.0.1', '::1', address.host]);
  const site = new Site({ ...options, access, calendar: options.calendar ?? NO_OVERRIDE });
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES, connectionsCheckingInterval: CHECK_INTERVAL_MS });
  keepRoom(server, MAX_CONNECTIONS);
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.timeout = SILENCE_TIMEOUT_MS;
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { method = 'GET', url: target = '/', headers } = request;
    void site.answer({ method, target, headers }).then((answer) => {
      response.writeHead(answer.status, { ...headersOf(answer) });
      response.end(method === 'HEAD' ? undefined : answer.body);
    });
  });
  server.on('clientError', refuseBroken);
  await listen(server, address);
  const bound = server.address() as AddressInfo; // A listening TCP server has neither a path nor null.
  const url = `http://${formatListenAddress({ host: bound.address, port: bound.port })}`;
  log.info({ event: 'status-page', url }, `status page on ${url}`);
  let closing: Promise<void> | undefined;
  return {
    url,
    close: () => {
      closing ??= close(server, clock);
      return closing;
    },
  };
}

async function listen(server: Server, { host, port }: ListenAddress): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      // Without a host Node listens on all addresses, also on IPv4 if the machine has no IPv6.
      server.listen(host === '' ? { port } : { host, port }, resolve);
    });
  } catch (cause) {
    const where = formatListenAddress({ host, port });
    throw new Fault('LISTEN_FAILED', `cannot listen on ${where}: ${describeError(cause)}`, {
      cause,
      hint: 'Choose another FLOWDROP_STATUS_ADDRESS, or `off`.',
    });
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
