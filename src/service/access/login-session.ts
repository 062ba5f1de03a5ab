/**
 * Sessions: a signed cookie replaces the key, so that a browser or a script need not store the key. The cookie holds
 * the caller's id and its expiry, signed with HMAC-SHA-256; the service stores nothing. Invariant: a session has the
 * present rights of its key. It is invalid once the key is removed, it expires, or the service restarts (the secret is
 * random per start). Logging out clears the cookie; a copy of it stays valid until it expires.
 */
import { randomBytes } from 'node:crypto';
import { fastifyCookie, Signer } from '@fastify/cookie';
import { loginRequestSchema } from '../../api-contract/login.ts';
import type { Clock } from '../../core/clock.ts';
import { type ApiFailure, invalidRequest } from '../http/api-failure.ts';
import type { Endpoint, EndpointAnswer } from '../http/endpoint.ts';
import { LOGIN, LOGOUT } from '../openapi/openapi-service.ts';
import type { Gate } from './gate.ts';
import type { Caller, KeyRing } from './keys.ts';

export const SESSION_COOKIE = 'flowdrop_session';
/** One working day. */
export const SESSION_SECONDS = 8 * 60 * 60;

const SECRET_BYTES = 32;

interface SessionOptions {
  /** Whether callers use TLS only: browsers then never send the cookie over an unencrypted connection. */
  readonly secure: boolean;
}

export class Sessions {
  readonly #clock: Clock;
  readonly #keys: KeyRing;
  readonly #signer: Signer;
  readonly #attributes: { httpOnly: true; sameSite: 'strict'; path: '/'; secure: boolean };

  constructor(clock: Clock, keys: KeyRing, options: SessionOptions) {
    this.#clock = clock;
    this.#keys = keys;
    this.#signer = new Signer(randomBytes(SECRET_BYTES));
    this.#attributes = { httpOnly: true, sameSite: 'strict', path: '/', secure: options.secure };
  }

  /** The Set-Cookie header value that opens a session. */
  create(caller: Caller): string {
    const value = this.#signer.sign(`${caller.id}.${this.expiresAtMs()}`);
    return fastifyCookie.serialize(SESSION_COOKIE, value, { ...this.#attributes, maxAge: SESSION_SECONDS });
  }

  /** The Set-Cookie header value that removes the cookie. */
  clear(): string {
    return fastifyCookie.serialize(SESSION_COOKIE, '', { ...this.#attributes, maxAge: 0 });
  }

  /** Expiry of a session opened now, milliseconds since the Unix epoch. */
  expiresAtMs(): number {
    return this.#clock.now() + SESSION_SECONDS * 1000;
  }

  /** The caller id of a Cookie header; `undefined` if the cookie is not ours or expired, or its key was removed. */
  read(cookieHeader: string | undefined): string | undefined {
    const cookie = cookieHeader === undefined ? undefined : fastifyCookie.parse(cookieHeader)[SESSION_COOKIE];
    if (cookie === undefined) return undefined;
    const { valid, value } = this.#signer.unsign(cookie);
    if (!valid) return undefined;
    const [id = '', expiresAtMs] = value.split('.');
    return this.#clock.now() < Number(expiresAtMs) ? this.#keys.find(id)?.id : undefined;
  }
}

interface LoginDependencies {
  readonly gate: Gate;
  readonly sessions: Sessions;
  /** Error format of the address that serves the endpoints. */
  readonly fail: (failure: ApiFailure) => EndpointAnswer;
}

/** All members are optional, so that a missing key is answered with 401 and not with 400. */
const loginSchema = loginRequestSchema.partial();

/** POST opens a session with a key, DELETE ends it. */
export function createLogin({ gate, sessions, fail }: LoginDependencies): readonly Endpoint[] {
  return [
    {
      name: 'login',
      operation: LOGIN,
      answer: async ({ body, address }) => {
        const parsed = loginSchema.safeParse(body ?? {});
        if (!parsed.success) throw invalidRequest('The request body is not valid: api_key must be text.');
        const caller = await gate.enterLogin(parsed.data.api_key, address);
        const expiresAt = new Date(sessions.expiresAtMs()).toISOString();
        return writeAnswer(sessions.create(caller), { status: 'SUCCESS', expires_at: expiresAt });
      },
      fail,
    },
    {
      name: 'logout',
      operation: LOGOUT,
      answer: async () => writeAnswer(sessions.clear(), { status: 'SUCCESS' }),
      fail,
    },
  ];
}

function writeAnswer(cookie: string, body: object): EndpointAnswer {
  return {
    status: 200,
    headers: { 'set-cookie': cookie, 'cache-control': 'no-store' },
    body: Buffer.from(JSON.stringify(body)),
  };
}
