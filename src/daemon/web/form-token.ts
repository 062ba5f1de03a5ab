/**
 * Tokens of forms: only a page of this daemon has one, for one login, once. Invariant: a token that was used, is old, or
 * is of another login or an earlier start is worth nothing. Another site can make a browser send a form, but not read a
 * page, so it has no token.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { parseHostHeader } from '../../core/listen-address.ts';

/** A page may stay open over a day's work. */
const LIFETIME_MS = 12 * 3_600_000;
/** Used tokens to remember; whoever acts more often waits until they are old. */
const MAX_USED = 10_000;

export class FormTokens {
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
export function isForeign(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  // Browsers send it to trustworthy addresses only, and no page can change it.
  if (site !== undefined) return site !== 'same-origin';
  const { origin } = headers;
  if (origin === undefined) return false;
  return !URL.canParse(origin) || new URL(origin).hostname.replace(/^\[|\]$/g, '') !== parseHostHeader(headers.host);
}

/** Both are digests of one length. */
function isSame(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}
