/**
 * One request budget for several machines, on a real Redis: a machine is a state folder of its own. What the server did is
 * read from the server itself, so that a busy machine cannot make a right pace look wrong.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createOpeners } from '../../src/openers.ts';
import { createRedisCell } from '../../src/source/pace/redis-cell.ts';
import { BUDGETS, paceOf } from '../../src/source/pace/reservations.ts';
import { createCellPacer, MAX_RETRY_AFTER_MS, type Pacer } from '../../src/source/pacer.ts';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';
import { createPaceProcesses, type PaceProcess, startsOf } from '../support/pace-process.ts';
import { gapsOf } from '../support/pacer.ts';
import { startRedis } from '../support/redis-server.ts';
import { findFreePort } from '../support/server-process.ts';

const { server, reason } = await startRedis();
const pool = createPaceProcesses();
let folder: Awaited<ReturnType<typeof makeFolder>>;
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(async () => {
  await pool.release();
  await folder.remove();
});
afterAll(async () => {
  await pool.stop();
  await server?.stop();
});

/** A process on a machine of its own. */
async function openMachine(name: string, redisUrl: string, requestsPerSecond: number): Promise<PaceProcess> {
  const stateDir = join(folder.path, name);
  return await pool.open({ budget: 'historical', stateDir, apiKey: folder.path, requestsPerSecond, redisUrl });
}

// A machine without Redis and without a way to install it; CI fails instead (`startRedis`).
describe.skipIf(reason !== undefined)('machines that share a budget', () => {
  let client: Redis;
  beforeAll(() => {
    client = new Redis(server?.url ?? '');
    // The server is killed in between; what matters is what the pacer makes of it.
    client.on('error', () => undefined);
  });
  afterAll(() => client.disconnect());

  test('never start closer than the interval, keep it full, and get half each', async () => {
    const [redisUrl, rate] = [server?.url ?? '', 25];
    const intervalMs = (1000 / rate) * 1.01;
    const monitor = await client.monitor();
    /** Times of the server's clock up to which the starts so far have used the budget; each start moves it on. */
    const paced: number[] = [];
    monitor.on('monitor', (_time: string, [command = '', key = '', value = '']: readonly string[]) => {
      if (command.toUpperCase() !== 'SET' || !key.startsWith('flowdrop:pace:')) return;
      const { paced_until } = JSON.parse(value) as { paced_until: number };
      if (paced_until !== paced.at(-1)) paced.push(paced_until);
    });
    const machines = await Promise.all(['a', 'b'].map((name) => openMachine(name, redisUrl, rate)));
    await Promise.all(machines.map((machine) => machine.follow({ take: 40 })));
    await vi.waitUntil(() => paced.length >= 81);
    monitor.disconnect();
    const starts = startsOf(machines);
    expect(starts).toHaveLength(80);
    // The first write is no start: nothing was known, so everything counts as used up.
    expect(paced).toHaveLength(81);
    expect(Math.min(...gapsOf(paced.slice(1)))).toBeGreaterThanOrEqual(intervalMs - 0.01);
    const sorted = gapsOf(paced.slice(1)).sort((a, b) => a - b);
    expect(sorted[sorted.length >> 1]).toBeLessThan(intervalMs * 1.5);
    const to = Math.min(...machines.map((machine) => machine.starts.at(-1) ?? 0));
    const shares = machines.map((machine) => machine.starts.filter((at) => at <= to).length);
    expect(Math.min(...shares) / shares.reduce((sum, share) => sum + share, 0)).toBeGreaterThan(0.3);
    expect(await machines[0]?.end()).toBe(0);
  });

  test('go on after the server was killed and came back empty, and never in between', async () => {
    const machines = await Promise.all(['a', 'b'].map((name) => openMachine(name, server?.url ?? '', 10)));
    const all = machines.map((machine) => machine.follow({ take: 8 }));
    await vi.waitUntil(() => startsOf(machines).length >= 4, { interval: 5 });
    await server?.kill();
    const away = Date.now();
    await server?.revive();
    const back = Date.now();
    await Promise.all(all);
    const starts = startsOf(machines);
    expect(starts).toHaveLength(16);
    // Each machine may have read a last answer a moment after the server was killed.
    const after = starts.filter((at) => at > away);
    expect(after.filter((at) => at < back - 50).length).toBeLessThanOrEqual(machines.length);
    expect((after.at(-1) ?? 0) - away).toBeGreaterThanOrEqual((after.length - machines.length) * 101);
  });
});

// As above.
describe.skipIf(reason !== undefined)('a budget in Redis', () => {
  const pace = paceOf({ ...BUDGETS.chain, requestsPerSecond: 10 }, MAX_RETRY_AFTER_MS);
  let pacer: Pacer;
  const openPacer = (url = server?.url ?? '', clock = systemClock) =>
    createCellPacer(clock, pace, createRedisCell(url, folder.path, 1_000));
  beforeEach(() => {
    pacer = openPacer();
  });
  afterEach(() => pacer.close());

  test('keeps what a 429 taught it from night to night, and the 429 holds back other machines', async () => {
    await pacer.acquire();
    await pacer.slowDown(600_000);
    await pacer.close();
    const client = new Redis(server?.url ?? '');
    expect(await client.pttl(`flowdrop:pace:${folder.path}`)).toBeGreaterThan(7 * 86_400_000);
    client.disconnect();
    const waits: number[] = [];
    const stopped = new Error('it waits');
    const sleep = async (ms: number) => {
      waits.push(ms);
      throw stopped;
    };
    pacer = openPacer(server?.url, { ...systemClock, sleep });
    await expect(pacer.acquire()).rejects.toBe(stopped);
    expect(waits).toEqual([expect.closeTo(600_000, -5)]);
    expect(pacer.intervalMs()).toBeCloseTo(1.02 * pace.intervalMs);
  });

  test('is refused with a fault while the server stays away, and given again when it is back', async () => {
    await pacer.acquire();
    await server?.kill();
    await expect(pacer.acquire()).rejects.toMatchObject({
      code: 'PACE_REDIS_FAILED',
      message: expect.stringContaining(`127.0.0.1:${server?.port}`),
    });
    await server?.revive();
    await vi.waitFor(async () => await pacer.acquire());
  });

  test('is refused with the server’s reason when the password is wrong', async () => {
    const wrong = openPacer(`redis://:not-this@127.0.0.1:${server?.port}`);
    await expect(wrong.acquire()).rejects.toMatchObject({
      code: 'PACE_REDIS_FAILED',
      message: expect.stringMatching(/WRONGPASS|NOAUTH/),
    });
    await wrong.close();
  });
});

describe('FLOWDROP_REDIS_URL', () => {
  const compose = (env: Record<string, string>) =>
    createOpeners({
      env: { FLOWDROP_API_KEY: 'key_4711', FLOWDROP_API_URL: 'http://127.0.0.1:9', ...env },
      cwd: folder.path,
      packageDir: REPO,
      writeErr: () => undefined,
      interactive: false,
      debug: false,
    });

  test('at which nobody answers is a fault in seconds, without its password, and nothing is sent', async () => {
    const port = await findFreePort();
    await writeFile(join(folder.path, 'redis-url'), `redis://:secret-4711@127.0.0.1:${port}\n`);
    const openers = compose({ FLOWDROP_REDIS_URL_FILE: 'redis-url' });
    const source = await openers.openSource({ api: 'historical', key: null }, createSilentLog(), 0);
    const fault = await source.ask('SELECT 1').catch((error: unknown) => error);
    expect(fault).toMatchObject({
      code: 'PACE_REDIS_FAILED',
      message: expect.stringContaining(`127.0.0.1:${port}`),
      hint: expect.stringContaining('FLOWDROP_REDIS_URL'),
    });
    expect(String(fault)).not.toContain('secret-4711');
    expect(source.stats.requests).toBe(0);
    expect(openers.redact('x secret-4711 y')).toBe('x [secret] y');
    await openers.close();
  });

  test.each(['http://:secret-4711@127.0.0.1', '127.0.0.1:6379#secret-4711', 'redis://', 'redis:secret-4711'])(
    'is refused when it is %s, and not repeated',
    async (value) => {
      const openers = compose({ FLOWDROP_REDIS_URL: value });
      const fault = await openers
        .openSource({ api: 'historical', key: null }, createSilentLog(), 0)
        .catch((error: unknown) => error);
      expect(fault).toMatchObject({ code: 'SETTING_INVALID', message: expect.stringContaining('FLOWDROP_REDIS_URL') });
      expect(String(fault)).not.toContain('secret-4711');
    },
  );
});
