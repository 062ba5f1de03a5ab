/**
 * Who may look. With a token: whoever shows it, as a bearer or by the cookie of a login. Without one only programs of
 * this machine can connect, and a web page that they have open must not read the status through them: its requests carry
 * the name of its own server, also when that name was made to mean this machine (DNS rebinding), so only names of this
 * machine are answered. Comparisons take the same time whatever is shown. The cookie is derived from the token: it does
 * not tell it, lives through a restart, and is worth nothing once the token is another.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

const COOKIE = 'flowdrop_status';
/** A month: after it the token is asked for again. */
const LOGIN_SECONDS = 30 * 86_400;

export interface Access {
  /** Whether the `Host` of a request may be answered; always with a token, which no other site's page can show. */
  isKnownHost(headers: IncomingHttpHeaders): boolean;
  /** Whether the request shows the token, or none is needed. */
  isAllowed(headers: IncomingHttpHeaders, nowMs: number): boolean;
  /** Value of the `Set-Cookie` header for a right token; `undefined` for a wrong one. */
  login(token: string, headers: IncomingHttpHeaders, nowMs: number): string | undefined;
}

/** @param hosts names by which programs of this machine reach it, without ports */
export function createAccess(token: string | undefined, hosts: readonly string[]): Access {
  if (token === undefined) {
    const known = new Set(hosts.map((host) => host.toLowerCase()));
    return {
      isKnownHost: ({ host }) => known.has(nameOf(host ?? '')),
      isAllowed: () => true,
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
    login(shown, headers, nowMs) {
      if (!isSame(shown, token)) return undefined;
      const expires = String(Math.floor(nowMs / 1000) + LOGIN_SECONDS);
      // Behind a proxy with TLS the cookie stays on it.
      const secure = headers['x-forwarded-proto'] === 'https' ? '; Secure' : '';
      return `${COOKIE}=${expires}.${sign(expires)}; Path=/; Max-Age=${LOGIN_SECONDS}; HttpOnly; SameSite=Strict${secure}`;
    },
  };
}

/** The host of a `Host` header, without port and brackets. */
function nameOf(host: string): string {
  return (/^\[([^\]]*)\](?::\d+)?$/.exec(host)?.[1] ?? /^([^:]*)(?::\d+)?$/.exec(host)?.[1] ?? '').toLowerCase();
}

function readCookie(header: string): string {
  const prefix = `${COOKIE}=`;
  const pair = header.split(';').find((part) => part.trim().startsWith(prefix));
  return pair?.trim().slice(prefix.length) ?? '';
}

/** Of digests, which have one length. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
