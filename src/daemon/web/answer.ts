/**
 * Builds answers and the headers that all of them have. Invariant: no answer is cached, framed by another site, or sent
 * as a referrer to another server. Only the style sheet and the script with known hashes apply; a report also has its
 * own styles. Only answers at the address of a report may be framed, by the status page as a preview.
 */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { ReadyAnswer } from '../../core/http-listener.ts';
import { REPORT_PREFIX, SORT_SCRIPT } from '../../core/report-page.ts';
import type { Markup } from './html.ts';
import { renderNotice } from './page-frame.ts';
import { PAGE_SCRIPT } from './page-script.ts';
import { STYLE } from './style.ts';

type Headers = Readonly<Record<string, string>>;

export type PageAnswer = ReadyAnswer<string | Readable>;

/** Why a request is not answered: a person gets a page with one sentence, a program an error document. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly headers: Headers | undefined;
  /** What to do next. */
  readonly more: Markup | undefined;

  constructor(
    status: number,
    [code, title, text]: readonly [code: string, title: string, text: string],
    { headers, more }: { readonly headers?: Headers; readonly more?: Markup } = {},
  ) {
    super(text);
    this.status = status;
    this.code = code;
    this.title = title;
    this.headers = headers;
    this.more = more;
  }
}

/** The status page and notices. The script fetches the page again, the form asks for the token. */
const PAGE_POLICY = [
  "default-src 'none'",
  `style-src '${hash(STYLE)}'`,
  `script-src '${hash(PAGE_SCRIPT)}'`,
  "connect-src 'self'",
  "frame-src 'self'",
  'img-src data:',
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Content that the status page may frame: it must not send anything, frame other content, or run another script. */
function frame(sandbox: string, ...sources: readonly string[]): Headers {
  const shown = [sandbox, "default-src 'none'", 'img-src data:', ...sources];
  const policy = [...shown, "form-action 'none'", "base-uri 'none'", "frame-ancestors 'self'"].join('; ');
  // For older browsers, `x-frame-options` repeats `frame-ancestors`.
  return { 'content-security-policy': policy, 'x-frame-options': 'SAMEORIGIN' };
}

const SECURITY_HEADERS: Headers = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

export function answer(status: number, type: string, body: string | Readable, headers: Headers = {}): PageAnswer {
  return { status, body, headers: { ...SECURITY_HEADERS, ...headers, 'content-type': type } };
}

export function answerPage(status: number, body: string, headers: Headers = {}): PageAnswer {
  return answer(status, 'text/html; charset=utf-8', body, { 'content-security-policy': PAGE_POLICY, ...headers });
}

/** An archived report: a page with its own styles, the script that sorts its tables, and no other rights. */
export function answerReport(body: string): PageAnswer {
  const script = `script-src '${hash(SORT_SCRIPT)}'`;
  return answerPage(200, body, frame('sandbox allow-scripts', "style-src 'unsafe-inline'", script));
}

export function answerJson(status: number, value: unknown, headers?: Headers): PageAnswer {
  return answer(status, 'application/json; charset=utf-8', `${JSON.stringify(value)}\n`, headers);
}

/** A file to save, never to show. */
export function answerFile(type: string, name: string, body: Readable, headers: Headers = {}): PageAnswer {
  const disposition = `attachment; filename="${name.replace(/[^\w.-]/g, '_')}"`;
  return answer(200, type, body, { 'content-disposition': disposition, ...headers });
}

export function answerRefusal({ status, code, title, message, headers, more }: Refusal, path: string): PageAnswer {
  if (path.startsWith('/api/')) return answerJson(status, { error: { code, message } }, headers);
  // A preview shows it too; what asks for something, as the form of the token does, must not be framed.
  const isFramed = path.startsWith(REPORT_PREFIX) && more === undefined;
  const framing = isFramed ? frame('sandbox', `style-src '${hash(STYLE)}'`) : {};
  return answerPage(status, renderNotice(title, message, more), { ...framing, ...headers });
}

function hash(text: Markup | string): string {
  return `sha256-${createHash('sha256').update(text.toString()).digest('base64')}`;
}
