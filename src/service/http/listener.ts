/**
 * One HTTP listener for a set of endpoints. Invariant: every answer, failures included, carries the `Date` of the
 * service's clock and a request id, and has one line in the log. The endpoints decide what the answers contain;
 * `http-app.ts` sets sizes, times and compression.
 */

import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../core/clock.ts';
import { describeError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { AnswerLog, type Served } from './answer-log.ts';
import { ApiFailure, internalError, invalidRequest, queryTimeout } from './api-failure.ts';
import type { Call, Endpoint, EndpointAnswer } from './endpoint.ts';
import { createHttpApp, WRITE_AHEAD_BYTES } from './http-app.ts';

interface ListenerOptions {
  readonly endpoints: readonly [Endpoint, ...Endpoint[]];
  readonly clock: Clock;
  readonly log: Log;
  /** Returns the content of a valid session cookie. Default: no sessions. */
  readonly readSession?: (cookieHeader: string | undefined) => string | undefined;
  readonly onServed?: (served: Served) => void;
}

export async function createListener(options: ListenerOptions): Promise<FastifyInstance> {
  const { endpoints, clock, log } = options;
  const answers = new AnswerLog(log, options.onServed);
  const app = await createHttpApp(clock, (request, reply) => {
    open(request, reply);
    reply.raw.once('finish', () => answers.end(request, reply));
    refuse(request, reply);
  });
  app.addHook('onRequest', async (request, reply) => open(request, reply));
  app.addHook('onResponse', async (request, reply) => answers.end(request, reply));
  for (const endpoint of endpoints) {
    app.route({
      method: endpoint.operation.method,
      url: endpoint.operation.path,
      handler: (request, reply) => handle(endpoint, request, reply),
      // Rejections by the framework, before the endpoint is called.
      errorHandler: async (error, request, reply) => sendFailure(request, reply, endpoint, toFailure(error)),
    });
  }
  app.setNotFoundHandler(async (request, reply) => refuse(request, reply));
  // No endpoint matches, so the body does not matter: the request is refused for its method or path.
  app.setErrorHandler(async (_error, request, reply) => refuse(request, reply));
  return app;

  function open(request: FastifyRequest, reply: FastifyReply): void {
    const date = new Date(clock.now()).toUTCString();
    reply.headers({ date, 'x-request-id': request.id, vary: 'accept-encoding' });
  }

  async function handle(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    try {
      const act = (signal: AbortSignal) => endpoint.answer(toCall(request, signal, options));
      return send(request, reply, endpoint, await answerInTime(reply.raw, clock, act));
    } catch (error) {
      if (!reply.raw.destroyed) return sendFailure(request, reply, endpoint, toFailure(error));
      const durationMs = Math.round(reply.elapsedTime);
      log.info(
        { event: 'caller-gone', requestId: request.id, endpoint: endpoint.name, durationMs },
        'the caller disconnected',
      );
      return reply.hijack();
    }
  }

  function refuse(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { endpoint, failure, headers } = findRefusal(endpoints, request.method, request.url);
    return sendFailure(request, reply.headers(headers), endpoint, failure);
  }

  function sendFailure(request: FastifyRequest, reply: FastifyReply, endpoint: Endpoint, failure: ApiFailure) {
    if (failure.status >= 500)
      log.error({ event: 'request-failed', requestId: request.id, reason: describeError(failure) }, 'request failed');
    return send(request, reply, endpoint, endpoint.fail(failure), failure);
  }

  function send(
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: Endpoint,
    answer: EndpointAnswer,
    failure?: ApiFailure,
  ): FastifyReply {
    answers.begin(request, endpoint, answer, failure);
    const { body } = answer;
    const type = answer.contentType ?? 'application/json; charset=utf-8';
    reply.code(answer.status).headers(answer.headers).type(type);
    if (body instanceof Uint8Array) return reply.send(Buffer.from(body.buffer, body.byteOffset, body.length));
    return reply.send(Readable.from(body, { objectMode: false, highWaterMark: WRITE_AHEAD_BYTES }));
  }
}

function toCall(request: FastifyRequest, signal: AbortSignal, options: ListenerOptions): Call {
  return {
    body: request.body,
    query: request.query as Call['query'], // The framework's parser returns text, or lists of text.
    params: request.params as Call['params'], // Named path segments from the router.
    authorization: request.headers.authorization,
    session: options.readSession?.(request.headers.cookie),
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

interface RefusedRequest {
  /** The endpoint whose error format the answer uses. */
  readonly endpoint: Endpoint;
  readonly failure: ApiFailure;
  readonly headers: Readonly<Record<string, string>>;
}

/** @param url the request target as received, with or without a query */
function findRefusal(endpoints: readonly [Endpoint, ...Endpoint[]], method: string, url: string): RefusedRequest {
  const path = url.split('?')[0] ?? '';
  const here = endpoints.filter((endpoint) => matchesPath(endpoint.operation.path, path));
  const meant = here.find((endpoint) => endpoint.operation.method === method);
  if (meant) return { endpoint: meant, failure: invalidRequest('The address is not valid.'), headers: {} };
  const [endpoint] = here;
  if (!endpoint) {
    const failure = new ApiFailure(404, 'INVALID_REQUEST', 'There is nothing at this address.');
    return { endpoint: endpoints[0], failure, headers: {} };
  }
  const allow = here.map(({ operation }) => operation.method).join(', ');
  const failure = new ApiFailure(405, 'METHOD_NOT_ALLOWED', `Only ${allow} is allowed here.`);
  return { endpoint, failure, headers: { allow } };
}

/** Whether a path matches the endpoint's pattern; `:name` stands for one segment. */
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
  answer: (signal: AbortSignal) => Promise<EndpointAnswer>,
): Promise<EndpointAnswer> {
  const closed = new AbortController();
  const call = new AbortController();
  raw.once('close', () => {
    closed.abort();
    if (!raw.writableFinished) call.abort(new CallerGone());
  });
  const begun = new AbortController();
  const late = new Promise<never>((_resolve, reject) => {
    call.signal.addEventListener('abort', () => reject(call.signal.reason), { once: true });
  });
  after(clock, BEGIN_MS, AbortSignal.any([begun.signal, closed.signal]), () => call.abort(queryTimeout()));
  after(clock, END_MS, closed.signal, () => raw.destroy());
  try {
    return await Promise.race([answer(call.signal), late]);
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
