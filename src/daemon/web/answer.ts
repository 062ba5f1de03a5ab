/**
 * What is answered, and the headers that every answer has. Invariant: nothing of an answer is kept by a cache, framed by
 * another site's page or named to another server, and only what stands in the page by its hash may style or run. Only
 * what stands at the address of a report may be framed at all: by the status page, as a preview.
 */
import { createHash } from 'node:crypto';
import { LIVE_SCRIPT } from './live-script.ts';
import { STYLE } from './style.ts';

export interface PageAnswer {
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
  "frame-src 'self'",
  'img-src data:',
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** What the status page may frame: it may neither run nor send anything, nor frame something itself. */
const framedPolicy = (style: string) =>
  [
    'sandbox',
    "default-src 'none'",
    'img-src data:',
    `style-src '${style}'`,
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'self'",
  ].join('; ');

/** An archived report: a mail with styles of its own, which may do nothing here. */
const REPORT_POLICY = framedPolicy('unsafe-inline');
/** What stands in its place when it cannot be shown. */
const REPORT_NOTICE_POLICY = framedPolicy(hash(STYLE));

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

export function answerPage(status: number, body: string, headers: Readonly<Record<string, string>> = {}): PageAnswer {
  return { status, type: HTML, body, headers: { 'content-security-policy': PAGE_POLICY, ...headers } };
}

export function answerReport(body: string): PageAnswer {
  return { status: 200, type: HTML, body, headers: frame(REPORT_POLICY) };
}

/** Says in the place of a report why it is not shown; a preview shows it too. */
export function answerReportNotice(
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): PageAnswer {
  return { status, type: HTML, body, headers: { ...frame(REPORT_NOTICE_POLICY), ...headers } };
}

export function answerText(status: number, type: string, body: string): PageAnswer {
  return { status, type, body };
}

/** All headers of an answer, its length among them. */
export function headersOf({ type, body, headers }: PageAnswer): Readonly<Record<string, string | number>> {
  return { ...SECURITY_HEADERS, ...headers, 'content-type': type, 'content-length': Buffer.byteLength(body) };
}

/** The older header says the same as `frame-ancestors` to older browsers. */
function frame(policy: string): Readonly<Record<string, string>> {
  return { 'content-security-policy': policy, 'x-frame-options': 'SAMEORIGIN' };
}

function hash(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
