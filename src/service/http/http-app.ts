/**
 * The HTTP framework with the service's limits, before any route: sizes, times, compression, bodies, and stopping.
 * Invariant: a silent connection is cut, and closing ends within `STOP_MS`. Bodies, JSON or forms, become the values that
 * endpoints validate: a form's boolean gets the type that it would have in JSON.
 */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:zlib';
import fastifyCompress from '@fastify/compress';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Clock } from '../../core/clock.ts';
import { keepRoom } from '../../core/http-listener.ts';
import { ApiFailure } from './api-failure.ts';

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
export const WRITE_AHEAD_BYTES = 1_048_576;
/** Smaller bodies are not worth compressing. */
const MIN_COMPRESSED_BYTES = 1_024;
/** The fastest level. It already shrinks a page of trades to about a sixth, and a worker waits for it. */
const COMPRESSION_LEVEL = 1;

/** @param onBadAddress answers a request whose path cannot be decoded or is too long; no hook runs for it */
export async function createHttpApp(
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
  addBodyParsers(app);
  endOnClose(app, clock);
  return app;
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
