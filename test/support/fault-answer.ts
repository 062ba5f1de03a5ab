/**
 * Broken answers as values: what the fault proxy sends instead of what the service said. Pure; `fault-proxy.ts` decides
 * when, and does what only a connection can do (resets, early ends, stalls).
 */
import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { Fault, SeenRequest } from './fault-plan.ts';
import { createRandom } from './random.ts';

export interface WholeAnswer {
  readonly status: number;
  /** Lower-case names; no connection headers, and no length but that of an answer to HEAD. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Buffer;
}

/** The answer with its body or head broken; `undefined` when this answer has nothing that the fault could break. */
export function breakAnswer(fault: Fault, answer: WholeAnswer): WholeAnswer | undefined {
  const { headers, body } = answer;
  switch (fault.kind) {
    case 'truncate':
      return { ...answer, body: cut(body, fault.share) };
    case 'duplicate':
      return { ...answer, body: Buffer.concat([body, body]) };
    case 'header':
      return { ...answer, headers: { ...headers, [fault.name]: fault.value } };
    case 'date':
      return { ...answer, headers: moveDate(headers, fault) };
    case 'garble':
      if (fault.how === 'bytes') return body.length > 0 ? { ...answer, body: flipBits(body, fault) } : undefined;
      return { ...answer, headers: { ...headers, 'content-encoding': 'gzip' }, body: readPlain(answer) };
    case 'count':
      return rewrite(answer, (text) => replaceCount(text, fault));
    case 'shorten':
      return rewrite(answer, (text) => dropRows(text, fault.rows));
    case 'envelope':
      return rewrite(answer, (text) => rewriteEnvelope(text, fault));
    default:
      return undefined;
  }
}

function moveDate(
  { date, ...headers }: WholeAnswer['headers'],
  { shiftMs = 0, text, ageSeconds }: Extract<Fault, { kind: 'date' }>,
): WholeAnswer['headers'] {
  const moved = text === undefined ? new Date(Date.parse(String(date)) + shiftMs).toUTCString() : text;
  return {
    ...headers,
    ...(moved === null ? {} : { date: moved }),
    ...(ageSeconds === undefined ? {} : { age: String(ageSeconds) }),
  };
}

/** The first `share` of the bytes, at least one byte fewer than all unless the share is 1. */
export function cut(body: Buffer, share: number): Buffer {
  return share >= 1 ? body : body.subarray(0, Math.min(body.length - 1, Math.floor(body.length * share)));
}

/** @param date the service's clock as a `Date` header; an HTTP date of Retry-After counts from it */
export function buildStatusAnswer(fault: Extract<Fault, { kind: 'status' | 'redirect' }>, date: string): WholeAnswer {
  const { status } = fault;
  if (fault.kind === 'redirect') return { status, headers: { date, location: fault.location }, body: Buffer.alloc(0) };
  const { retryAfter } = fault;
  const wait = retryAfter && {
    'retry-after':
      retryAfter.as === 'number'
        ? String(retryAfter.seconds)
        : new Date(Date.parse(date) + retryAfter.seconds * 1000).toUTCString(),
  };
  const { type, text } =
    typeof fault.body === 'string' ? STATUS_BODIES[fault.body](fault) : { type: undefined, text: fault.body.text };
  return { status, headers: { date, ...(type ? { 'content-type': type } : {}), ...wait }, body: Buffer.from(text) };
}

/** A success with the MD5 of what came, in the form of each writing request of S3. */
export function buildKeptAnswer({ headers, bytes }: SeenRequest): WholeAnswer {
  const tag = `"${createHash('md5').update(bytes).digest('hex')}"`;
  const result = `<ETag>${tag}</ETag>`;
  const isCopy = headers['x-amz-copy-source'] !== undefined;
  const text = isCopy ? `<CopyObjectResult>${result}</CopyObjectResult>` : '';
  return { status: 200, headers: { etag: tag }, body: Buffer.from(text) };
}

type StatusFault = Extract<Fault, { kind: 'status' }>;

const STATUS_BODIES = {
  api: ({ status, code, reason }: StatusFault) => ({
    type: 'application/json; charset=utf-8',
    text: JSON.stringify({
      status: 'ERROR',
      errorCode: code ?? ERROR_CODES[status] ?? 'INTERNAL_ERROR',
      ...(reason === undefined ? {} : { reason }),
      errorMsg: 'a fault',
    }),
  }),
  xml: ({ status }: StatusFault) => ({
    type: 'application/xml',
    text: `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${status === 503 ? 'SlowDown' : 'InternalError'}</Code><Message>a fault</Message></Error>`,
  }),
  html: ({ status }: StatusFault) => ({
    type: 'text/html',
    text: `<html>\r\n<head><title>${status} ${STATUS_CODES[status]}</title></head>\r\n<body>gateway</body>\r\n</html>\r\n`,
  }),
  empty: () => ({ type: undefined, text: '' }),
};

const ERROR_CODES: Readonly<Record<number, string>> = {
  400: 'INVALID_REQUEST',
  401: 'UNAUTHORIZED',
  403: 'SUBSCRIPTION_REQUIRED',
  422: 'QUERY_TOO_BROAD',
  429: 'RATE_LIMITED',
  504: 'QUERY_TIMEOUT',
};

function flipBits(body: Buffer, { count, seed }: { readonly count: number; readonly seed: number }): Buffer {
  const random = createRandom(seed);
  const flipped = Buffer.from(body);
  for (let i = 0; i < count; i += 1) {
    const at = Math.floor(random() * flipped.length);
    flipped[at] = (flipped[at] ?? 0) ^ (1 << Math.floor(random() * 8));
  }
  // Two flips of one bit would be none.
  if (flipped.equals(body)) flipped[0] = (flipped[0] ?? 0) ^ 1;
  return flipped;
}

function readPlain({ headers, body }: WholeAnswer): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
}

/** Changes the text of an answer and keeps its encoding, so that it is as well-formed as before. */
function rewrite(answer: WholeAnswer, change: (text: string) => string | undefined): WholeAnswer | undefined {
  const text = change(readPlain(answer).toString('utf8'));
  if (text === undefined) return undefined;
  const plain = Buffer.from(text);
  return { ...answer, body: answer.headers['content-encoding'] === 'gzip' ? gzipSync(plain) : plain };
}

function replaceCount(text: string, { list, value }: Extract<Fault, { kind: 'count' }>): string | undefined {
  const first = new RegExp(`("${list}":\\s*\\[\\s*\\[\\s*)(\\d+|"[^"]*")`);
  return first.test(text) ? text.replace(first, (_all, before) => `${before}${value}`) : undefined;
}

function dropRows(text: string, rows: number): string | undefined {
  const page = readPage(text);
  if (page === undefined || page.data.length === 0) return undefined;
  return JSON.stringify({ ...page, data: page.data.slice(0, -rows) });
}

function rewriteEnvelope(text: string, { meta, rows }: Extract<Fault, { kind: 'envelope' }>): string | undefined {
  const page = readPage(text);
  if (page === undefined) return undefined;
  const { meta: said, ...rest } = page;
  const data = rows === undefined ? page.data : page.data.slice(0, rows);
  const kept = said === undefined ? {} : { meta: said };
  const told = meta === undefined ? kept : meta === null ? {} : { meta: { ...said, ...meta } };
  return JSON.stringify({ ...rest, data, ...told });
}

/** `undefined` when it is not JSON, or has no rows to change. */
function readPage(text: string): { readonly data: readonly unknown[]; readonly meta?: object } | undefined {
  try {
    const page = JSON.parse(text) as { data?: unknown; meta?: object };
    return Array.isArray(page.data) ? { ...page, data: page.data } : undefined;
  } catch {
    return undefined;
  }
}
