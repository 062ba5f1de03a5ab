/**
 * Access control. With a token: requests need it as a bearer token, or the cookie of a login. Without a token only
 * programs on this machine can connect. A web page open in a local browser must not read the status: its requests carry
 * the name of its own server, even if that name was made to resolve to this machine (DNS rebinding). So only host names
 * of this machine are answered. Comparisons take constant time. The cookie is derived from the token: it does not
 * reveal the token, survives a restart, and becomes invalid when the token changes. It also comes with a click on a link in a
 * mail, or in a report, whose page has no origin: links only read. A form that acts carries a token of its own, which is good
 * for one login and once; a form from a page of another site is never taken.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { parseHostHeader } from '../../core/listen-address.ts';

const COOKIE = 'flowdrop_status';
/** A month; then the token is needed again. */
const LOGIN_SECONDS = 30 * 86_400;
/** A page may stay open over a day's work. */
const FORM_LIFETIME_MS = 12 * 3_600_000;
/** Used form tokens to remember; whoever acts more often waits until they are old. */
const MAX_USED = 10_000;

export type Access = ReturnType<typeof createAccess>;

/** @param names host names that local programs use to reach this server, without ports */
export function createAccess(token: string | undefined, names: readonly string[]) {
  const hosts: ReadonlySet<string> = new Set(names.map((host) => host.toLowerCase()));
  /** Of form tokens: a restart makes them invalid. */
  const secret = randomBytes(32);
  /** Used nonces of forms, with the end of their tokens. */
  const used = new Map<string, number>();
  return { isKnownHost, isAllowed, nameCaller, isProgram, login, issueForm, takeForm };

  /** Whether the `Host` of a request is allowed; always true with a token, which no other site's page can send. */
  function isKnownHost({ host }: IncomingHttpHeaders): boolean {
    return token !== undefined || hosts.has(parseHostHeader(host));
  }

  /** Whether the request has the token, or none is needed. */
  function isAllowed({ authorization = '', cookie = '' }: IncomingHttpHeaders, nowMs: number): boolean {
    if (token === undefined) return true;
    const shown = /^bearer +(\S+)$/i.exec(authorization)?.[1];
    if (shown !== undefined && isSame(shown, token)) return true;
    const [, expires = '', signature = ''] = /^(\d{1,12})\.([\w-]{43})$/.exec(readCookie(cookie)) ?? [];
    return isSame(signature, signLogin(token, expires)) && Number(expires) * 1000 > nowMs;
  }

  /** In words, for the record of what was done. */
  function nameCaller({ authorization }: IncomingHttpHeaders): string {
    if (token === undefined) return 'this machine';
    return authorization === undefined ? 'a login' : 'the token';
  }

  /** Whether no page of another site can have caused the request. */
  function isProgram(headers: IncomingHttpHeaders): boolean {
    if (token !== undefined) return headers.authorization !== undefined;
    // A browser sends one of these headers by itself, and no page of another site can remove it.
    return headers.origin === undefined && headers['sec-fetch-site'] === undefined;
  }

  /** Value of the `Set-Cookie` header for the right token; `undefined` for a wrong one. */
  function login(shown: string, headers: IncomingHttpHeaders, nowMs: number): string | undefined {
    if (token === undefined || !isSame(shown, token)) return undefined;
    const expires = String(Math.floor(nowMs / 1000) + LOGIN_SECONDS);
    // Behind a TLS proxy, browsers must send the cookie over TLS only.
    const secure = headers['x-forwarded-proto'] === 'https' ? '; Secure' : '';
    return `${COOKIE}=${expires}.${signLogin(token, expires)}; Path=/; Max-Age=${LOGIN_SECONDS}; HttpOnly; SameSite=Lax${secure}`;
  }

  /** A token for the forms of one page, bound to what the caller showed. */
  function issueForm(headers: IncomingHttpHeaders, nowMs: number): string {
    const head = `${nowMs + FORM_LIFETIME_MS}.${randomBytes(12).toString('base64url')}`;
    return `${head}.${signForm(head, headers)}`;
  }

  /** Uses the token of a form up, if it is right. */
  function takeForm(shown: string, headers: IncomingHttpHeaders, nowMs: number): 'right' | 'wrong' | 'used' {
    const [, head = '', expires = '', nonce = '', signature = ''] =
      /^((\d{1,15})\.([\w-]{16}))\.([\w-]{43})$/.exec(shown) ?? [];
    const isSigned = head !== '' && isSame(signature, signForm(head, headers));
    if (!isSigned || Number(expires) <= nowMs) return 'wrong';
    if (used.has(nonce)) return 'used';
    for (const [old, endMs] of used) if (endMs <= nowMs) used.delete(old);
    if (used.size >= MAX_USED) return 'wrong';
    used.set(nonce, Number(expires));
    return 'right';
  }

  function signForm(head: string, { authorization, cookie = '' }: IncomingHttpHeaders): string {
    const session = token === undefined || authorization !== undefined ? '' : readCookie(cookie);
    return createHmac('sha256', secret).update(`${head} ${session}`).digest('base64url');
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

function signLogin(token: string, expires: string): string {
  return createHmac('sha256', token).update(`flowdrop status ${expires}`).digest('base64url');
}

function readCookie(header: string): string {
  const prefix = `${COOKIE}=`;
  const pair = header.split(';').find((part) => part.trim().startsWith(prefix));
  return pair?.trim().slice(prefix.length) ?? '';
}

/** In constant time. Compares digests, because `timingSafeEqual` needs equal lengths. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
