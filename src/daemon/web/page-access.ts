/**
 * Access control. With a token: requests need it as a bearer token, or the cookie of a login. Without a token only
 * programs on this machine can connect. A web page open in a local browser must not read the status: its requests carry
 * the name of its own server, even if that name was made to resolve to this machine (DNS rebinding). So only host names
 * of this machine are answered. Comparisons take constant time. The cookie is derived from the token: it does not
 * reveal the token, survives a restart, and becomes invalid when the token changes.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { parseHostHeader } from '../../core/listen-address.ts';

const COOKIE = 'flowdrop_status';
/** A month; then the token is needed again. */
const LOGIN_SECONDS = 30 * 86_400;

export interface Access {
  /** Whether the `Host` of a request is allowed; always true with a token, which no other site's page can send. */
  isKnownHost(headers: IncomingHttpHeaders): boolean;
  /** Whether the request has the token, or none is needed. */
  isAllowed(headers: IncomingHttpHeaders, nowMs: number): boolean;
  /** What the caller showed, to bind a form to; and in words for the record of what was done. */
  identify(headers: IncomingHttpHeaders): {
    readonly session: string;
    readonly words: string;
    readonly isProgram: boolean;
  };
  /** Value of the `Set-Cookie` header for the right token; `undefined` for a wrong one. */
  login(token: string, headers: IncomingHttpHeaders, nowMs: number): string | undefined;
}

/** @param hosts host names that local programs use to reach this server, without ports */
export function createAccess(token: string | undefined, hosts: readonly string[]): Access {
  if (token === undefined) {
    const known = new Set(hosts.map((host) => host.toLowerCase()));
    return {
      isKnownHost: ({ host }) => known.has(parseHostHeader(host)),
      isAllowed: () => true,
      // No page of another site can leave out what a browser says of itself.
      identify: (headers) => ({
        session: '',
        words: 'this machine',
        isProgram: headers.origin === undefined && headers['sec-fetch-site'] === undefined,
      }),
      login: () => undefined,
    };
  }
  const sign = (expires: string) =>
    createHmac('sha256', token).update(`flowdrop status ${expires}`).digest('base64url');
  const isSession = (cookie: string, nowMs: number) => {
    const [, expires = '', signature = ''] = /^(\d{1,12})\.([\w-]{43})$/.exec(cookie) ?? [];
    return isSame(signature, sign(expires)) && Number(expires) * 1000 > nowMs;
  };
  return {
    isKnownHost: () => true,
    isAllowed({ authorization = '', cookie = '' }, nowMs) {
      const shown = /^bearer +(\S+)$/i.exec(authorization)?.[1];
      return (shown !== undefined && isSame(shown, token)) || isSession(readCookie(cookie), nowMs);
    },
    identify({ authorization, cookie = '' }) {
      return authorization === undefined
        ? { session: readCookie(cookie), words: 'a login', isProgram: false }
        : { session: '', words: 'the token', isProgram: true };
    },
    login(shown, headers, nowMs) {
      if (!isSame(shown, token)) return undefined;
      const expires = String(Math.floor(nowMs / 1000) + LOGIN_SECONDS);
      // Behind a TLS proxy, browsers must send the cookie over TLS only.
      const secure = headers['x-forwarded-proto'] === 'https' ? '; Secure' : '';
      return `${COOKIE}=${expires}.${sign(expires)}; Path=/; Max-Age=${LOGIN_SECONDS}; HttpOnly; SameSite=Strict${secure}`;
    },
  };
}

function readCookie(header: string): string {
  const prefix = `${COOKIE}=`;
  const pair = header.split(';').find((part) => part.trim().startsWith(prefix));
  return pair?.trim().slice(prefix.length) ?? '';
}

/** Compares digests, because `timingSafeEqual` needs equal lengths. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
