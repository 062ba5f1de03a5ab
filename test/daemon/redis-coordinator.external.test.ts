/** One schedule for several daemons, on a real Redis. Whole processes are in `shared-ticks.external.test.ts`. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { openCoordinator } from '../../src/cli/start.ts';
import { SWAP_SCRIPT } from '../../src/core/redis-client.ts';
import { openRedisCoordinator, type RedisCoordinatorOptions } from '../../src/daemon/redis-coordinator.ts';
import type { Coordinator, Tick } from '../../src/daemon/state.ts';
import { createOpeners } from '../../src/openers.ts';
import { createRedisCell } from '../../src/source/pace/redis-cell.ts';
import { UNUSED } from '../../src/source/pace/reservations.ts';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { startRedis } from '../support/redis-server.ts';
import { findFreePort } from '../support/server-process.ts';

const { server, reason } = await startRedis();
afterAll(async () => await server?.stop());

/** Long enough that nothing runs out by itself while a test runs; half of it is the patience of a new connection. */
const LEASE_MS = 2_000;
const DUE = Date.parse('2026-11-20T22:30:00Z');
const tickOf = (dueAtMs: number, job = 'nightly'): Tick => ({ job, dueAtMs });

// A machine without Redis and without a way to install it; CI fails instead (`startRedis`).
describe.skipIf(reason !== undefined)('daemons that share a schedule', () => {
  const opened: Coordinator[] = [];
  let client: Redis;
  const open = (options: Partial<RedisCoordinatorOptions> = {}) => {
    const coordinator = openRedisCoordinator({
      url: server?.url ?? '',
      daemonId: `daemon-${opened.length}`,
      storeOf: () => 's3://drops/options',
      leaseMs: LEASE_MS,
      ...options,
    });
    opened.push(coordinator);
    return coordinator;
  };
  /** Daemons whose connections are old enough for taking over. */
  const openSteady = async (count: number) => {
    const all = Array.from({ length: count }, () => open());
    await Promise.all(all.map((coordinator) => coordinator.takeOver(['nightly'])));
    // As soon as a connection is old enough, this one's claim is handed to it.
    const probe = tickOf(0, 'probe');
    await open().claim(probe);
    for (const coordinator of all) {
      await runOut('probe');
      await untilTaken(coordinator, 'probe');
    }
    return all;
  };
  interface Shared {
    readonly open: Readonly<Record<string, { readonly owner: string; readonly until: number }>>;
  }
  const keyOf = async (job = 'nightly') => (await client.keys(`*:${encodeURIComponent(job)}`))[0] ?? '';
  const readShared = async () => JSON.parse((await client.get(await keyOf())) ?? '') as Shared;
  /** As if no claim of the job had been renewed for a lease. */
  const runOut = async (job = 'nightly') => {
    const key = await keyOf(job);
    await client.set(key, ((await client.get(key)) ?? '').replace(/"until":\d+/g, '"until":1'), 'KEEPTTL');
  };

  const untilTaken = async (coordinator: Coordinator | undefined, job = 'nightly') =>
    await vi.waitUntil(async () => (await coordinator?.takeOver([job]))?.length === 1, {
      interval: 50,
      timeout: 5_000,
    });

  beforeAll(() => {
    client = new Redis(server?.url ?? '');
    // The server is killed in between.
    client.on('error', () => undefined);
  });
  beforeEach(async () => void (await client.flushall()));
  afterEach(async () => {
    for (const coordinator of opened.splice(0)) await coordinator.close();
  });
  afterAll(() => client.disconnect());

  test('give a tick to one of twenty that ask at once, and again to the same one only', async () => {
    const all = Array.from({ length: 20 }, () => open());
    for (const due of [DUE, DUE + 60_000]) {
      const answers = await Promise.all(all.map((coordinator) => coordinator.claim(tickOf(due))));
      expect(answers.filter(Boolean)).toHaveLength(1);
      expect(await Promise.all(all.map((coordinator) => coordinator.claim(tickOf(due))))).toEqual(answers);
    }
  });

  test('share no ticks with jobs of another name, or into another store', async () => {
    const elsewhere = open({ storeOf: () => 's3://other/options' });
    expect(await open().claim(tickOf(DUE))).toBe(true);
    expect(await open().claim(tickOf(DUE, 'weekly'))).toBe(true);
    expect(await elsewhere.claim(tickOf(DUE))).toBe(true);
    expect(await open().claim(tickOf(DUE))).toBe(false);
  });

  test('do not run again what is complete, for as long as catch-up looks back', async () => {
    const [a, b] = [open(), open()];
    await a.claim(tickOf(DUE));
    await a.complete(tickOf(DUE));
    for (const answer of [await a.claim(tickOf(DUE)), await b.claim(tickOf(DUE)), await a.renew(tickOf(DUE))])
      expect(answer).toBe(false);
    for (const key of await client.keys('*')) expect(await client.pttl(key)).toBeGreaterThan(15 * 86_400_000);
    // Other ticks do not push it out before its time.
    for (let i = 1; i <= 200; i += 1) await a.claim(tickOf(DUE + i * 1000));
    expect(await b.claim(tickOf(DUE))).toBe(false);
  });

  test('keep a claim by renewing it, past its lease', async () => {
    const [other] = await openSteady(1);
    const a = open();
    await a.claim(tickOf(DUE));
    const readLease = async () => (await readShared()).open[DUE]?.until ?? 0;
    const before = await readLease();
    await vi.waitUntil(async () => (await a.renew(tickOf(DUE))) && (await readLease()) > before);
    expect(await other?.takeOver(['nightly'])).toEqual([]);
    // Late, but nobody has taken it over: it is handed to nobody, not to itself either.
    await other?.claim(tickOf(DUE + 1000));
    await runOut();
    expect(await a.renew(tickOf(DUE))).toBe(true);
    expect(await other?.takeOver(['nightly'])).toEqual([]);
    expect(await other?.renew(tickOf(DUE + 1000))).toBe(true);
  });

  test('hand the ticks of one that is gone to exactly one of many, by themselves when the lease is over', async () => {
    const all = await openSteady(8);
    const dead = open();
    const ticks = [DUE, DUE + 1000, DUE + 2000].map((due) => tickOf(due));
    for (const tick of ticks) await dead.claim(tick);
    await dead.close();
    const taken: Tick[] = [];
    await vi.waitUntil(
      async () => {
        taken.push(...(await Promise.all(all.map((other) => other.takeOver(['weekly', 'nightly'])))).flat());
        return taken.length > 0;
      },
      { timeout: 3 * LEASE_MS, interval: 20 },
    );
    taken.push(...(await Promise.all(all.map((other) => other.takeOver(['nightly'])))).flat());
    expect(taken.sort((a, b) => a.dueAtMs - b.dueAtMs)).toEqual(ticks);
    expect(await Promise.all(all.map((other) => other.claim(tickOf(DUE))))).toContain(true);
  });

  test('have said what ended just before they close', async () => {
    const daemon = open();
    const ticks = Array.from({ length: 50 }, (_, at) => tickOf(DUE + at * 1000));
    for (const tick of ticks) await daemon.claim(tick);
    const said = Promise.all(ticks.map((tick) => daemon.complete(tick)));
    await daemon.close();
    await said;
    expect((await readShared()).open).toEqual({});
  });

  test('let one that lost its tick neither renew nor complete it', async () => {
    const [late, next, third] = await openSteady(3);
    await late?.claim(tickOf(DUE));
    await runOut();
    expect(await next?.takeOver(['nightly'])).toEqual([tickOf(DUE)]);
    expect(await late?.renew(tickOf(DUE))).toBe(false);
    await late?.complete(tickOf(DUE));
    await runOut();
    // It was not completed by the one that had lost it, so it is taken over once more.
    expect(await third?.takeOver(['nightly'])).toEqual([tickOf(DUE)]);
    expect(await next?.renew(tickOf(DUE))).toBe(false);
    await third?.complete(tickOf(DUE));
    await runOut();
    expect(await late?.takeOver(['nightly'])).toEqual([]);
  });

  test('renew and complete by the store that the tick was claimed for, when the job file changes meanwhile', async () => {
    let store = 's3://drops/options';
    const a = open({ storeOf: () => store });
    await a.claim(tickOf(DUE));
    store = 's3://drops/new';
    expect(await a.renew(tickOf(DUE))).toBe(true);
    await a.complete(tickOf(DUE));
    expect(await open().claim(tickOf(DUE))).toBe(false);
    const [other] = await openSteady(1);
    expect(await other?.takeOver(['nightly'])).toEqual([]);
  });

  test('are told by a fault in seconds while the server is away, without its password, and go on when it is back', async () => {
    const [a, b] = [open(), open()];
    await a.claim(tickOf(DUE));
    await a.claim(tickOf(DUE + 1000));
    await server?.kill();
    const startedAt = performance.now();
    const calls = [
      a.claim(tickOf(DUE + 2000)),
      b.claim(tickOf(DUE)),
      a.renew(tickOf(DUE)),
      a.complete(tickOf(DUE + 1000)),
      b.takeOver(['nightly']),
    ];
    for (const outcome of await Promise.allSettled(calls)) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: {
          code: 'COORDINATOR_REDIS_FAILED',
          message: expect.stringContaining(`127.0.0.1:${server?.port}`),
          hint: expect.stringContaining('FLOWDROP_REDIS_URL'),
        },
      });
      expect(String(outcome.status === 'rejected' && outcome.reason)).not.toContain(server?.password ?? '?');
    }
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    await server?.revive();
    // It came back empty. Whoever runs a tick tells of it when it renews, and what ended meanwhile is said again.
    await vi.waitFor(async () => expect(await a.renew(tickOf(DUE))).toBe(true));
    await a.takeOver(['nightly']);
    expect([await b.claim(tickOf(DUE)), await b.claim(tickOf(DUE + 1000))]).toEqual([false, false]);
  });

  test('take nothing over in the first moments of a connection, so that the living renew first', async () => {
    const [a, b] = await openSteady(2);
    await a?.claim(tickOf(DUE));
    await runOut();
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    expect(await b?.takeOver(['nightly'])).toEqual([]);
    expect(await a?.renew(tickOf(DUE))).toBe(true);
    await runOut();
    // When nobody does, it is taken over after all.
    await untilTaken(b);
  });

  test('and share their budget with the rights that docs/operations.md gives to a user of Redis, and no others', async () => {
    const text = await readFile(join(REPO, 'docs/operations.md'), 'utf8');
    const rights = /`(~flowdrop:schedule:[^`]*)`/.exec(text)?.[1]?.split(' ') ?? [];
    await client.call('ACL', 'SETUSER', 'flowdrop', 'reset', 'on', '>user-4711', ...rights);
    const url = `redis://flowdrop:user-4711@127.0.0.1:${server?.port}`;
    const a = open({ url });
    const answers = [await a.claim(tickOf(DUE)), await a.renew(tickOf(DUE)), await a.takeOver(['nightly'])];
    expect(answers).toEqual([true, true, []]);
    await a.complete(tickOf(DUE));
    expect(await a.claim(tickOf(DUE + 1000))).toBe(true);
    await runOut();
    const b = open({ url });
    await untilTaken(b);
    const cell = createRedisCell(url, 'rights');
    expect(await cell.update(() => ({ state: UNUSED, result: 'written' }))).toBe('written');
    await cell.close();
    const user = new Redis(url);
    await expect(user.get('other')).rejects.toThrow(/NOPERM/);
    user.disconnect();
  });

  test('take nothing over by a call that a lost connection held up until the server came back', async () => {
    await open().claim(tickOf(DUE));
    const key = await keyOf();
    const text = (await client.get(key)) ?? '';
    const [seconds] = await client.time();
    const swap = async (askedAtMs: number) => await client.eval(SWAP_SCRIPT, 1, key, text, 'changed', 1_000, askedAtMs);
    expect(await swap(Number(seconds) * 1000 - 3_000)).toBe(0);
    expect(await swap(Number(seconds) * 1000)).toBe(1);
  });

  test('are told the server’s reason when the password is wrong', async () => {
    const wrong = open({ url: `redis://:not-this@127.0.0.1:${server?.port}` });
    await expect(wrong.claim(tickOf(DUE))).rejects.toMatchObject({
      code: 'COORDINATOR_REDIS_FAILED',
      message: expect.stringMatching(/WRONGPASS|NOAUTH/),
    });
  });
});

describe('a daemon', () => {
  const compose = async (env: Record<string, string>, to: string, cwd = REPO) =>
    await openCoordinator(
      createOpeners({ env, cwd, packageDir: REPO, writeErr: () => undefined, interactive: false, debug: false }),
      'daemon',
      () => to,
    );

  test('has a coordinator where FLOWDROP_REDIS_URL is set, and connects only when it is asked', async () => {
    expect(await compose({}, 'drops')).toBeUndefined();
    const coordinator = await compose({ FLOWDROP_REDIS_URL: `redis://127.0.0.1:${await findFreePort()}` }, 'drops');
    await coordinator?.close();
    await expect(compose({ FLOWDROP_REDIS_URL: 'http://:secret-4711@127.0.0.1' }, 'drops')).rejects.toMatchObject({
      code: 'SETTING_INVALID',
      message: expect.not.stringContaining('secret-4711'),
    });
  });

  // As above.
  test.skipIf(reason !== undefined)(
    'knows one store by all the ways in which it is written, and others apart',
    async () => {
      const folder = await makeFolder();
      const url = { FLOWDROP_REDIS_URL: server?.url ?? '' };
      const answers = [];
      for (const [env, to, cwd] of [
        [url, 's3://drops/options', REPO],
        [url, 's3://drops/options/', folder.path],
        [{ ...url, AWS_ENDPOINT_URL_S3: 'https://other.example.com' }, 's3://drops/options', REPO],
        [url, 'drops', folder.path],
        [url, `${folder.path}/drops/`, REPO],
        [url, 'drops', REPO],
      ] as const) {
        const coordinator = await compose(env, to, cwd);
        answers.push(await coordinator?.claim(tickOf(DUE, folder.path)));
        await coordinator?.close();
      }
      await folder.remove();
      expect(answers).toEqual([true, false, true, true, false, true]);
    },
  );
});
