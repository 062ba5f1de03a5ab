/**
 * What the page does when it is asked, and whom it refuses. What the daemon makes of it is in
 * `test/daemon/steps.test.ts`, with real runs in `test/daemon/start.slow.test.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ACTIONS } from '../../../src/daemon/shapes.ts';
import type { Ask } from '../../../src/daemon/state.ts';
import { type ActionEntry, openActionLog } from '../../../src/state/action-log.ts';
import { actionLogOf } from '../../../src/state/job-state.ts';
import { RunHistory } from '../../../src/state/run-history.ts';
import { useCleanups } from '../../support/cleanups.ts';
import {
  type Got,
  HOSTILE,
  makeBadDay,
  makeCommands,
  makePrice,
  makeRun,
  NOW,
  type PageOptions,
  TOKEN,
  usePage,
} from './views.ts';

const JOB = 'nightly-trades';

const { url, call, ...page } = usePage();
const { folder: makeFolder } = useCleanups(afterEach);
let folder: string;
let asked: unknown[];
let now: number;
beforeEach(async () => {
  folder = await makeFolder();
  [asked, now] = [[], NOW];
});

const logPath = () => actionLogOf(folder);
const listActions = async () => await openActionLog(logPath()).list(100);

async function start(changes: PageOptions = {}): Promise<void> {
  await page.start({
    view: makeBadDay,
    stateDir: folder,
    ask(ask: Ask) {
      asked.push(ask);
      return { outcome: 'started', text: 'It begins.' };
    },
    async reload() {
      asked.push('reload');
    },
    commands: makeCommands({
      backfill(job, options) {
        asked.push({ price: job, options });
        return makePrice({ date: '2026-11-19', rows: 500 }, { date: '2026-11-20', rows: 500 });
      },
      gap(job, date, options) {
        asked.push({ accept: job, date, options });
      },
    }),
    clock: { now: () => now, sleep: async () => {} },
    ...changes,
  });
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

/** The token of the form of a page, as a browser has it. */
async function readToken(headers: Record<string, string> = {}, path = '/'): Promise<string> {
  now += 1_100;
  const { body } = await call(path, headers);
  return /name="token" value="([^"]+)"/.exec(body)?.[1] ?? '';
}

async function post(path: string, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Got> {
  return await call(path, { ...FORM, ...headers }, 'POST', String(new URLSearchParams(fields)));
}

describe('an action of a page', () => {
  it('is done once, shows the command that does the same, and is recorded with who and when', async () => {
    await start();
    const token = await readToken();
    const done = await post(`/actions/run?job=${JOB}`, { token }, { 'sec-fetch-site': 'same-origin' });
    expect([done.status, done.body.includes(`flowdrop run ${JOB}`)]).toEqual([200, true]);
    expect(asked).toEqual([{ job: JOB, command: 'run', options: [] }]);
    const replayed = await post(`/actions/run?job=${JOB}`, { token });
    expect([replayed.status, replayed.body.includes('was sent already')]).toEqual([409, true]);
    expect(asked).toHaveLength(1);
    expect(await listActions()).toEqual([
      {
        id: expect.any(String),
        at: new Date(now).toISOString(),
        who: 'this machine at 127.0.0.1',
        ...{ action: 'run', job: JOB, line: `run ${JOB}`, outcome: 'started', text: 'It begins.' },
      },
    ]);
    expect((await call('/actions')).body).toContain('this machine at 127.0.0.1');
  });

  it.each([
    ['stop', {}, { job: JOB, command: 'stop' }],
    ['retry', {}, { job: JOB, command: 'run', options: [] }],
    ['reload', {}, 'reload'],
    [
      'backfill',
      { from: '2026-11-18', to: '2026-11-19', mode: 'all' },
      { job: JOB, command: 'backfill', options: ['--all', '--from', '2026-11-18', '--to', '2026-11-19'] },
    ],
    ['audit', { date: '2026-11-18' }, { job: JOB, command: 'verify', options: ['--date', '2026-11-18', '--deep'] }],
    [
      'send',
      { date: '2026-11-18', to: 'me@example.com' },
      { job: JOB, command: 'report', options: ['--date', '2026-11-18', '--only', 'me@example.com'] },
    ],
    [
      'accept',
      { date: '2026-11-18', reason: ' vendor outage ', by: 'alice' },
      { accept: JOB, date: '2026-11-18', options: ['--reason=vendor outage', '--by=alice'] },
    ],
  ] as const)('%s asks the daemon for it', async (action, fields, expected) => {
    await start();
    const { status } = await post(`/actions/${action}`, { token: await readToken(), job: JOB, ...fields });
    expect([status, asked]).toEqual([200, [expected]]);
  });

  it('shows the price of a backfill before anything is done, and then starts it by a form of its own', async () => {
    await start();
    const fields = { job: JOB, from: '2026-11-18', to: '2026-11-19', mode: '' };
    const { body } = await post('/actions/price', { token: await readToken(), ...fields });
    expect(body).toContain('2 dates, 1,000 rows, 4 requests, about 4 s.');
    expect(body).toContain('Too late for 2026-11-19');
    expect(body).toContain(`flowdrop backfill ${JOB} --from 2026-11-18 --to 2026-11-19`);
    // The price changes nothing, so it is no action of anybody.
    expect(await listActions()).toEqual([]);
    const token = /name="token" value="([^"]+)"/.exec(body)?.[1] ?? '';
    expect((await post('/actions/backfill', { ...fields, token })).status).toBe(200);
    const options = ['--from', '2026-11-18', '--to', '2026-11-19'];
    expect(asked.at(-1)).toMatchObject({ command: 'backfill', options });
  });

  it('repeats a remembered run as it was, but none that would take another store or only staged', async () => {
    await start();
    const history = new RunHistory(folder, JOB);
    const runs = [
      makeRun(JOB, 1, { command: 'backfill', args: ['backfill', JOB, '--failed'] }),
      makeRun(JOB, 2, { args: ['run', JOB, '--new-store'] }),
      makeRun(JOB, 3, { command: 'stage', args: ['run', JOB, '--stage'] }),
    ];
    for (const run of runs) await history.write(run);
    const statuses = [];
    for (const { id } of runs) {
      statuses.push((await post('/actions/retry', { token: await readToken(), job: JOB, run: id })).status);
    }
    expect(statuses).toEqual([200, 409, 409]);
    expect(asked).toEqual([{ job: JOB, command: 'backfill', options: ['--failed'] }]);
  });

  it('that was refused or failed says why, and is recorded', async () => {
    await start({
      ask: () => ({ outcome: 'refused', text: 'This daemon does nothing.' }),
      commands: makeCommands({
        gap() {
          throw new Error(`NOT_A_GAP ${HOSTILE}`);
        },
      }),
    });
    const refused = await post('/actions/run', { token: await readToken(), job: JOB });
    expect([refused.status, refused.body.includes('This daemon does nothing.')]).toEqual([409, true]);
    const fields = { job: JOB, date: '2026-11-18', reason: 'x' };
    const failed = await post('/actions/accept', { token: await readToken(), ...fields });
    expect([failed.status, failed.body.includes('NOT_A_GAP')]).toEqual([502, true]);
    expect(failed.body).not.toContain('<img');
    expect((await listActions()).map(({ outcome }) => outcome)).toEqual(['failed', 'refused']);
  });

  it('is not done when it cannot be recorded', async () => {
    await writeFile(join(folder, 'file'), '');
    await start({ stateDir: join(folder, 'file') });
    expect((await post('/actions/run', { token: await readToken(), job: JOB })).status).toBe(502);
    expect(asked).toEqual([]);
  });
});

describe('nobody else acts', () => {
  it.each([
    ['without a token', {}, {}],
    ['with a wrong token', { token: `${NOW}.${'a'.repeat(16)}.${'b'.repeat(43)}` }, {}],
    ['with a token that ends the day after it was signed', { token: 'later' }, {}],
    ['from a page of another site', { token: 'right' }, { 'sec-fetch-site': 'cross-site' }],
    ['from a page of another host of the site', { token: 'right' }, { 'sec-fetch-site': 'same-site' }],
    ['from an address bar', { token: 'right' }, { 'sec-fetch-site': 'none' }],
    ['with another origin', { token: 'right' }, { origin: 'http://evil.example' }],
    ['with an opaque origin', { token: 'right' }, { origin: 'null' }],
    ['by another host name', { token: 'right' }, { host: 'evil.example' }],
    ['as a text that no form asks leave for', { token: 'right' }, { 'content-type': 'text/plain' }],
  ] as const)('%s', async (_, fields: { readonly token?: string }, headers) => {
    await start();
    const right = await readToken();
    const later = right.replace(/^\d+/, (end) => String(Number(end) + 86_400_000));
    const { token } = fields;
    const sent = token === 'right' ? right : token === 'later' ? later : token;
    for (const action of ACTIONS) {
      const { status } = await post(`/actions/${action}?job=${JOB}`, sent ? { token: sent } : {}, headers);
      expect([action, status >= 400]).toEqual([action, true]);
    }
    expect([asked, await listActions()]).toEqual([[], []]);
  });

  it('with the token of an earlier start, of another login, or one that is half a day old', async () => {
    await start({ token: TOKEN });
    const login = async () => {
      const response = await fetch(`${url()}/?token=${TOKEN}`, { redirect: 'manual' });
      now += 60_000;
      return { cookie: response.headers.get('set-cookie')?.split(';')[0] ?? '' };
    };
    const [mine, other] = [await login(), await login()];
    const token = await readToken(mine);
    expect((await post('/actions/run', { token, job: JOB }, other)).status).toBe(403);
    expect((await post('/actions/run', { token, job: JOB })).status).toBe(401);
    now += 13 * 3_600_000;
    expect((await post('/actions/run', { token, job: JOB }, mine)).status).toBe(403);
    const fresh = await readToken(mine);
    await start({ token: TOKEN });
    expect((await post('/actions/run', { token: fresh, job: JOB }, mine)).status).toBe(403);
    expect(asked).toEqual([]);
    expect((await post('/actions/run', { token: await readToken(mine), job: JOB }, mine)).status).toBe(200);
    expect((await listActions())[0]?.who).toBe('a login at 127.0.0.1');
  });

  it('where actions are off: there is no form, and nothing is taken', async () => {
    await start({ mayAct: false });
    for (const path of ['/', `/jobs/${JOB}`]) {
      expect((await call(path)).body).not.toMatch(/<button[^>]*formaction|method="post"/);
    }
    expect((await post('/actions/run', { job: JOB })).status).toBe(403);
    const sent = JSON.stringify({ action: 'run', job: JOB });
    expect((await call('/api/actions', { 'content-type': 'application/json' }, 'POST', sent)).status).toBe(403);
    expect(asked).toEqual([]);
  });

  it('by another method, or at another address', async () => {
    await start();
    const token = await readToken();
    for (const [method, path] of [
      ['GET', '/actions/run'],
      ['PUT', '/actions/run'],
      ['POST', '/actions/shell'],
      ['POST', '/actions/run/'],
      ['POST', '/actions/../actions/run'],
      ['POST', '/'],
    ] as const) {
      const text = method === 'GET' ? '' : `token=${token}`;
      const { status } = await call(`${path}?job=${JOB}&token=${token}`, FORM, method, text);
      expect([method, path, status === 404 || status === 405]).toEqual([method, path, true]);
    }
    expect(asked).toEqual([]);
  });

  it('with a body that is too large, or that never ends, and others are answered meanwhile', async () => {
    await start();
    const token = await readToken();
    expect((await post('/actions/run', { token, job: JOB, reason: 'x'.repeat(20_000) })).status).toBe(413);
    const headers = { ...FORM, 'content-length': '9000' };
    const endless = request(`${url()}/actions/run`, { method: 'POST', headers });
    endless.on('error', () => undefined);
    endless.write('token=');
    expect((await call('/healthz')).status).toBe(200);
    endless.destroy();
    expect(asked).toEqual([]);
  });

  const HOSTILE_VALUES = [
    ...[HOSTILE, '--new-store', '-rf', '../../etc/passwd', '$(reboot)', '`reboot`', 'a\nb', 'a\0b'],
    ...['\u202Egpj', '', 'x'.repeat(600), '__proto__'],
  ];
  it.each(['job', 'run', 'date', 'from', 'to', 'mode', 'reason', 'by'])('with a hostile %s', async (field) => {
    await start();
    const usual = { job: JOB, date: '2026-11-18', from: '2026-11-18', to: '2026-11-19', reason: 'r', by: 'b' };
    for (const value of HOSTILE_VALUES) {
      for (const action of ACTIONS) {
        const to = action === 'send' ? 'me@example.com' : usual.to;
        const sent = { ...usual, to, [field]: value, token: await readToken() };
        const { body } = await post(`/actions/${action}`, sent);
        expect(body).not.toMatch(/<img|<script/);
      }
    }
    // What came through: known jobs, dates, one address, and texts that are bound to their option.
    const words = asked.flatMap((each) => (each as { options?: readonly string[] }).options ?? []);
    for (const word of words) {
      expect(word).toMatch(
        /^(--(all|missing|failed|from|to|date|deep|only)|\d{4}-\d{2}-\d{2}|me@example\.com|--(reason|by)=[^\p{Cc}\p{Bidi_Control}]*)$/u,
      );
    }
    for (const each of asked) expect(JSON.stringify(each)).toMatch(/nightly-trades|reload/);
  });
});

describe('a program', () => {
  const JSON_TYPE = { 'content-type': 'application/json' };
  const document = JSON.stringify({ action: 'run', job: JOB });

  it('acts by the JSON API with the token, and without one only where none is set and no browser speaks', async () => {
    await start({ token: TOKEN });
    expect((await call('/api/actions', JSON_TYPE, 'POST', document)).status).toBe(401);
    const bearer = { ...JSON_TYPE, authorization: `Bearer ${TOKEN}` };
    const done = await call('/api/actions', bearer, 'POST', document);
    expect(done.status).toBe(202);
    expect(JSON.parse(done.body)).toEqual({ outcome: 'started', text: 'It begins.', line: `run ${JOB}` });
    const login = await fetch(`${url()}/?token=${TOKEN}`, { redirect: 'manual' });
    const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
    // A login is a browser's: other sites can use it.
    expect((await call('/api/actions', { ...JSON_TYPE, cookie }, 'POST', document)).status).toBe(403);
    const { body } = await call('/api/actions', bearer);
    expect((JSON.parse(body) as { actions: ActionEntry[] }).actions[0]?.who).toBe('the token at 127.0.0.1');
    await start();
    expect((await call('/api/actions', JSON_TYPE, 'POST', document)).status).toBe(202);
    const browsers = [{ origin: 'http://localhost' }, { 'sec-fetch-site': 'same-origin' }, { host: 'evil.example' }];
    for (const headers of browsers) {
      const { status } = await call('/api/actions', { ...JSON_TYPE, ...headers }, 'POST', document);
      expect(status).toBeGreaterThan(400);
    }
    expect((await call('/api/actions', { 'content-type': 'text/plain' }, 'POST', document)).status).toBe(415);
    expect(asked).toHaveLength(2);
  });

  it.each(['', '[]', '{"action":"rm"}', '{"action":"run","job":7}', '{"action":"audit","date":"yesterday"}', '{'])(
    'that sends %s is refused',
    async (body) => {
      await start();
      expect((await call('/api/actions', JSON_TYPE, 'POST', body)).status).toBe(400);
      expect(asked).toEqual([]);
    },
  );
});

it('the record of actions is bounded, and has an action whose end is not known as asked for', async () => {
  await start();
  const path = join(folder, 'actions.jsonl');
  const log = openActionLog(path);
  const at = new Date(NOW).toISOString();
  const entry = { at, who: 'w', action: 'run', job: JOB, line: null, text: 'x'.repeat(900) };
  const ids = Array.from({ length: 1_500 }, (_, index) => `id-${index}`);
  await writeFile(path, ids.map((id) => `${JSON.stringify({ ...entry, id, outcome: 'done' })}\n`).join(''));
  await log.append({ ...entry, id: 'cut', outcome: 'asked' });
  await log.append({ ...entry, id: 'next', outcome: 'asked' });
  await log.append({ ...entry, id: 'next', outcome: 'done' });
  const newest = (await log.list(3)).map(({ id, outcome }) => `${id} ${outcome}`);
  expect(newest).toEqual(['next done', 'cut asked', 'id-1499 done']);
});
