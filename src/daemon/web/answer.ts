/**
 * What is answered, and the headers that every answer has. Invariant: nothing of an answer is kept by a cache, framed by
 * another page or named to another server, and only what stands in the page by its hash may style or run.
 */
import { createHash } from 'node:crypto';
import { LIVE_SCRIPT } from './live-script.ts';
import { STYLE } from './style.ts';

export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const HTML = 'text/html; charset=utf-8';

/** The status page and the notices. The script reads the page again, the form asks for the token. */
const PAGE_POLICY = [
  "default-src 'none'",
  `style-src '${hash(STYLE)}'`,
  `script-src '${hash(LIVE_SCRIPT)}'`,
  "connect-src 'self'",
  'img-src data:',
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** An archived report: a mail with styles of its own, which may do nothing here. */
const REPORT_POLICY = [
  'sandbox',
  "default-src 'none'",
  'img-src data:',
  "style-src 'unsafe-inline'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

export function answerPage(status: number, body: string, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, type: HTML, body, headers: { 'content-security-policy': PAGE_POLICY, ...headers } };
}

export function answerReport(body: string): Answer {
  return { status: 200, type: HTML, body, headers: { 'content-security-policy': REPORT_POLICY } };
}

export function answerText(status: number, type: string, body: string): Answer {
  return { status, type, body };
}

/** All headers of an answer, its length among them. */
export function headersOf({ type, body, headers }: Answer): Readonly<Record<string, string | number>> {
  return { ...SECURITY_HEADERS, ...headers, 'content-type': type, 'content-length': Buffer.byteLength(body) };
}

function hash(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
