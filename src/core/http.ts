/**
 * One HTTP request; the answer is a stream of decoded bytes. This does not use `fetch`: on Node 20 the body of a
 * compressed answer that does not decompress never ends there, neither with an error nor on abort, and the process then
 * exits silently. Invariant: the stream ends complete or throws. It follows no redirects and does not judge the status.
 */
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { hasErrorCode } from './atomic-file.ts';

/** zlib's codes for data that is not gzip, or truncated. */
const UNDECODABLE = ['Z_DATA_ERROR', 'Z_BUF_ERROR'] as const;

/** Shorter than the request timeout: an unreachable host is reported sooner than a slow query. */
const CONNECT_TIMEOUT_MS = 10_000;

interface RequestOptions {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * @returns with a body that the caller must read to its end or destroy
 * @throws Error of the system if there is no answer: connection refused or lost, aborted
 */
export async function sendRequest(url: string, options: RequestOptions) {
  const { method, headers, body, signal } = options;
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  const outgoing = request(url, {
    method,
    headers: {
      ...headers,
      'accept-encoding': 'gzip',
      ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
    },
    signal,
  });
  // Before the answer, `once` throws the error; after it, the body does.
  outgoing.on('error', () => {});
  outgoing.on('socket', (socket) => limitConnecting(outgoing, socket));
  outgoing.end(body);
  const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: decode(answer) };
}

/** Whether an answer arrived but does not decompress. */
export function isUndecodable(error: unknown): boolean {
  return hasErrorCode(error, ...UNDECODABLE);
}

function limitConnecting(outgoing: ClientRequest, socket: Socket): void {
  if (!socket.connecting) return;
  const seconds = CONNECT_TIMEOUT_MS / 1000;
  const timer = setTimeout(
    () => outgoing.destroy(new DOMException(`no connection within ${seconds} s`, 'TimeoutError')),
    CONNECT_TIMEOUT_MS,
  );
  for (const event of ['connect', 'close'] as const) socket.once(event, () => clearTimeout(timer));
}

function decode(answer: IncomingMessage): Readable {
  if (!/^(x-)?gzip$/i.test(answer.headers['content-encoding'] ?? '')) return answer;
  // The reader gets the error of either stream.
  return pipeline(answer, createGunzip(), () => {});
}
