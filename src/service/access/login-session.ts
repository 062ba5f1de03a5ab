/**
 * Sessions: a signed cookie that stands for a key, so that a browser or a script need not keep the key. The cookie holds
 * the caller's id and when it ends, signed with HMAC-SHA-256; the service keeps nothing. Invariant: a session is worth
 * what its key is worth now, and nothing once the key is gone, its time is up, or the service was started anew (the
 * secret is random per start). Logging out clears the cookie; a copy of it lives until its time is up.
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
/** A working day. */
export const SESSION_SECONDS = 8 * 60 * 60;

const SECRET_BYTES = 32;

interface SessionOptions {
  /** Signs the cookies: 32 random bytes. Default: new ones, so that a restart ends every session. */
  readonly secret?: Buffer;
  readonly lifetimeSeconds: number;
  /** Whether callers reach the service over TLS only: browsers then never send the cookie without it. */
  readonly secure: boolean;
}

export class Sessions {
  readonly #clock: Clock;
  readonly #keys: KeyRing;
  readonly #signer: Signer;
  readonly #lifetimeSeconds: number;
  readonly #attributes: { httpOnly: true; sameSite: 'strict'; path: '/'; secure: boolean };

  constructor(clock: Clock, keys: KeyRing, options: SessionOptions) {
    this.#clock = clock;
    this.#keys = keys;
    this.#signer = new Signer(options.secret ?? randomBytes(SECRET_BYTES));
    this.#lifetimeSeconds = options.lifetimeSeconds;
    this.#attributes = { httpOnly: true, sameSite: 'strict', path: '/', secure: options.secure };
  }

  /** Value of the Set-Cookie header that opens a session. */
  create(caller: Caller): string {
    const value = this.#signer.sign(`${caller.id}.${this.expiresAtMs()}`);
    return fastifyCookie.serialize(SESSION_COOKIE, value, { ...this.#attributes, maxAge: this.#lifetimeSeconds });
  }

  /** Value of the Set-Cookie header that takes the cookie away. */
  clear(): string {
    return fastifyCookie.serialize(SESSION_COOKIE, '', { ...this.#attributes, maxAge: 0 });
  }

  /** When a session that is opened now ends, in milliseconds since the Unix epoch. */
  expiresAtMs(): number {
    return this.#clock.now() + this.#lifetimeSeconds * 1000;
  }

  /** The caller's id from a Cookie header; `undefined` when it is not ours, its time is up, or its key is gone. */
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
  /** The error bodies of the address that the endpoints are on. */
  readonly fail: (failure: ApiFailure) => EndpointAnswer;
}

/** A missing key is no wrong shape but a missing key: 401. */
const loginSchema = loginRequestSchema.partial();

/** POST opens a session with a key, DELETE ends it. */
export function createLogin({ gate, sessions, fail }: LoginDependencies): readonly Endpoint[] {
  return [
    {
      name: 'login',
      operation: LOGIN,
      answer: async ({ body }) => {
        const parsed = loginSchema.safeParse(body ?? {});
        if (!parsed.success) throw invalidRequest('The request body is not valid: api_key must be text.');
        const caller = gate.enterLogin(parsed.data.api_key);
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
