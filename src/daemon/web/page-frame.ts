/**
 * What every page has: head, style, script, the way to the other pages; and short notices. Pure.
 *
 * Builds answers and the headers that all of them have. Invariant: no answer is cached, framed by another site, or sent
 * as a referrer to another server. Only the style sheet and the script with known hashes apply; a report also has its
 * own styles. Only answers at the address of a report may be framed, by the status page as a preview.
 */

import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { EXCHANGE_TIME_ZONE } from '../../api-contract/published-limits.ts';
import type { CalendarOverride } from '../../calendar/session.ts';
import { formatInstant } from '../../core/date-text.ts';
import type { ReadyAnswer } from '../../core/http-listener.ts';
import { REPORT_PREFIX, SORT_SCRIPT } from '../../core/report-page.ts';
import { html, type Markup, renderTime } from './html.ts';
import { PAGE_SCRIPT } from './page-script.ts';
import { STYLE } from './style.ts';

/** For browsers without scripts. */
const RELOAD_SECONDS = 30;

/** What all pages are drawn with. */
export interface PageContext {
  readonly nowMs: number;
  readonly calendar: CalendarOverride;
  /** Names of all jobs, to choose from. */
  readonly jobs: readonly string[];
  /** Whether the page has buttons that act. */
  readonly canAct: boolean;
}

interface PageParts {
  readonly title: string;
  /** The page's own address, to mark the way that leads to it. */
  readonly path: string;
  readonly nowMs: number;
  /** Beside the name of the program. */
  readonly head?: Markup | undefined;
  readonly main: Markup;
  /** Symbols and the like, outside of what is read. */
  readonly extras?: Markup | undefined;
  /** Time between two fetches of a page that follows the daemon; absent for a page that does not. */
  readonly everyMs?: number | undefined;
}

const WAYS = [
  ['/', 'Overview'],
  ['/runs', 'Runs'],
  ['/reports', 'Reports'],
  ['/actions', 'Actions'],
] as const;

export function renderFrame({ title, path, nowMs, head, main, extras, everyMs }: PageParts): string {
  const ways = WAYS.map(
    ([to, name]) => html`<li><a href="${to}"${to === path && html` aria-current="page"`}>${name}</a></li>`,
  );
  const body = html`<a class="skip" href="#main">Skip to the content</a><div class="page">
<header class="top"><p class="brand"><a href="/">flowdrop</a></p><nav aria-label="Pages"><ul>${ways}</ul></nav>${head}</header>
<main id="main" tabindex="-1">${main}</main>
<p class="silent" id="silent" role="alert" hidden>The daemon does not answer: what is shown here may be old.</p>
<footer class="quiet small" data-live="foot">As of ${renderTime(nowMs, formatInstant(nowMs, EXCHANGE_TIME_ZONE, nowMs))}. For programs: <a href="/api/openapi.json">/api</a>, <a href="/healthz">/healthz</a>, <a href="/metrics">/metrics</a>.</footer>
</div>${extras}<script>${PAGE_SCRIPT}</script>`;
  const reload =
    everyMs !== undefined && html`<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>`;
  return renderDocument(title, body, reload, everyMs);
}

/** A page with one sentence, such as a refusal or a missing page. @param more what to do next */
export function renderNotice(title: string, text: Markup | string, more?: Markup): string {
  const next = more ?? html`<p><a href="/">To the overview</a></p>`;
  const body = html`<div class="page alone"><main><div class="job"><h1>${title}</h1><p>${text}</p>${next}</div></main></div>`;
  return renderDocument(`flowdrop: ${title}`, body);
}

/** Asks for the token once. */
export const TOKEN_FORM: Markup = html`<form method="get" action="/"><label for="token">Token</label><input id="token" name="token" type="password" autocomplete="current-password" required><button>Open</button></form>`;

function renderDocument(title: string, body: Markup, head?: Markup | false, everyMs?: number): string {
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="${ICON}">${head}
<style>${STYLE}</style></head>
<body${everyMs !== undefined && html` data-every="${everyMs}"`}>${body}</body></html>
`;
  return page.toString();
}

const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#1d5fae"/><path d="M4 11V8M8 11V4M12 11V6" stroke="#fff" stroke-width="2" stroke-linecap="round"/></svg>',
)}`;

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
  // With none at all, browsers send forms from a page without TLS with the origin `null`, as a stranger's page does.
  'referrer-policy': 'same-origin',
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
