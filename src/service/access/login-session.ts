/**
 * Sessions: a signed cookie replaces the key, so that a browser or a script need not store the key. The cookie holds
 * the caller's id and its expiry, signed with HMAC-SHA-256; the service stores nothing. Invariant: a session has the
 * present rights of its key. It is invalid once the key is removed, it expires, or the service restarts (the secret is
 * random per start). Logging out clears the cookie; a copy of it stays valid until it expires.
 */
import { randomBytes } from 'node:crypto';
import { fastifyCookie, Signer } from '@fastify/cookie';
import { z } from 'zod';
import { apiKeySchema, historicalFailureSchema } from '../../api-contract/historical.ts';
import type { Clock } from '../../core/clock.ts';
import { type Answer, parseRequest, type Route, USUAL_FAILURES } from '../http/route.ts';
import type { Gate } from './gate.ts';
import type { Caller } from './key-file.ts';
import type { KeyRing } from './keys.ts';

export const SESSION_COOKIE = 'flowdrop_session';
/** One working day. */
export const SESSION_SECONDS = 8 * 60 * 60;

const SECRET_BYTES = 32;

export type Sessions = ReturnType<typeof createSessions>;

/** @param secure whether callers use TLS only: browsers then never send the cookie over an unencrypted connection */
export function createSessions(clock: Clock, keys: KeyRing, secure: boolean) {
  const signer = new Signer(randomBytes(SECRET_BYTES));
  const attributes = { httpOnly: true, sameSite: 'strict', path: '/', secure } as const;
  const serialize = (value: string, maxAge: number) =>
    fastifyCookie.serialize(SESSION_COOKIE, value, { ...attributes, maxAge });
  /** Expiry of a session opened now, milliseconds since the Unix epoch. */
  const expiresAtMs = () => clock.now() + SESSION_SECONDS * 1000;
  return {
    expiresAtMs,
    /** The Set-Cookie header value that opens a session. */
    create: (caller: Caller) => serialize(signer.sign(`${caller.id}.${expiresAtMs()}`), SESSION_SECONDS),
    /** The Set-Cookie header value that removes the cookie. */
    clear: () => serialize('', 0),
    /** The caller id of a Cookie header; `undefined` if the cookie is not ours or expired, or its key was removed. */
    read(cookieHeader: string | undefined): string | undefined {
      const cookie = fastifyCookie.parse(cookieHeader ?? '')[SESSION_COOKIE];
      if (cookie === undefined) return undefined;
      const { valid, value } = signer.unsign(cookie);
      if (!valid) return undefined;
      const [id = '', endMs] = value.split('.');
      return clock.now() < Number(endMs) ? keys.find(id)?.id : undefined;
    },
  };
}

const loginSchema = z
  .object({ api_key: apiKeySchema.describe('Any valid key; begins with cus_ or apikey_.') })
  .meta({ id: 'LoginRequest' });
const openedSchema = z
  .strictObject({
    status: z.literal('SUCCESS'),
    expires_at: z.iso.datetime().describe('When the session ends, UTC.'),
  })
  .describe('The session is open; its cookie is set.')
  .meta({ id: 'LoginSuccess' });
const closedSchema = z
  .strictObject({ status: z.literal('SUCCESS') })
  .describe('The cookie is removed.')
  .meta({ id: 'LogoutSuccess' });

const PLACE = { path: '/api/session', tag: 'Session' } as const;

/** POST opens a session with a key, DELETE ends it. */
export function createLogin(gate: Gate, sessions: Sessions): readonly [Route, Route] {
  return [
    {
      ...PLACE,
      name: 'login',
      operationId: 'login',
      method: 'POST',
      summary: 'Open a session with a key',
      description:
        'Sets a cookie that the POST endpoints accept in place of the key, until it expires or the service restarts.',
      security: ['body'],
      request: loginSchema,
      success: {
        description: 'The session is open.',
        schema: openedSchema,
        headers: ['Set-Cookie'],
      },
      failureSchema: historicalFailureSchema,
      failures: {
        400: 'The body is not valid: INVALID_REQUEST.',
        401: USUAL_FAILURES[401],
        429: 'Too many sessions opened with this key: RATE_LIMITED.',
      },
      answer: async ({ body, address }) => {
        // A missing key is answered with 401 and not with 400.
        const { api_key: apiKey } = parseRequest(loginSchema.partial(), body);
        const caller = await gate.enter({ apiKey, address }, 'login');
        const expiresAt = new Date(sessions.expiresAtMs()).toISOString();
        return writeAnswer(sessions.create(caller), { status: 'SUCCESS', expires_at: expiresAt });
      },
    },
    {
      ...PLACE,
      name: 'logout',
      operationId: 'logout',
      method: 'DELETE',
      summary: 'End the session',
      description: 'Removes the cookie. Also succeeds without a session.',
      security: [],
      success: {
        description: 'There is no session any more.',
        schema: closedSchema,
        headers: ['Set-Cookie'],
      },
      answer: async () => writeAnswer(sessions.clear(), { status: 'SUCCESS' }),
    },
  ];
}

function writeAnswer(cookie: string, body: object): Answer {
  return { headers: { 'set-cookie': cookie, 'cache-control': 'no-store' }, body: JSON.stringify(body) };
}
