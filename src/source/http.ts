/**
 * One request over HTTP, its answer as a stream of decoded bytes. Not `fetch`: on Node 20 the body of a compressed answer
 * that does not decompress never ends there, neither with an error nor when it is aborted, and the process then exits
 * without a word. Invariant: the stream ends whole or throws. It follows no redirect, and judges no status.
 */
import { once } from 'node:events';
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { hasErrorCode } from '../core/atomic-file.ts';

/** What zlib says of bytes that are not gzip, or not all of it. */
const UNDECODABLE = ['Z_DATA_ERROR', 'Z_BUF_ERROR'] as const;

/** A host that does not answer at all is told sooner than one that takes its time over a query. */
const CONNECT_TIMEOUT_MS = 10_000;

interface RequestOptions {
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Must be read to its end or destroyed. */
  readonly body: Readable;
}

/** @throws Error of the system when there is no answer: connection refused or lost, aborted */
export async function sendRequest(url: string, options: RequestOptions): Promise<HttpAnswer> {
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
  // `once` throws it as long as there is no answer; after that the body does.
  outgoing.on('error', () => {});
  outgoing.on('socket', (socket) => limitConnecting(outgoing, socket));
  outgoing.end(body);
  const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: decode(answer) };
}

/** Whether an answer's bytes came, and do not decompress. */
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
  // The error of either end is thrown to whoever reads.
  return pipeline(answer, createGunzip(), () => {});
}
