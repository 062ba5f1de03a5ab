/**
 * Builds answers and the headers that all of them have. Invariant: no answer is cached, framed by another site, or sent
 * as a referrer to another server. Only the style sheet and the script with known hashes apply; a report also has its
 * own styles. Only answers at the address of a report may be framed, by the status page as a preview.
 */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { SORT_SCRIPT } from '../../core/report-page.ts';
import type { Markup } from './html.ts';
import { renderNotice } from './page-frame.ts';
import { PAGE_SCRIPT } from './page-script.ts';
import { STYLE } from './style.ts';

export interface PageAnswer {
  readonly status: number;
  readonly type: string;
  readonly body: string | Readable;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const HTML = 'text/html; charset=utf-8';

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
const framedPolicy = (sandbox: string, ...sources: readonly string[]) =>
  [
    ...[sandbox, "default-src 'none'", 'img-src data:', ...sources],
    ...["form-action 'none'", "base-uri 'none'", "frame-ancestors 'self'"],
  ].join('; ');

/** An archived report: a page with its own styles, the script that sorts its tables, and no other rights. */
const REPORT_POLICY = framedPolicy(
  'sandbox allow-scripts',
  "style-src 'unsafe-inline'",
  `script-src '${hash(SORT_SCRIPT)}'`,
);
/** The notice shown instead of a report. */
const REPORT_NOTICE_POLICY = framedPolicy('sandbox', `style-src '${hash(STYLE)}'`);

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

type Headers = Readonly<Record<string, string>>;

export function answerPage(status: number, body: string, headers: Headers = {}): PageAnswer {
  return { status, type: HTML, body, headers: { 'content-security-policy': PAGE_POLICY, ...headers } };
}

/** A page with one sentence, such as a refusal. @param more what to do next */
export function answerNotice(status: number, title: string, text: string, headers: Headers = {}, more?: Markup) {
  return answerPage(status, renderNotice(title, [text], more), headers);
}

export function answerReport(body: string): PageAnswer {
  return { status: 200, type: HTML, body, headers: frame(REPORT_POLICY) };
}

/** A notice at the address of a report; a preview shows it too. */
export function answerReportNotice(status: number, title: string, text: string, headers: Headers = {}): PageAnswer {
  return answerNotice(status, title, text, { ...frame(REPORT_NOTICE_POLICY), ...headers });
}

export function answerJson(status: number, value: unknown, headers: Headers = {}): PageAnswer {
  return { status, type: 'application/json; charset=utf-8', body: `${JSON.stringify(value)}\n`, headers };
}

/** A file to save, never to show. */
export function answerFile(type: string, name: string, body: Readable, headers: Headers = {}): PageAnswer {
  const disposition = `attachment; filename="${name.replace(/[^\w.-]/g, '_')}"`;
  return { status: 200, type, body, headers: { 'content-disposition': disposition, ...headers } };
}

/** All headers of an answer, except its length. */
export function headersOf({ type, headers }: PageAnswer): Readonly<Record<string, string>> {
  return { ...SECURITY_HEADERS, ...headers, 'content-type': type };
}

/** For older browsers, `x-frame-options` repeats `frame-ancestors`. */
function frame(policy: string): Readonly<Record<string, string>> {
  return { 'content-security-policy': policy, 'x-frame-options': 'SAMEORIGIN' };
}

function hash(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
