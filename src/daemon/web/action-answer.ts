/**
 * Answers what is posted: forms of a page with their token, documents of a program with its access. Invariant: a form
 * without the token of its login, or from a page of another site, does nothing.
 */

import { createHmac, randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import type { HeardRequest } from '../../core/http-listener.ts';
import { tryParseJson } from '../../core/json-file.ts';
import { parseHostHeader } from '../../core/listen-address.ts';
import { formatCount } from '../../core/units.ts';
import { renderConfirm, TOKEN_SLOT } from './action-form.ts';
import { Actions } from './actions.ts';
import { answerJson, answerNotice, answerPage, type PageAnswer } from './answer.ts';
import { refuse } from './api-answer.ts';
import { type ActionAnswer, type ActionFields, actionFieldsSchema, actionRequestSchema } from './api-shape.ts';
import { html } from './html.ts';
import { type Access, isSame } from './page-access.ts';
import { renderNotice } from './page-frame.ts';
import { type ActionName, dropPath, jobPath } from './page-path.ts';
import type { WebOptions } from './web-options.ts';

/** The largest form has a reason of 500 characters. */
const MAX_BODY_BYTES = 16 * 1024;

export class ActionDesk {
  readonly #access: Access;
  readonly #mayAct: boolean;
  readonly #tokens = new FormTokens();
  readonly #actions: Actions;

  constructor(options: WebOptions, access: Access) {
    this.#access = access;
    this.#mayAct = options.mayAct;
    this.#actions = new Actions(options);
  }

  /** Gives a drawn page the token of this answer. */
  fill(body: string, headers: HeardRequest['headers'], nowMs: number): string {
    if (!body.includes(TOKEN_SLOT)) return body;
    return body.replaceAll(TOKEN_SLOT, this.#tokens.issue(this.#access.identify(headers).session, nowMs));
  }

  /** A form. @param query fields of a button */
  async answerForm(
    action: ActionName,
    query: URLSearchParams,
    request: HeardRequest,
    nowMs: number,
  ): Promise<PageAnswer> {
    const { headers } = request;
    if (!this.#mayAct) return notice(403, 'Actions are off', 'FLOWDROP_STATUS_ACTIONS is off: this page is read-only.');
    if (isForeign(headers)) return notice(403, 'Not from this page', 'The form came from a page of another site.');
    if (!/^application\/x-www-form-urlencoded\b/.test(headers['content-type'] ?? '')) {
      return notice(415, 'Not a form', 'A form is application/x-www-form-urlencoded; a program posts to /api/actions.');
    }
    const body = await readBody(request);
    if (body === undefined) return notice(413, 'Too large', 'The form is larger than 16 KiB.', CLOSE);
    const form = new URLSearchParams(body);
    const { session } = this.#access.identify(headers);
    const token = this.#tokens.take(form.get('token') ?? '', session, nowMs);
    if (token === 'used') return nothing(409, 'This form was sent already. See what it did before you send another.');
    if (token === 'wrong') {
      const why =
        'The page is too old, or from before the daemon was restarted. Open it again, and repeat what you did.';
      return nothing(403, why);
    }
    const fields = actionFieldsSchema.safeParse(Object.fromEntries([...query, ...form]));
    if (!fields.success) return nothing(400, describeIssue(fields.error));
    const outcome = await this.#actions.do(action, fields.data, this.#nameCaller(request));
    const page = renderOutcome(action, fields.data, outcome);
    return answerPage(statusOf(outcome), this.fill(page, headers, nowMs));
  }

  /** A program's document: `{"action": "run", "job": "nightly"}`. */
  async answerDocument(request: HeardRequest): Promise<PageAnswer> {
    if (!this.#mayAct) return refuse(403, 'ACTIONS_OFF', 'FLOWDROP_STATUS_ACTIONS is off');
    if (!this.#access.identify(request.headers).isProgram) {
      return refuse(403, 'NOT_A_PROGRAM', 'send the token as a bearer token; pages use their forms');
    }
    if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) {
      return refuse(415, 'NOT_JSON', 'the body is application/json');
    }
    const body = await readBody(request);
    if (body === undefined) return { ...refuse(413, 'TOO_LARGE', 'the body has more than 16 KiB'), headers: CLOSE };
    const document = actionRequestSchema.safeParse(tryParseJson(body));
    if (!document.success) return refuse(400, 'BODY_INVALID', describeIssue(document.error));
    const { action, ...fields } = document.data;
    const outcome = await this.#actions.do(action, fields, this.#nameCaller(request));
    const status = statusOf(outcome);
    return answerJson(status === 200 ? 202 : status, outcome);
  }

  #nameCaller({ headers, remote }: HeardRequest): string {
    return `${this.#access.identify(headers).words} at ${remote}`;
  }
}

const CLOSE = { connection: 'close' } as const;

function statusOf({ outcome }: ActionAnswer): number {
  return { done: 200, started: 200, refused: 409, failed: 502 }[outcome];
}

/** `undefined` when it is too large, or the caller is gone. */
async function readBody(request: HeardRequest): Promise<string | undefined> {
  return await request.readBody(MAX_BODY_BYTES).catch(() => undefined);
}

function describeIssue({ issues: [issue] }: z.ZodError): string {
  return `${issue?.path.join('.') || 'The body'}: ${issue?.message}.`;
}

function notice(status: number, title: string, text: string, headers = {}): PageAnswer {
  return answerNotice(status, title, text, headers, html`<p><a href="/">To the overview</a></p>`);
}

function nothing(status: number, text: string): PageAnswer {
  return notice(status, TITLES.refused, text);
}

const TITLES: Readonly<Record<ActionAnswer['outcome'], string>> = {
  done: 'Done',
  started: 'Started',
  refused: 'Nothing was done',
  failed: 'It failed',
};

function renderOutcome(action: ActionName, fields: ActionFields, { outcome, text, line, price }: ActionAnswer): string {
  const { job, date, from = '', to = '', mode = '' } = fields;
  const canStart = price !== undefined && price.total.dates > 0;
  const late = price?.dates.filter(({ expires_before_turn: isLate }) => isLate).map((each) => each.date) ?? [];
  const more = html`${late.length > 0 && html`<p>Too late for ${late.join(', ')}: they expire before their turn.</p>`}
${price && price.dates.length > 0 && html`<ul class="dates">${price.dates.map((each) => html`<li>${each.date}: ${each.rows === null ? 'rows unknown' : `${formatCount(each.rows)} rows`}, ${formatCount(each.requests)} requests</li>`)}</ul>`}
${canStart ? renderConfirm({ job: job ?? '', from, to, mode }, line ?? '') : line !== null && html`<p class="quiet small">The same: <code>flowdrop ${line}</code></p>`}
<p>${job !== undefined && html`<a href="${date === undefined ? jobPath(job) : dropPath(job, date)}">Back to ${job}${date !== undefined && `, ${date}`}</a> · `}<a href="/">Overview</a></p>`;
  const title = action === 'price' && outcome === 'done' ? 'The price' : TITLES[outcome];
  return renderNotice(title, [text], more);
}

/** A page may stay open over a day's work. */
const LIFETIME_MS = 12 * 3_600_000;
/** Used tokens to remember; whoever acts more often waits until they are old. */
const MAX_USED = 10_000;

class FormTokens {
  readonly #secret = randomBytes(32);
  /** Used nonces with the end of their tokens. */
  readonly #used = new Map<string, number>();

  /** @param session what the caller showed */
  issue(session: string, nowMs: number): string {
    const head = `${nowMs + LIFETIME_MS}.${randomBytes(12).toString('base64url')}`;
    return `${head}.${this.#sign(head, session)}`;
  }

  /** Uses it up, if it is right. */
  take(token: string, session: string, nowMs: number): 'right' | 'wrong' | 'used' {
    const [, head = '', expires = '', nonce = '', signature = ''] =
      /^((\d{1,15})\.([\w-]{16}))\.([\w-]{43})$/.exec(token) ?? [];
    const isSigned = head !== '' && isSame(signature, this.#sign(head, session));
    if (!isSigned || Number(expires) <= nowMs) return 'wrong';
    if (this.#used.has(nonce)) return 'used';
    for (const [old, endMs] of this.#used) if (endMs <= nowMs) this.#used.delete(old);
    if (this.#used.size >= MAX_USED) return 'wrong';
    this.#used.set(nonce, Number(expires));
    return 'right';
  }

  #sign(head: string, session: string): string {
    return createHmac('sha256', this.#secret).update(`${head} ${session}`).digest('base64url');
  }
}

/** Whether a browser says that the request comes from a page of another site. Without any word of it the token decides. */
function isForeign(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  // Browsers send it to trustworthy addresses only, and no page can change it.
  if (site !== undefined) return site !== 'same-origin';
  const { origin } = headers;
  if (origin === undefined) return false;
  return !URL.canParse(origin) || new URL(origin).hostname.replace(/^\[|\]$/g, '') !== parseHostHeader(headers.host);
}
