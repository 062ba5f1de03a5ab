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

export class Access {
  readonly #token: string | undefined;
  readonly #hosts: ReadonlySet<string>;

  /** @param hosts host names that local programs use to reach this server, without ports */
  constructor(token: string | undefined, hosts: readonly string[]) {
    this.#token = token;
    this.#hosts = new Set(hosts.map((host) => host.toLowerCase()));
  }

  /** Whether the `Host` of a request is allowed; always true with a token, which no other site's page can send. */
  isKnownHost({ host }: IncomingHttpHeaders): boolean {
    return this.#token !== undefined || this.#hosts.has(parseHostHeader(host));
  }

  /** Whether the request has the token, or none is needed. */
  isAllowed({ authorization = '', cookie = '' }: IncomingHttpHeaders, nowMs: number): boolean {
    if (this.#token === undefined) return true;
    const shown = /^bearer +(\S+)$/i.exec(authorization)?.[1];
    if (shown !== undefined && isSame(shown, this.#token)) return true;
    const [, expires = '', signature = ''] = /^(\d{1,12})\.([\w-]{43})$/.exec(readCookie(cookie)) ?? [];
    return isSame(signature, sign(this.#token, expires)) && Number(expires) * 1000 > nowMs;
  }

  /** What the caller showed, to bind a form to; and in words for the record of what was done. */
  identify({ authorization, cookie = '', ...headers }: IncomingHttpHeaders): {
    readonly session: string;
    readonly words: string;
    readonly isProgram: boolean;
  } {
    if (this.#token === undefined) {
      // A browser sends one of these headers by itself, and no page of another site can remove it.
      const isProgram = headers.origin === undefined && headers['sec-fetch-site'] === undefined;
      return { session: '', words: 'this machine', isProgram };
    }
    return authorization === undefined
      ? { session: readCookie(cookie), words: 'a login', isProgram: false }
      : { session: '', words: 'the token', isProgram: true };
  }

  /** Value of the `Set-Cookie` header for the right token; `undefined` for a wrong one. */
  login(shown: string, headers: IncomingHttpHeaders, nowMs: number): string | undefined {
    if (this.#token === undefined || !isSame(shown, this.#token)) return undefined;
    const expires = String(Math.floor(nowMs / 1000) + LOGIN_SECONDS);
    // Behind a TLS proxy, browsers must send the cookie over TLS only.
    const secure = headers['x-forwarded-proto'] === 'https' ? '; Secure' : '';
    return `${COOKIE}=${expires}.${sign(this.#token, expires)}; Path=/; Max-Age=${LOGIN_SECONDS}; HttpOnly; SameSite=Strict${secure}`;
  }
}

function sign(token: string, expires: string): string {
  return createHmac('sha256', token).update(`flowdrop status ${expires}`).digest('base64url');
}

function readCookie(header: string): string {
  const prefix = `${COOKIE}=`;
  const pair = header.split(';').find((part) => part.trim().startsWith(prefix));
  return pair?.trim().slice(prefix.length) ?? '';
}

/** In constant time. Compares digests, because `timingSafeEqual` needs equal lengths. */
export function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
