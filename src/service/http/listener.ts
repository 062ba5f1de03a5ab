/**
 * One HTTP listener for a set of routes. Invariant: every answer, failures included, carries the `Date` of the service's
 * clock and a request id, and has one line in the log. The routes decide what the answers contain; `http-app.ts` sets
 * sizes, times and compression.
 */
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../core/clock.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { formatListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import { untilAborted } from '../../core/side-by-side.ts';
import { ApiFailure, internalError, invalidRequest, queryTimeout } from './api-failure.ts';
import { createHttpApp, WRITE_AHEAD_BYTES } from './http-app.ts';
import type { Answer, Call, Route } from './route.ts';
import type { ServiceMetrics } from './service-metrics.ts';

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
