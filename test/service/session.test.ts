/** Sessions: what the cookie looks like, when it is not believed, and what the login and logout endpoints answer. */
import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createGate } from '../../src/service/access/gate.ts';
import { buildEntry, hashKey } from '../../src/service/access/key-file.ts';
import { createKeyRing } from '../../src/service/access/keys.ts';
import {
  createLogin,
  createSessions,
  SESSION_COOKIE,
  SESSION_SECONDS,
} from '../../src/service/access/login-session.ts';
import { ask } from './call-route.ts';

const START = Date.parse('2026-11-19T23:15:00Z');
/** Any valid key may log in. */
const ENTRY = buildEntry(hashKey('cus_desk'), { name: 'desk', historical: 'none', realtime: false });

function start(secure = false) {
  let nowMs = START;
  const clock = { now: () => nowMs, sleep: systemClock.sleep };
  const keys = createKeyRing([ENTRY]);
  const sessions = createSessions(clock, keys, secure);
  const gate = createGate(clock, keys, { requestsPerSecond: 1 });
  const [login, logout] = createLogin(gate, sessions);
  return { keys, sessions, login, logout, advance: (ms: number) => (nowMs += ms) };
}

/** What a browser sends back. */
function cookieOf(setCookie: string | undefined): string {
  return setCookie?.split(';')[0] ?? '';
}

describe('a session cookie', () => {
  test('is kept from scripts and other sites, and lives eight hours', () => {
    const { sessions } = start();
    const setCookie = sessions.create(ENTRY.caller);
    expect(setCookie).toMatch(
      new RegExp(`^${SESSION_COOKIE}=[^;]+; Max-Age=28800; Path=/; HttpOnly; SameSite=Strict$`),
    );
    expect(setCookie).not.toContain('cus_');
    expect(start(true).sessions.create(ENTRY.caller)).toContain('; Secure');
  });

  test('names its caller, also among other cookies', () => {
    const { sessions } = start();
    const cookie = cookieOf(sessions.create(ENTRY.caller));
    expect(sessions.read(cookie)).toBe(ENTRY.caller.id);
    expect(sessions.read(`theme=dark; ${cookie}; other="x y"`)).toBe(ENTRY.caller.id);
  });

  test.each([
    undefined,
    '',
    'theme=dark',
    `${SESSION_COOKIE}=`,
    `${SESSION_COOKIE}=.`,
    `${SESSION_COOKIE}=%ZZ`,
    ';;=;',
  ])('that is missing or nonsense (%j) names nobody', (header) => {
    expect(start().sessions.read(header)).toBeUndefined();
  });

  test('that was changed in any place names nobody', () => {
    const { sessions } = start();
    const cookie = cookieOf(sessions.create(ENTRY.caller));
    for (let index = SESSION_COOKIE.length + 1; index < cookie.length; index += 1) {
      const other = cookie[index] === '0' ? '1' : '0';
      const changed = cookie.slice(0, index) + other + cookie.slice(index + 1);
      expect(sessions.read(changed), changed).toBeUndefined();
      expect(sessions.read(cookie.slice(0, index)), cookie.slice(0, index)).toBeUndefined();
    }
    expect(sessions.read(`${cookie}0`)).toBeUndefined();
  });

  test('with a later end, without a signature, or with that of another secret names nobody', () => {
    const { sessions } = start();
    const [, value = ''] = cookieOf(sessions.create(ENTRY.caller)).split('=');
    const own = decodeURIComponent(value);
    const signature = own.slice(own.lastIndexOf('.') + 1);
    const payload = `${ENTRY.caller.id}.${START + 1e12}`;
    const read = (text: string) => sessions.read(`${SESSION_COOKIE}=${encodeURIComponent(text)}`);
    expect(read(own)).toBe(ENTRY.caller.id);
    const weak = createHmac('sha256', Buffer.alloc(0)).update(payload).digest('base64').replace(/=+$/, '');
    for (const text of [payload, `${payload}.`, `${payload}.${signature}`, `${payload}.${weak}`]) {
      expect(read(text), text).toBeUndefined();
    }
  });

  test('of another secret, as after a restart, names nobody', () => {
    expect(start().sessions.read(cookieOf(start().sessions.create(ENTRY.caller)))).toBeUndefined();
  });

  test('ends with its last second by the clock of the service', () => {
    const { sessions, advance } = start();
    const cookie = cookieOf(sessions.create(ENTRY.caller));
    advance(SESSION_SECONDS * 1000 - 1);
    expect(sessions.read(cookie)).toBe(ENTRY.caller.id);
    advance(1);
    expect(sessions.read(cookie)).toBeUndefined();
  });

  test('ends with its key, also when another key has its name', () => {
    const { keys, sessions } = start();
    const cookie = cookieOf(sessions.create(ENTRY.caller));
    keys.replace([buildEntry(hashKey('cus_other'), { name: 'desk', historical: 'active', realtime: true })]);
    expect(sessions.read(cookie)).toBeUndefined();
  });
});

describe('login and logout', () => {
  test('a key opens a session, and the answer says when it ends', async () => {
    const { login, sessions } = start();
    const { headers, body } = await ask(login, { body: { api_key: 'cus_desk' } });
    expect(headers).toMatchObject({ 'cache-control': 'no-store' });
    expect(body).toEqual({ status: 'SUCCESS', expires_at: '2026-11-20T07:15:00.000Z' });
    expect(sessions.read(cookieOf(headers['set-cookie']))).toBe(ENTRY.caller.id);
  });

  test.each([
    [undefined, 401],
    [{}, 401],
    [{ api_key: '' }, 401],
    [{ api_key: 'cus_wrong' }, 401],
    [{ api_key: 7 }, 400],
    ['cus_desk', 400],
    [null, 401],
  ])('a body of %j is %i', async (body, status) => {
    expect((await ask(start().login, { body })).status).toBe(status);
  });

  test('logins of one key are limited', async () => {
    const { login, advance } = start();
    const logIn = async () => (await ask(login, { body: { api_key: 'cus_desk' } })).status;
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 12; attempt += 1) statuses.push(await logIn());
    expect(statuses).toEqual([...Array<number>(10).fill(200), 429, 429]);
    advance(1_000);
    expect(await logIn()).toBe(200);
  });

  test('a logout takes the cookie away, session or not', async () => {
    const { logout } = start();
    expect(logout).toMatchObject({ method: 'DELETE', path: '/api/session' });
    const { headers } = await ask(logout, {});
    expect(headers['set-cookie']).toBe(`${SESSION_COOKIE}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict`);
  });
});
