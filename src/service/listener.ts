/**
 * One HTTP listener for one entry point. Invariant: every answer, failures included, is JSON, carries the `Date` of the
 * service's clock, and is one line in the log. What the answers mean is the entry point's matter.
 */
import { promisify } from 'node:util';
import { gzip as gzipCallback } from 'node:zlib';
import { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { ApiFailure, internalError, invalidRequest } from './failure.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Rows in the body; 0 for a failure. */
  readonly rows: number;
}

export interface EntryPoint {
  readonly name: string;
  readonly path: string;
  /** @param body the parsed request body. @throws ApiFailure, or anything else for an internal error */
  answer(body: unknown): Promise<Answer>;
  fail(failure: ApiFailure): Answer;
}

export interface ListenerOptions {
  readonly entry: EntryPoint;
  readonly clock: Clock;
  readonly log: Log;
  /** Body of GET /healthz; without it there is no such path. */
  readonly health?: () => object;
}

const gzip = promisify(gzipCallback);

/** A statement may have 64 kB, and JSON or percent escapes make it longer. */
const MAX_BODY_BYTES = 512 * 1024;
/** Time to receive a request; answering may take longer. */
const RECEIVE_TIMEOUT_MS = 30_000;
/** Smaller bodies are not worth compressing. */
const MIN_GZIP_BYTES = 1_024;
/** The fastest level: a page of trades shrinks to about a sixth with it. */
const GZIP_LEVEL = 1;

export function createListener(options: ListenerOptions): FastifyInstance {
  const { entry, clock, log } = options;
  const app = fastify({
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: RECEIVE_TIMEOUT_MS,
    forceCloseConnections: 'idle',
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, async (_request: FastifyRequest, body: string) =>
    parseJson(body),
  );
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (_request: FastifyRequest, body: string) => parseForm(body),
  );
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('date', new Date(clock.now()).toUTCString());
  });
  closeWithLastAnswer(app);
  app.post(entry.path, async (request, reply) => sendAnswer(request, reply, await entry.answer(request.body)));
  const { health } = options;
  if (health) app.get('/healthz', async () => health());
  app.setNotFoundHandler(async (request, reply) => {
    const isEntry = request.url.split('?')[0] === entry.path;
    const failure = isEntry
      ? new ApiFailure(405, 'METHOD_NOT_ALLOWED', 'Only POST is allowed here.')
      : new ApiFailure(404, 'INVALID_REQUEST', 'There is nothing at this address.');
    if (isEntry) reply.header('allow', 'POST');
    return sendFailure(request, reply, failure);
  });
  app.setErrorHandler(async (error: FastifyError, request, reply) => sendFailure(request, reply, toFailure(error)));
  return app;

  async function sendFailure(request: FastifyRequest, reply: FastifyReply, failure: ApiFailure): Promise<FastifyReply> {
    if (failure.status >= 500) log.error({ err: describeError(failure) }, 'request failed');
    return await sendAnswer(request, reply, entry.fail(failure), failure);
  }

  async function sendAnswer(
    request: FastifyRequest,
    reply: FastifyReply,
    answer: Answer,
    failure?: ApiFailure,
  ): Promise<FastifyReply> {
    const compressed = answer.body.length > MIN_GZIP_BYTES && acceptsGzip(request);
    const body = compressed ? await gzip(answer.body, { level: GZIP_LEVEL }) : answer.body;
    log.info({
      event: 'request',
      entryPoint: entry.name,
      method: request.method,
      status: answer.status,
      ...(failure ? { errorCode: failure.errorCode, reason: failure.details.reason } : {}),
      rows: answer.rows,
      bytes: body.length,
      ms: Math.round(reply.elapsedTime),
      ...(log.isLevelEnabled('debug') ? { sql: (request.body as { sql?: unknown } | undefined)?.sql } : {}),
    });
    reply.code(answer.status).headers(answer.headers).type('application/json; charset=utf-8');
    reply.header('vary', 'accept-encoding');
    if (compressed) reply.header('content-encoding', 'gzip');
    return reply.send(body);
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

function parseJson(text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ApiFailure(400, 'INVALID_REQUEST', 'The request body is not valid JSON.', { cause });
  }
}

/** The form's fields with the types they have in JSON; the last of a repeated field counts. */
function parseForm(text: string): Readonly<Record<string, string | boolean>> {
  const fields: Record<string, string | boolean> = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const isFlag = name === 'test_mode' && /^(true|false|1|0)$/i.test(value);
    fields[name] = isFlag ? /^(true|1)$/i.test(value) : value;
  }
  return fields;
}

function toFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  const status = (error as Partial<FastifyError>).statusCode;
  // The framework's own refusals: unknown content type, too long a body.
  if (status !== undefined && status >= 400 && status < 500) {
    return invalidRequest('The request body must be JSON or form-encoded, and not longer than 512 kB.');
  }
  return internalError(error);
}

function acceptsGzip(request: FastifyRequest): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0+)?\s*(,|$))/i.test(String(request.headers['accept-encoding'] ?? ''));
}
