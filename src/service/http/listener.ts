/**
 * One HTTP listener for a set of routes, with its limits of sizes and times. Invariant: every answer, failures included,
 * carries the `Date` of the service's clock and a request id, and has one line in the log; a silent connection is cut, and
 * closing ends within `STOP_MS`. Bodies, JSON or forms, become the values that the routes validate: a form's boolean gets
 * the type that it would have in JSON. The routes decide what the answers contain.
 */
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { constants } from 'node:zlib';
import fastifyCompress from '@fastify/compress';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Clock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { keepRoom } from '../../core/http-listener.ts';
import { formatListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import { untilAborted } from '../../core/side-by-side.ts';
import { ApiFailure, internalError, invalidRequest, queryTimeout } from './api-failure.ts';
import type { Answer, Call, Route } from './route.ts';
import type { ServiceMetrics } from './service-metrics.ts';

/** A statement may have 64 kB; JSON or percent escapes make it longer. */
const MAX_BODY_BYTES = 512 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
/** Time to receive the headers, and the whole request. Answering may take longer. */
const HEADERS_TIMEOUT_MS = 10_000;
const RECEIVE_TIMEOUT_MS = 30_000;
/** Cut a connection after this long without traffic; longer than an answer may take to begin. */
const SILENCE_TIMEOUT_MS = 60_000;
/** Above this, idle connections are closed to make room. */
const MAX_CONNECTIONS = 1_000;
/** Time for answers in flight when the service stops; shorter than the grace period of process supervisors. */
const STOP_MS = 8_000;
/**
 * Bytes of an answer that are buffered ahead of the network. With Node's 16 kB, each piece of a page waits for the one
 * before.
 */
const WRITE_AHEAD_BYTES = 1_048_576;
/** Smaller bodies are not worth compressing. */
const MIN_COMPRESSED_BYTES = 1_024;
/** The fastest level. It already shrinks a page of trades to about a sixth, and a worker waits for it. */
const COMPRESSION_LEVEL = 1;

interface ListenerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: ServiceMetrics;
  /** Returns the content of a valid session cookie. Default: no sessions. */
  readonly readSession?: ((cookieHeader: string | undefined) => string | undefined) | undefined;
}

/** @returns the base URL, and what lets requests in flight finish and closes @throws Fault `LISTEN_FAILED` */
export async function startListener(
  routes: readonly [Route, ...Route[]],
  { host, port, clock, log, metrics, readSession }: ListenerOptions,
) {
  const app = await createHttpApp(clock, (request, reply) => {
    open(request, reply);
    refuse(request, reply);
  });
  app.addHook('onRequest', async (request, reply) => open(request, reply));
  for (const route of routes) {
    app.route({
      method: route.method,
      url: route.path,
      handler: (request, reply) => handle(route, request, reply),
      // Rejections by the framework, before the route is called.
      errorHandler: async (error, request, reply) => sendFailure(request, reply, route, toFailure(error)),
    });
  }
  app.setNotFoundHandler(async (request, reply) => refuse(request, reply));
  // No route matches, so the body does not matter: the request is refused for its method or path.
  app.setErrorHandler(async (_error, request, reply) => refuse(request, reply));
  await app.listen({ host, port }).catch((cause: unknown) => {
    throw new Fault('LISTEN_FAILED', `cannot listen on ${host}:${port}: ${describeError(cause)}`, {
      cause,
      hint: 'Choose another port; 0 picks a free one.',
    });
  });
  const address = app.server.address() as AddressInfo; // A TCP listener, so never a path or null.
  const url = `http://${formatListenAddress({ host: address.address, port: address.port })}`;
  return { url, close: () => app.close() };

  function open(request: FastifyRequest, reply: FastifyReply): void {
    const date = new Date(clock.now()).toUTCString();
    reply.headers({ date, 'x-request-id': request.id, vary: 'accept-encoding' });
  }

  async function handle(route: Route, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    try {
      const act = (signal: AbortSignal) => route.answer(toCall(request, signal, readSession));
      return send(request, reply, route, await answerInTime(reply.raw, clock, act));
    } catch (error) {
      if (!reply.raw.destroyed) return sendFailure(request, reply, route, toFailure(error));
      const durationMs = Math.round(reply.elapsedTime);
      log.info(
        { event: 'caller-gone', requestId: request.id, endpoint: route.name, durationMs },
        'the caller disconnected',
      );
      return reply.hijack();
    }
  }

  function refuse(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { route, failure, headers } = findRefusal(routes, request.method, request.url);
    return sendFailure(request, reply.headers(headers), route, failure);
  }

  function sendFailure(request: FastifyRequest, reply: FastifyReply, route: Route, cause: ApiFailure): FastifyReply {
    const failure = route.translate?.(cause) ?? cause;
    if (failure.status >= 500)
      log.error({ event: 'request-failed', requestId: request.id, reason: describeError(failure) }, 'request failed');
    const { retryAfterSeconds } = failure.details;
    if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds));
    return send(request, reply.code(failure.status), route, { body: JSON.stringify(failure.body) }, failure);
  }

  /** Sends an answer; when it has been sent, it is logged and counted, with its bytes before compression. */
  function send(
    request: FastifyRequest,
    reply: FastifyReply,
    route: Route,
    { body, headers = {}, contentType = 'application/json; charset=utf-8', rows: countRows }: Answer,
    failure?: ApiFailure,
  ): FastifyReply {
    let bytes = 0;
    reply.raw.once('close', () => {
      const [rows, errorCode, status] = [countRows?.() ?? 0, failure?.errorCode, reply.statusCode];
      log.info({
        event: 'request',
        requestId: request.id,
        endpoint: route.name,
        method: request.method,
        status,
        ...(failure ? { errorCode, reason: failure.details.reason } : {}),
        rows,
        bytes,
        durationMs: Math.round(reply.elapsedTime),
        ...(log.isLevelEnabled('debug') ? { sql: (request.body as { sql?: unknown } | undefined)?.sql } : {}),
      });
      const seconds = reply.elapsedTime / 1_000;
      metrics.observeRequest({ endpoint: route.name, status, errorCode, seconds, rows, bytes });
    });
    reply.headers(headers).type(contentType);
    const pieces = typeof body === 'string' ? Buffer.from(body) : body;
    if (pieces instanceof Uint8Array) {
      bytes = pieces.length;
      return reply.send(Buffer.from(pieces.buffer, pieces.byteOffset, bytes));
    }
    const counted = count(pieces, (length) => {
      bytes += length;
    });
    return reply.send(Readable.from(counted, { objectMode: false, highWaterMark: WRITE_AHEAD_BYTES }));
  }
}

async function* count(pieces: AsyncIterable<Uint8Array>, add: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    add(piece.length);
    yield piece;
  }
}

function toCall(request: FastifyRequest, signal: AbortSignal, readSession: ListenerOptions['readSession']): Call {
  return {
    body: request.body,
    query: request.query as Call['query'], // The framework's parser returns text, or lists of text.
    params: request.params as Call['params'], // Named path segments from the router.
    authorization: request.headers.authorization,
    session: readSession?.(request.headers.cookie),
    address: request.ip,
    signal,
  };
}

function toFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  const status = (error as { statusCode?: unknown }).statusCode;
  // Rejections by the framework: unknown content type, body too long.
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return invalidRequest('The request body must be JSON or form-encoded, and not longer than 512 kB.');
  }
  return internalError(error);
}

/**
 * Why no route answers, and the route in whose way this is said.
 * @param url the request target as received, with or without a query
 */
function findRefusal(routes: readonly [Route, ...Route[]], method: string, url: string) {
  const path = url.split('?')[0] ?? '';
  const here = routes.filter((route) => matchesPath(route.path, path));
  const meant = here.find((route) => route.method === method);
  if (meant) return { route: meant, failure: invalidRequest('The address is not valid.'), headers: {} };
  const [route] = here;
  if (!route) {
    const failure = new ApiFailure(404, 'INVALID_REQUEST', 'There is nothing at this address.');
    return { route: routes[0], failure, headers: {} };
  }
  const allow = here.map((other) => other.method).join(', ');
  const failure = new ApiFailure(405, 'METHOD_NOT_ALLOWED', `Only ${allow} is allowed here.`);
  return { route, failure, headers: { allow } };
}

/** Whether a path matches the route's pattern; `:name` stands for one segment. */
function matchesPath(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split('/'), path.split('/')];
  return wanted.length === given.length && wanted.every((part, at) => part.startsWith(':') || part === given[at]);
}

/** Longer than the engine's own time limit; some statements do not check that limit. */
const BEGIN_MS = 45_000;
/** Enough for the largest answer over a slow line; a slower reader would hold memory that others need. */
const END_MS = 600_000;

/**
 * @param answer starts the call, with a signal
 * @throws what `answer` throws, ApiFailure QUERY_TIMEOUT, or an error when the caller is gone
 */
async function answerInTime(
  raw: ServerResponse,
  clock: Clock,
  answer: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const closed = new AbortController();
  const call = new AbortController();
  raw.once('close', () => {
    closed.abort();
    if (!raw.writableFinished) call.abort(new CallerGone());
  });
  const begun = new AbortController();
  after(clock, BEGIN_MS, AbortSignal.any([begun.signal, closed.signal]), () => call.abort(queryTimeout()));
  after(clock, END_MS, closed.signal, () => raw.destroy());
  try {
    return await untilAborted(answer(call.signal), call.signal);
  } finally {
    begun.abort();
  }
}

/** Abort reason of a call whose caller has disconnected. */
class CallerGone extends RangeError {
  override readonly name = 'CallerGone';
}

function after(clock: Clock, ms: number, unless: AbortSignal, act: () => void): void {
  clock.sleep(ms, unless).then(act, () => {}); // The call ended first.
}

/** @param onBadAddress answers a request whose path cannot be decoded or is too long; no hook runs for it */
async function createHttpApp(
  clock: Clock,
  onBadAddress: (request: FastifyRequest, reply: FastifyReply) => void,
): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: RECEIVE_TIMEOUT_MS,
    connectionTimeout: SILENCE_TIMEOUT_MS,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    genReqId: () => randomUUID(),
    frameworkErrors: (_error, request, reply) => onBadAddress(request, reply),
    http: { maxHeaderSize: MAX_HEADER_BYTES, headersTimeout: HEADERS_TIMEOUT_MS, highWaterMark: WRITE_AHEAD_BYTES },
  });
  keepRoom(app.server, MAX_CONNECTIONS);
  await app.register(fastifyCompress, {
    // Requests are small: decompression gains nothing, and refusing it keeps out decompression bombs.
    globalDecompression: false,
    threshold: MIN_COMPRESSED_BYTES,
    encodings: ['zstd', 'gzip', 'br', 'deflate'],
    zlibOptions: { level: COMPRESSION_LEVEL },
    brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: COMPRESSION_LEVEL } },
  });
  app.removeAllContentTypeParsers();
  const parsers = { 'application/json': parseJson, 'application/x-www-form-urlencoded': parseForm };
  for (const [type, parse] of Object.entries(parsers)) {
    app.addContentTypeParser(type, { parseAs: 'string' }, async (_: FastifyRequest, body: string) => parse(body));
  }
  endOnClose(app, clock);
  return app;
}

/** @throws ApiFailure INVALID_REQUEST */
function parseJson(text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ApiFailure(400, 'INVALID_REQUEST', 'The request body is not valid JSON.', { cause });
  }
}

/** The form's fields; of a repeated field the last value counts. */
function parseForm(text: string): Readonly<Record<string, string | boolean>> {
  const fields: Record<string, string | boolean> = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const isFlag = name === 'test_mode' && /^(true|false|1|0)$/i.test(value);
    fields[name] = isFlag ? /^(true|1)$/i.test(value) : value;
  }
  return fields;
}

/**
 * Without this, two kinds of connections would delay closing: one that was busy when closing began stays open, idle,
 * until its keep-alive timeout; and one whose caller does not read stays open as long as the caller likes.
 */
function endOnClose(app: FastifyInstance, clock: Clock): void {
  const closed = new AbortController();
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
    clock.sleep(STOP_MS, closed.signal).then(
      () => app.server.closeAllConnections(),
      () => {}, // All connections ended first.
    );
  });
  app.addHook('onClose', async () => closed.abort());
  app.addHook('onResponse', async () => {
    if (isClosing) setImmediate(() => app.server.closeIdleConnections());
  });
}
