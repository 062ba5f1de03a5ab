/**
 * One HTTP listener for a set of endpoints. Invariant: every answer, failures included, carries the `Date` of the
 * service's clock and a request id, and is one line in the log; a call that takes too long is answered, whatever its
 * endpoint still does. What the answers mean is the endpoints' matter.
 */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import fastifyCompress from '@fastify/compress';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { parseForm, parseJson } from './body.ts';
import type { Answer, Call, Endpoint } from './endpoint.ts';
import { ApiFailure, internalError, invalidRequest, queryTimeout } from './failure.ts';
import { findRefusal } from './refusal.ts';

/** What is known of a request when its answer has been sent. */
export interface Served {
  readonly endpoint: string;
  readonly status: number;
  readonly errorCode: string | undefined;
  readonly seconds: number;
  readonly rows: number;
  /** Bytes of the body before compression. */
  readonly bytes: number;
}

export interface ListenerOptions {
  readonly endpoints: readonly [Endpoint, ...Endpoint[]];
  readonly clock: Clock;
  readonly log: Log;
  /** The content of a valid session cookie. Default: no sessions. */
  readonly readSession?: (cookieHeader: string | undefined) => string | undefined;
  readonly onServed?: (served: Served) => void;
}

/** A statement may have 64 kB, and JSON or percent escapes make it longer. */
const MAX_BODY_BYTES = 512 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
/** Time to receive the headers, and the whole request; answering may take longer. */
const HEADERS_TIMEOUT_MS = 10_000;
const RECEIVE_TIMEOUT_MS = 30_000;
/** Time to answer: longer than the engine's own limit, for statements that do not look at it. */
const ANSWER_TIMEOUT_MS = 45_000;
const MAX_CONNECTIONS = 1_000;
/** Bytes of an answer on their way into the network: with Node's 16 kB each piece of a page waits for the one before. */
const WRITE_AHEAD_BYTES = 1_048_576;
/** Smaller bodies are not worth compressing. */
const MIN_COMPRESSED_BYTES = 1_024;
/** The fastest levels: a page of trades shrinks to about a sixth with them, and the worker waits for it. */
const COMPRESSION_LEVEL = 1;

/** What the log line says of an answer beyond its status. */
interface Account {
  readonly endpoint: Endpoint;
  errorCode?: string;
  reason?: string | undefined;
  rows?: () => number;
  bytes: number;
}

export async function createListener(options: ListenerOptions): Promise<FastifyInstance> {
  const { endpoints, clock, log } = options;
  const accounts = new WeakMap<FastifyRequest, Account>();
  const app = fastify({
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: RECEIVE_TIMEOUT_MS,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    genReqId: () => randomUUID(),
    // A path that cannot be decoded, or whose segment is too long; the hooks below are not run for it.
    frameworkErrors: (_error, request, reply) => {
      open(request, reply);
      reply.raw.once('finish', () => tellServed(request, reply));
      refuse(request, reply);
    },
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      highWaterMark: WRITE_AHEAD_BYTES,
    },
  });
  app.server.maxConnections = MAX_CONNECTIONS;
  const { constants } = await import('node:zlib');
  await app.register(fastifyCompress, {
    // Requests are small: nothing is gained by unpacking them, and a packed bomb is kept out.
    globalDecompression: false,
    threshold: MIN_COMPRESSED_BYTES,
    encodings: ['zstd', 'gzip', 'br', 'deflate'],
    zlibOptions: { level: COMPRESSION_LEVEL },
    brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: COMPRESSION_LEVEL } },
  });
  addBodyParsers(app);
  app.addHook('onRequest', async (request, reply) => open(request, reply));
  app.addHook('onResponse', async (request, reply) => tellServed(request, reply));
  closeWithLastAnswer(app);
  for (const endpoint of endpoints) {
    app.route({
      method: endpoint.method,
      url: endpoint.path,
      handler: async (request, reply) => {
        try {
          return send(request, reply, endpoint, await answerInTime(endpoint, request, reply));
        } catch (error) {
          if (reply.raw.destroyed) return leave(request, reply, endpoint);
          return sendFailure(request, reply, endpoint, toFailure(error));
        }
      },
      // The framework's own refusals, before the endpoint is asked.
      errorHandler: async (error, request, reply) => sendFailure(request, reply, endpoint, toFailure(error)),
    });
  }
  app.setNotFoundHandler(async (request, reply) => refuse(request, reply));
  // The body of a request that no endpoint takes may be anything: it is refused for its method or path all the same.
  app.setErrorHandler(async (_error, request, reply) => refuse(request, reply));
  return app;

  function open(request: FastifyRequest, reply: FastifyReply): void {
    reply.header('date', new Date(clock.now()).toUTCString()).header('x-request-id', request.id);
  }

  function refuse(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { endpoint, failure, headers } = findRefusal(endpoints, request.method, request.url);
    return sendFailure(request, reply.headers(headers), endpoint, failure);
  }

  /** The endpoint's answer, or the failure of being late: the call's signal is aborted in both ways out. */
  async function answerInTime(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply): Promise<Answer> {
    const over = new AbortController();
    const gone = new AbortController();
    reply.raw.once('close', () => {
      over.abort();
      if (!reply.raw.writableFinished) gone.abort(new Error('the caller is gone'));
    });
    void clock.sleep(ANSWER_TIMEOUT_MS, over.signal).then(
      () => gone.abort(queryTimeout()),
      () => {}, // Answered in time.
    );
    const answer = endpoint.answer(toCall(request, gone.signal, options));
    const late = new Promise<never>((_resolve, reject) => {
      gone.signal.addEventListener('abort', () => reject(gone.signal.reason), { once: true });
    });
    return await Promise.race([answer, late]);
  }

  /** Nobody is there to be answered. */
  function leave(request: FastifyRequest, reply: FastifyReply, endpoint: Endpoint): FastifyReply {
    const ms = Math.round(reply.elapsedTime);
    log.info({ event: 'caller-gone', requestId: request.id, endpoint: endpoint.name, ms });
    return reply.hijack();
  }

  function sendFailure(request: FastifyRequest, reply: FastifyReply, endpoint: Endpoint, failure: ApiFailure) {
    if (failure.status >= 500) {
      log.error({ requestId: request.id, err: describeError(failure) }, 'request failed');
    }
    const told = { errorCode: failure.errorCode, reason: failure.details.reason };
    return send(request, reply, endpoint, endpoint.fail(failure), told);
  }

  function send(
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: Endpoint,
    answer: Answer,
    told: { readonly errorCode?: string; readonly reason?: string | undefined } = {},
  ): FastifyReply {
    const account: Account = { endpoint, bytes: 0, ...told, ...(answer.rows ? { rows: answer.rows } : {}) };
    accounts.set(request, account);
    reply
      .code(answer.status)
      .headers(answer.headers)
      .type(answer.contentType ?? 'application/json; charset=utf-8');
    if (answer.body instanceof Uint8Array) {
      account.bytes = answer.body.length;
      return reply.send(Buffer.from(answer.body.buffer, answer.body.byteOffset, answer.body.length));
    }
    return reply.send(
      Readable.from(countBytes(answer.body, account), { objectMode: false, highWaterMark: WRITE_AHEAD_BYTES }),
    );
  }

  function tellServed(request: FastifyRequest, reply: FastifyReply): void {
    const account = accounts.get(request);
    if (!account) return;
    const { endpoint, errorCode, reason, bytes } = account;
    const rows = account.rows?.() ?? 0;
    log.info({
      event: 'request',
      requestId: request.id,
      endpoint: endpoint.name,
      method: request.method,
      status: reply.statusCode,
      ...(errorCode ? { errorCode, reason } : {}),
      rows,
      bytes,
      ms: Math.round(reply.elapsedTime),
      ...(log.isLevelEnabled('debug') ? { sql: (request.body as { sql?: unknown } | undefined)?.sql } : {}),
    });
    const seconds = reply.elapsedTime / 1_000;
    options.onServed?.({ endpoint: endpoint.name, status: reply.statusCode, errorCode, seconds, rows, bytes });
  }
}

function toCall(request: FastifyRequest, signal: AbortSignal, options: ListenerOptions): Call {
  return {
    body: request.body,
    query: request.query as Call['query'], // The framework's parser gives text, or lists of it.
    params: request.params as Call['params'], // Named segments of the path, as the router found them.
    authorization: request.headers.authorization,
    session: options.readSession?.(request.headers.cookie),
    signal,
  };
}

async function* countBytes(body: AsyncIterable<Uint8Array>, account: Account): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    account.bytes += piece.length;
    yield piece;
  }
}

function addBodyParsers(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const parsers = { 'application/json': parseJson, 'application/x-www-form-urlencoded': parseForm };
  for (const [type, parse] of Object.entries(parsers)) {
    app.addContentTypeParser(type, { parseAs: 'string' }, async (_request: FastifyRequest, body: string) =>
      parse(body),
    );
  }
}

/** A connection that was busy when the listener closed would otherwise stay open, idle, until its keep-alive time is up. */
function closeWithLastAnswer(app: FastifyInstance): void {
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
  });
  app.addHook('onResponse', async () => {
    if (isClosing) setImmediate(() => app.server.closeIdleConnections());
  });
}

function toFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  const status = (error as { statusCode?: unknown }).statusCode;
  // The framework's own refusals: unknown content type, too long a body.
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return invalidRequest('The request body must be JSON or form-encoded, and not longer than 512 kB.');
  }
  return internalError(error);
}
