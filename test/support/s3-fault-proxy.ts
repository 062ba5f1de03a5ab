/**
 * An HTTP proxy on loopback in front of an S3 server that does to requests what gateways and networks do: errors, resets
 * before and after the server acted, uploads and downloads that break in the middle, and answers that are a lie. `fault-proxy.ts` is the one for the
 * SQL API; this one keeps what S3 needs: the signed host, lengths of HEAD answers, errors in XML. Invariant: what is in
 * `injected` was done, and everything else passes unchanged.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
  request as startRequest,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

export type S3Fault =
  /** RST before the server is asked. */
  | { readonly kind: 's3-reset' }
  /** The server acted, and its answer is lost. */
  | { readonly kind: 's3-lost-answer' }
  /** The server gets this share of the request's body, and then nothing more. */
  | { readonly kind: 's3-cut-upload'; readonly share: number }
  /** The caller gets this share of the answer's body, and then RST. */
  | { readonly kind: 's3-cut-download'; readonly share: number }
  /** An answer of the proxy's own; the server is not asked. */
  | { readonly kind: 's3-error'; readonly status: 500 | 503 }
  /** Status 200 with this body, whatever it says; the server is not asked. */
  | { readonly kind: 's3-odd-answer'; readonly body: string }
  /** What a server answers that has done it; the server is not asked. */
  | { readonly kind: 's3-not-kept' }
  | { readonly kind: 's3-slow'; readonly ms: number };

export interface S3FaultProxy {
  readonly url: string;
  readonly requests: number;
  readonly injected: readonly S3Fault[];
  close(): Promise<void>;
}

const HOST = '127.0.0.1';
const ERROR_CODES = { 500: 'InternalError', 503: 'SlowDown' } as const;

/** @param choose is asked once a request, in order of arrival, with the request's number from 1 */
export async function startS3FaultProxy(
  target: string,
  choose: (number: number, method: string, path: string, headers: IncomingHttpHeaders) => S3Fault | undefined,
): Promise<S3FaultProxy> {
  const injected: S3Fault[] = [];
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    const fault = choose(requests, request.method ?? '', request.url ?? '', request.headers);
    if (fault) injected.push(fault);
    // Connections that break while they are served are what this proxy is for; both ends see it themselves.
    serve(target, request, response, fault).catch(() => request.socket.destroy());
  });
  server.listen(0, HOST);
  await once(server, 'listening');
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`, // A listening TCP server has an address with a port.
    get requests() {
      return requests;
    },
    injected,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function serve(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  fault: S3Fault | undefined,
): Promise<void> {
  const { socket } = request;
  if (fault?.kind === 's3-reset') return void socket.resetAndDestroy();
  const body = await buffer(request);
  if (fault?.kind === 's3-error') return sendError(response, fault.status);
  if (fault?.kind === 's3-odd-answer') return sendBody(response, fault.body);
  if (fault?.kind === 's3-not-kept') return sendKept(request, response, body);
  if (fault?.kind === 's3-slow') await delay(fault.ms);
  // The signature covers the host that the caller used, so all headers go on as they came.
  const outgoing = startRequest(new URL(request.url ?? '/', target), {
    agent: false,
    ...(request.method ? { method: request.method } : {}),
    headers: { ...request.headers, connection: 'close' },
  });
  if (fault?.kind === 's3-cut-upload' && body.length > 0) {
    // Its own end of the connection reports the break, which is meant.
    outgoing.on('error', () => {});
    await new Promise<void>((resolve) => {
      outgoing.write(body.subarray(0, Math.floor(body.length * fault.share)), () => resolve());
    });
    outgoing.destroy();
    socket.resetAndDestroy();
    return;
  }
  outgoing.end(body);
  const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
  const bytes = await buffer(answer);
  if (fault?.kind === 's3-lost-answer') return void socket.resetAndDestroy();
  const { connection: _, 'transfer-encoding': __, ...headers } = answer.headers;
  const isHead = request.method === 'HEAD';
  response.writeHead(answer.statusCode ?? 502, {
    ...headers,
    ...(isHead || answer.statusCode === 204 ? {} : { 'content-length': String(bytes.length) }),
  });
  if (fault?.kind === 's3-cut-download' && !isHead) {
    await new Promise<void>((resolve) => {
      response.write(bytes.subarray(0, Math.floor(bytes.length * fault.share)), () => resolve());
    });
    socket.resetAndDestroy();
    return;
  }
  response.end(isHead ? undefined : bytes);
}

function sendBody(response: ServerResponse, body: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { 'content-length': String(Buffer.byteLength(body)), ...headers });
  response.end(body);
}

/** A success with the MD5 of what came, in the form of each writing request. */
function sendKept({ method, headers }: IncomingMessage, response: ServerResponse, body: Buffer): void {
  const tag = `"${createHash('md5').update(body).digest('hex')}"`;
  const result = `<ETag>${tag}</ETag>`;
  if (headers['x-amz-copy-source'] !== undefined) sendBody(response, `<CopyObjectResult>${result}</CopyObjectResult>`);
  else if (method === 'POST') {
    sendBody(response, `<CompleteMultipartUploadResult><Key>x</Key>${result}</CompleteMultipartUploadResult>`);
  } else sendBody(response, '', { etag: tag });
}

function sendError(response: ServerResponse, status: 500 | 503): void {
  const body = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${ERROR_CODES[status]}</Code><Message>a fault</Message></Error>`;
  response.writeHead(status, { 'content-type': 'application/xml', 'content-length': String(Buffer.byteLength(body)) });
  response.end(response.req.method === 'HEAD' ? undefined : body);
}
