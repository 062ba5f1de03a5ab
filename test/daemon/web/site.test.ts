/**
 * What the daemon's server answers, over real sockets. How the page looks is tested in `browser.slow.test.ts`, numbers of
 * the metrics in `metrics.external.test.ts`.
 */
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { PAGE_LINKS } from '../../../src/core/report-page.ts';
import type { DaemonView } from '../../../src/daemon/daemon.ts';
import {
  ago,
  HOSTILE,
  makeBadDay,
  makeCommands,
  makeDate,
  makeGoodDay,
  makeJob,
  makeRun,
  makeStatus,
  makeView,
  NOW,
  type PageOptions,
  TOKEN,
  usePage,
} from './views.ts';

const { url, call: get, ...page } = usePage();
const start = (view: () => DaemonView = makeGoodDay, changes: PageOptions = {}) => page.start({ view, ...changes });
const portOf = () => Number(new URL(url()).port);
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

describe('the server of the daemon', () => {
  it.each([
    ['the next run is due in ', 0],
    ['a run is active', 1],
    ['2 runs are active', 2],
  ])('says when all is well that %s', async (says, count) => {
    const running = { id: 'run-now', reason: 'catch-up', started_at: ago(60_000) } as const;
    const jobs = makeGoodDay().jobs.map((job, index) => (index < count ? { ...job, running } : job));
    await start(() => makeView(jobs));
    expect((await get('/')).body).toContain(`All is well; ${says}`);
  });

  it.each(['127.0.0.1:1', 'localhost', 'LocalHost:8686', '[::1]:8686', '127.0.0.1'])(
    'answers by the name %s of this machine',
    async (host) => {
      await start();
      expect((await get('/', { host })).status).toBe(200);
    },
  );

  it.each(['evil.example', 'evil.example:8686', 'localhost.evil.example', '127.0.0.1.evil.example', '[::2]', 'x:y:z'])(
    'does not answer by the name "%s", which another site may have made to mean this machine',
    async (host) => {
      await start();
      for (const path of ['/', '/metrics', '/reports/nightly-trades/2026-11-20/flow/0']) {
        const { status, body } = await get(path, { host });
        expect(status).toBe(421);
        expect(body).not.toContain('nightly-trades');
      }
    },
  );

  it('answers by any name with the token, because no other site can show it', async () => {
    await start(makeGoodDay, { token: TOKEN });
    expect((await get('/', { host: 'ops.example', ...bearer(TOKEN) })).status).toBe(200);
  });

  it.each([
    ['nothing', {}],
    ['a wrong token', bearer('a-token-of-24-characterz')],
    ['a part of it', bearer(TOKEN.slice(0, -1))],
    ['another scheme', { authorization: `Basic ${TOKEN}` }],
    ['the token as a cookie', { cookie: `flowdrop_status=${TOKEN}` }],
    ['a cookie of its own making', { cookie: `flowdrop_status=9999999999.${'A'.repeat(43)}` }],
  ] as const)('refuses whoever shows %s, says how, and tells nothing', async (_, headers) => {
    await start(makeBadDay, { token: TOKEN });
    for (const path of ['/', '/metrics', '/reports/nightly-trades/2026-11-20/flow/0', '/elsewhere']) {
      const { status, body, headers: answered } = await get(path, headers);
      expect(status).toBe(401);
      expect(answered['www-authenticate']).toMatch(/^Bearer/);
      expect(body).toContain('FLOWDROP_STATUS_TOKEN');
      expect(body).not.toMatch(/nightly|worker-1|2026-/);
      // The form for the token must be allowed to send it, and be framed by nobody.
      expect(answered['content-security-policy']).toContain("form-action 'self'");
      expect(answered['content-security-policy']).not.toContain('sandbox');
    }
  });

  it('takes the token once by address, and then a cookie that does not tell it, until it ends or the token changes', async () => {
    let now = NOW;
    const clock = { now: () => now, sleep: async () => {} };
    await start(makeGoodDay, { token: TOKEN, clock });
    const login = await get(`/?token=${TOKEN}`);
    // The address of this answer has the token.
    const { location, 'referrer-policy': policy } = login.headers;
    expect([login.status, location, policy]).toEqual([303, '/', 'no-referrer']);
    const [set = ''] = login.headers['set-cookie'] ?? [];
    expect(set).toMatch(/; HttpOnly; SameSite=Lax$/);
    expect(set).not.toContain(TOKEN);
    const cookie = set.split(';')[0] ?? '';
    expect((await get('/', { cookie: `other=1; ${cookie}` })).status).toBe(200);
    expect((await get('/metrics', { cookie })).status).toBe(200);
    now += 31 * 86_400_000;
    expect((await get('/', { cookie })).status).toBe(401);
    now = NOW;
    await start(makeGoodDay, { token: `${TOKEN}-new`, clock });
    expect((await get('/', { cookie })).status).toBe(401);
    const wrong = await get('/?token=no', { cookie });
    expect([wrong.status, wrong.headers['set-cookie']]).toEqual([401, undefined]);
  });

  it.each(['0.0.0.0', '::', '', '192.0.2.1', 'example.com'])(
    'does not listen on "%s" without a token',
    async (host) => {
      await expect(start(makeGoodDay, { address: { host, port: 0 } })).rejects.toMatchObject({
        code: 'SETTING_MISSING',
        kind: 'usage',
      });
    },
  );

  it('listens on every address with a token', async () => {
    await start(makeGoodDay, { address: { host: '', port: 0 }, token: TOKEN });
    const response = await fetch(`http://127.0.0.1:${portOf()}/`, { headers: bearer(TOKEN) });
    expect(response.status).toBe(200);
  });

  it('says which address is taken', async () => {
    await start();
    const port = portOf();
    await expect(page.start({ address: { host: '127.0.0.1', port } })).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      message: expect.stringContaining(`127.0.0.1:${port}`),
    });
  });

  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])('refuses %s', async (method) => {
    await start();
    const { status, headers } = await get('/', {}, method);
    expect([status, headers.allow]).toEqual([405, 'GET, HEAD']);
  });

  it('answers HEAD with the headers of GET and no body', async () => {
    await start();
    const [head, whole] = [await get('/', {}, 'HEAD'), await get('/')];
    expect(head.body).toBe('');
    expect({ ...head.headers, date: '' }).toEqual({ ...whole.headers, date: '' });
    expect(Number(whole.headers['content-length'])).toBe(Buffer.byteLength(whole.body));
  });

  it.each(['/', '/metrics', '/healthz', '/elsewhere'])('sends every security header with %s', async (path) => {
    await start();
    const { headers } = await get(path);
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'x-frame-options': 'DENY',
      'content-security-policy': expect.stringMatching(/default-src 'none'.*frame-ancestors 'none'/),
    });
    expect(headers['content-security-policy']).not.toMatch(/unsafe/);
    expect(headers).not.toHaveProperty('access-control-allow-origin');
  });

  it('asks for the view at most once a second for pages, whoever asks', async () => {
    let [now, asked] = [NOW, 0];
    const view = () => {
      asked += 1;
      return makeGoodDay();
    };
    await start(view, { clock: { now: () => now, sleep: async () => {} } });
    for (let look = 0; look < 5; look += 1) await get('/');
    expect(asked).toBe(1);
    now += 1_000;
    await get('/');
    expect(asked).toBe(2);
  });

  it('tells its health without a token and without a name', async () => {
    let view = makeBadDay();
    await start(() => view, { token: TOKEN });
    const read = async (path: string) => {
      const { status, body } = await get(path, { host: '10.0.0.7:8686' });
      expect(body).not.toMatch(/nightly|trades/);
      return { status, ...(JSON.parse(body) as { ok: boolean; reasons?: string[] }) };
    };
    expect(await read('/healthz')).toMatchObject({ status: 200, ok: true, live: { ok: true }, ready: { ok: true } });
    view = { ...view, isStopping: true };
    expect(await read('/healthz/ready')).toEqual({ status: 503, ok: false, reasons: ['the daemon is stopping'] });
    expect(await read('/healthz/live')).toMatchObject({ status: 200, ok: true });
    view = makeView([makeJob('nightly', { schedule: null, fault: { message: 'broken', since: ago(0) } })]);
    expect(await read('/healthz/ready')).toMatchObject({ status: 503, reasons: ['no job can be run'] });
    view = makeView([makeJob('nightly')], { beatAtMs: NOW - 6 * 60_000 });
    expect(await read('/healthz/live')).toMatchObject({ status: 503, ok: false });
    expect(await read('/healthz')).toMatchObject({ status: 503, ready: { ok: true } });
  });

  it('calls gaps unknown while no date is known, and none where every date is sealed', async () => {
    const status = makeStatus('nightly', { dates: [], reports: [] });
    await start(() => makeView([makeJob('nightly', { runs: [], status })]));
    const { body } = await get('/jobs/nightly');
    expect(body).toContain('<h2>Gaps</h2><p class="quiet">Unknown until a run finds the first date.</p>');
    await start(() => makeView([makeJob('nightly')]));
    expect((await get('/jobs/nightly')).body).toContain('<h2>Gaps</h2><p class="quiet">None.</p>');
  });

  it.each([
    ['2026-11-23', 'week'],
    ['2026-11-20', '2 weeks'],
  ])('says of how many weeks it has conditions, since %s of the last %s', async (date, span) => {
    const dates = [makeDate(date)];
    const status = makeStatus('nightly', { dates });
    await start(() => makeView([makeJob('nightly', { status })]));
    expect((await get('/jobs/nightly')).body).toContain(`>Conditions of the last ${span}</caption>`);
  });

  it('lets nothing be framed but what stands at the address of a report, and that by itself only', async () => {
    await start(makeGoodDay, {
      commands: makeCommands({ report: async (_job, date) => (date === '2026-11-20' ? 'report' : undefined) }),
    });
    const framing = async (path: string) => {
      const { status, headers } = await get(path);
      const policy = headers['content-security-policy']?.toString() ?? '';
      return [status, policy.split('; ').filter((rule) => /^(sandbox|frame-)/.test(rule)), headers['x-frame-options']];
    };
    const page = [["frame-src 'self'", "frame-ancestors 'none'"], 'DENY'];
    expect(await framing('/')).toEqual([200, ...page]);
    expect(await framing('/elsewhere')).toEqual([404, ...page]);
    for (const path of ['/metrics', '/healthz']) {
      expect(await framing(path), path).toEqual([200, ["frame-ancestors 'none'"], 'DENY']);
    }
    const own = [['sandbox allow-scripts', "frame-ancestors 'self'"], 'SAMEORIGIN'];
    expect(await framing('/reports/nightly-trades/2026-11-20/flow/0')).toEqual([200, ...own]);
    const notice = [['sandbox', "frame-ancestors 'self'"], 'SAMEORIGIN'];
    expect(await framing('/reports/nightly-trades/2026-11-19/flow/0')).toEqual([404, ...notice]);
    expect(await framing('/reports/elsewhere')).toEqual([404, ...notice]);
  });

  it('tells a run that failed, by whomever it was started, until a later one went well', async () => {
    const shown = async (...runs: readonly ReturnType<typeof makeRun>[]) => {
      await start(() => makeView([makeJob('nightly', { runs })]));
      return (await get('/')).body;
    };
    const error = { code: 'API_UNREACHABLE', message: 'cannot be reached' };
    const byHand = makeRun('nightly', 3, { outcome: 'failed', reason: 'hand', error });
    const restarted = await shown(byHand);
    expect(restarted).toContain('The last run of nightly failed 2 h ago: API_UNREACHABLE');
    expect(restarted).not.toContain('All is well');
    const failed = makeRun('nightly', 4, { outcome: 'failed' });
    expect(await shown(failed, makeRun('nightly', 5))).toContain('The last run of nightly failed 3 h ago: failed');
    expect(await shown(makeRun('nightly', 1, { command: 'backfill' }), failed)).toContain('failed 3 h ago: failed');
    expect(await shown(makeRun('nightly', 1), byHand)).toContain('All is well');
    expect(await shown(makeRun('nightly', 1, { outcome: 'interrupted' }), failed)).toContain('All is well');
  });

  it('says which events did not reach their receiver, why, and what to type, but not while a run may post them', async () => {
    const owed_events = { count: 3, since: '2026-11-23T16:30:00.000Z', reason: 'webhook: <b>HTTP 500</b>\nmore' };
    const status = makeStatus('nightly', { owed_events });
    const running = { id: 'r', reason: 'scheduled' as const, started_at: ago(0) };
    await start(() => makeView([makeJob('nightly', { status })]));
    const { body } = await get('/');
    expect(body).toContain(
      '3 events have not reached their receiver, the oldest 2 h ago: webhook: &lt;b&gt;HTTP 500&lt;/b&gt;. To try again: flowdrop alert nightly',
    );
    expect(body).not.toContain('All is well');
    expect((await get('/jobs/nightly')).body).toContain('3 events have not reached');
    await start(() => makeView([makeJob('nightly', { status, running })]));
    expect((await get('/')).body).not.toContain('have not reached');
  });

  it('reads a report only when the archive lists it, and never anything else', async () => {
    const asked: unknown[] = [];
    await start(makeGoodDay, {
      commands: makeCommands({
        async report(...name) {
          asked.push(name);
          return '<!doctype html><title>Flow</title>';
        },
      }),
    });
    const good = await get('/reports/nightly-trades/2026-11-17/flow/1');
    expect([good.status, good.body]).toEqual([200, '<!doctype html><title>Flow</title>']);
    expect(good.headers['content-security-policy']).toMatch(
      /^sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-[^']+';/,
    );
    expect(asked).toEqual([['nightly-trades', '2026-11-17', 'flow', 1]]);
    for (const path of [
      '/reports/nightly-trades/2026-11-17/flow/0',
      '/reports/nightly-trades/2026-11-17/flow/1/',
      '/reports/nightly-trades/2026-11-17/flow/01',
      '/reports/nightly-trades/2026-11-17/../2026-11-17/flow/1',
      '/reports/nightly-trades/..%2f..%2fetc/flow/1',
      '/reports/nightly%2Dtrades/2026-11-17/flow/1',
      '/reports/other/2026-11-17/flow/1',
      '/reports/%/%/%/%',
      '/reports/',
    ]) {
      expect((await get(path)).status, path).toBe(404);
    }
    expect(asked).toHaveLength(1);
  });

  it('links a report to those around it and to itself, but no preview, and no report of before it had such links', async () => {
    await start(makeGoodDay, { commands: makeCommands({ report: async (_job, date) => `${date}: ${PAGE_LINKS}` }) });
    const own = '/reports/nightly-trades/2026-11-19/flow/0';
    const { body } = await get(own);
    const links = [...body.matchAll(/<a href="([^"]*)">([^<]*)/g)].map(([, href = '', text]) => [
      new URL(href, `https://flow.example.com${own}`).pathname,
      text,
    ]);
    expect(links).toEqual([
      ['/reports/nightly-trades/2026-11-18/flow/0', 'Report before: Nov 18'],
      ['/reports/nightly-trades/2026-11-20/flow/0', 'Report after: Nov 20'],
      ['/', 'Status page'],
    ]);
    for (const [href = ''] of links) expect((await get(href)).status, href).toBe(200);
    expect((await get(`${own}?preview=1`)).body).not.toContain('<a');
    const newest = (await get('/reports/nightly-trades/2026-11-20/flow/0')).body;
    expect(newest).not.toContain('Report after');
  });

  it('reads a report once for all who ask at the same time, and no more than two together', async () => {
    const reading: (() => void)[] = [];
    await start(makeGoodDay, {
      commands: makeCommands({ report: () => new Promise((resolve) => reading.push(() => resolve('page'))) }),
    });
    const path = (date: string) => `/reports/nightly-trades/${date}/flow/0`;
    const first = [get(path('2026-11-20')), get(path('2026-11-20')), get(path('2026-11-19'))];
    await expect.poll(() => reading.length).toBe(2);
    const third = await get(path('2026-11-18'));
    expect([third.status, third.headers['retry-after']]).toEqual([503, '5']);
    for (const end of reading) end();
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200, 200]);
    const later = get(path('2026-11-18'));
    await expect.poll(() => reading.length).toBe(3);
    reading[2]?.();
    expect((await later).status).toBe(200);
  });

  it('answers 500 when the view cannot be had, and tells nothing of why', async () => {
    await start(() => {
      throw new Error('inner-secret');
    });
    for (const path of ['/', '/healthz', '/metrics']) {
      const { status, body } = await get(path);
      expect([status, body.includes('inner-secret')], path).toEqual([500, false]);
    }
  });

  it('shows texts that mean harm as texts, and a page of many jobs and dates in bounded size', async () => {
    const pending = { condition: 'pending', rows: null, revision: null } as const;
    const dates = Array.from({ length: 4_000 }, (_, index) => {
      const date = new Date(Date.parse('2015-12-14') + index * 86_400_000).toISOString().slice(0, 10);
      return makeDate(date, { ...pending, begins_to_expire: '2026-12-01T05:00:00.000Z' });
    });
    const jobs = Array.from({ length: 80 }, (_, index) =>
      makeJob(`${HOSTILE}-${index}`, { status: makeStatus('job', { dates }) }),
    );
    await start(() => makeView(jobs));
    const { status, body } = await get('/');
    expect(status).toBe(200);
    expect(body.match(/<script/g)).toHaveLength(1);
    expect(body).not.toContain('<img');
    expect(body.length).toBeLessThan(1_000_000);
    const page = await get(`/jobs/${encodeURIComponent(`${HOSTILE}-7`)}`);
    expect([page.status, page.body.includes('<img')]).toEqual([200, false]);
    expect(page.body.length).toBeLessThan(400_000);
  });

  it('refuses a head that is too long, and bytes that are no request', async () => {
    await start();
    expect((await get('/', { 'x-long': 'x'.repeat(9_000) })).status).toBe(431);
    const socket = connect(portOf(), '127.0.0.1');
    socket.end('nonsense\r\n\r\n');
    const [data] = await once(socket, 'data');
    expect(String(data)).toMatch(/^HTTP\/1\.1 400 /);
  });

  it('gives up a request whose head does not come to its end', async () => {
    await start();
    const socket = connect(portOf(), '127.0.0.1');
    const began = performance.now();
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n');
    const [data] = await once(socket, 'data');
    expect(String(data)).toMatch(/^HTTP\/1\.1 408 /);
    expect(performance.now() - began).toBeLessThan(10_000);
    socket.destroy();
  });

  it('closes while a connection is kept alive, and may be closed twice', async () => {
    const web = await start();
    const agent = new Agent({ keepAlive: true });
    const sent = request(url(), { agent });
    sent.end();
    const [response] = await once(sent, 'response');
    response.resume();
    await once(response, 'end');
    await Promise.all([web.close(), web.close()]);
    await expect(get('/')).rejects.toThrow(/ECONNREFUSED/);
    agent.destroy();
  });
});
