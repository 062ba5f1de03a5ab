/**
 * One request budget for several machines, on a real Redis: a machine is a state folder of its own. What the server did is
 * read from the server itself, so that a busy machine cannot make a right pace look wrong.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createComposition } from '../../src/compose.ts';
import { BUDGETS, paceOf } from '../../src/source/pace/budget.ts';
import type { Permit } from '../../src/source/pace/permit.ts';
import { openRedisPermit } from '../../src/source/pace/redis.ts';
import { MAX_RETRY_AFTER_MS } from '../../src/source/pacer.ts';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';
import { createPaceProcesses, type PaceProcess } from '../support/pace-process.ts';
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

const gapsOf = (times: readonly number[]) => times.slice(1).map((time, i) => time - (times[i] ?? 0));
const startsOf = (processes: readonly PaceProcess[]) => processes.flatMap(({ starts }) => starts).sort((a, b) => a - b);

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
    const granted: number[] = [];
    let last = '';
    // Each run of the script writes what is used up; a start moves it.
    monitor.on('monitor', (time: string, args: readonly string[]) => {
      const [command = '', key = '', field = '', paced = ''] = args;
      if (command.toUpperCase() !== 'HSET' || !key.startsWith('flowdrop-pace:') || field !== 'paced_until') return;
      if (paced !== last) granted.push(Number(time) * 1000);
      last = paced;
    });
    const machines = await Promise.all(['a', 'b'].map((name) => openMachine(name, redisUrl, rate)));
    await Promise.all(machines.map((machine) => machine.follow({ take: 40 })));
    await vi.waitUntil(() => granted.length >= 81);
    monitor.disconnect();
    const starts = startsOf(machines);
    expect(starts).toHaveLength(80);
    // The first write is no start: nothing was known, so everything counts as used up.
    expect(granted).toHaveLength(81);
    // The monitor's times are a moment later than the script's.
    expect(Math.min(...gapsOf(granted.slice(1)))).toBeGreaterThanOrEqual(intervalMs - 1);
    const sorted = gapsOf(granted.slice(1)).sort((a, b) => a - b);
    expect(sorted[sorted.length >> 1]).toBeLessThan(intervalMs * 1.5);
    const to = Math.min(...machines.map((machine) => machine.starts.at(-1) ?? 0));
    const shares = machines.map((machine) => machine.starts.filter((at) => at <= to).length);
    expect(Math.min(...shares) / shares.reduce((sum, share) => sum + share, 0)).toBeGreaterThan(0.3);
    expect(await machines[0]?.end()).toBe(0);
  });

  test('slow down together at a 429, and obey its pause to the second', async () => {
    const machines = await Promise.all(['a', 'b'].map((name) => openMachine(name, server?.url ?? '', 25)));
    const [told, other] = machines;
    await Promise.all(machines.map((machine) => machine.follow({ take: 2 })));
    const at = Date.now();
    await told?.follow({ slowDownMs: 1000 });
    await other?.follow({ take: 4 });
    const after = (other?.starts ?? []).filter((start) => start >= at);
    expect(after).toHaveLength(4);
    expect((after[0] ?? 0) - at).toBeGreaterThanOrEqual(999);
    expect((after[0] ?? 0) - at).toBeLessThan(2000);
    // Three intervals of twice 40 ms; at the old pace they would take 120 ms.
    expect((after[3] ?? 0) - (after[0] ?? 0)).toBeGreaterThanOrEqual(160);
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
describe.skipIf(reason !== undefined)('the permission of all machines', () => {
  const pace = paceOf(BUDGETS.chain, MAX_RETRY_AFTER_MS);
  let client: Redis;
  let permit: Permit;
  let key: string;
  beforeEach(() => {
    client = new Redis(server?.url ?? '');
    client.on('error', () => undefined);
    permit = openRedisPermit(server?.url ?? '', folder.path, pace, { patienceMs: 1_000 });
    key = `flowdrop-pace:${folder.path}`;
  });
  afterEach(async () => {
    await permit.close();
    client.disconnect();
  });

  const ask = async (times: number) => {
    const answers: number[] = [];
    for (let i = 0; i < times; i += 1) answers.push(await permit.ask());
    return answers;
  };
  /** As if the last start were long ago. */
  const rest = () => client.hset(key, 'paced_until', '0', 'blocked_until', '0');

  test('starts with one whole interval, because what the server knew may be lost', async () => {
    const [first = 0] = await ask(1);
    expect(first).toBeGreaterThan(900);
    expect(first).toBeLessThanOrEqual(1010);
  });

  test('grants a burst that was saved up, and no more', async () => {
    await ask(1);
    await rest();
    const answers = await ask(12);
    expect(answers.slice(0, 10)).toEqual(Array.from({ length: 10 }, () => 0));
    expect(Math.min(...answers.slice(10))).toBeGreaterThan(500);
    expect(Math.max(...answers.slice(10))).toBeLessThanOrEqual(1010);
  });

  test('is slower after a 429 that counts, to an eighth at most, and recovers after twenty starts', async () => {
    await ask(1);
    await permit.slowDown(0, undefined);
    await permit.slowDown(0, 60_000);
    expect(await client.hget(key, 'slowdown')).toBe('2');
    for (let i = 0; i < 4; i += 1) {
      await rest();
      await ask(1);
      await permit.slowDown(0, undefined);
    }
    expect(await client.hget(key, 'slowdown')).toBe('8');
    for (let i = 0; i < 20; i += 1) {
      await rest();
      expect(await ask(1)).toEqual([0]);
    }
    expect(await client.hget(key, 'slowdown')).toBe('4');
  });

  test('does not believe times that cannot be', async () => {
    await ask(1);
    await client.hset(key, 'paced_until', '99999999999999999');
    expect(Math.max(...(await ask(1)))).toBeLessThanOrEqual(1010);
    await rest();
    await client.hset(key, 'blocked_until', '99999999999999999');
    expect(Math.max(...(await ask(1)))).toBeLessThanOrEqual(1010);
  });

  test('is refused with a fault while the server stays away, and given again when it is back', async () => {
    await ask(1);
    await server?.kill();
    await expect(permit.ask()).rejects.toMatchObject({
      code: 'PACE_REDIS_FAILED',
      message: expect.stringContaining(`127.0.0.1:${server?.port}`),
    });
    await server?.revive();
    await vi.waitFor(async () => expect(await permit.ask()).toBeGreaterThanOrEqual(0));
  });

  test('is refused with the server’s reason when the password is wrong', async () => {
    const wrong = openRedisPermit(`redis://:not-this@127.0.0.1:${server?.port}`, 'key', pace);
    await expect(wrong.ask()).rejects.toMatchObject({
      code: 'PACE_REDIS_FAILED',
      message: expect.stringMatching(/WRONGPASS|NOAUTH/),
    });
    await wrong.close();
  });
});

describe('FLOWDROP_REDIS_URL', () => {
  const compose = (env: Record<string, string>) =>
    createComposition({
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
    const composition = compose({ FLOWDROP_REDIS_URL_FILE: 'redis-url' });
    const source = await composition.openSource('historical', createSilentLog(), 0);
    const fault = await source.ask('SELECT 1').catch((error: unknown) => error);
    expect(fault).toMatchObject({
      code: 'PACE_REDIS_FAILED',
      message: expect.stringContaining(`127.0.0.1:${port}`),
      hint: expect.stringContaining('FLOWDROP_REDIS_URL'),
    });
    expect(String(fault)).not.toContain('secret-4711');
    expect(source.stats.requests).toBe(0);
    expect(composition.redact('x secret-4711 y')).toBe('x [secret] y');
    await composition.close();
  });

  test.each(['http://:secret-4711@127.0.0.1', '127.0.0.1:6379#secret-4711', 'redis://', 'redis:secret-4711'])(
    'is refused when it is %s, and not repeated',
    async (value) => {
      const composition = compose({ FLOWDROP_REDIS_URL: value });
      const fault = await composition.openSource('historical', createSilentLog(), 0).catch((error: unknown) => error);
      expect(fault).toMatchObject({ code: 'SETTING_INVALID', message: expect.stringContaining('FLOWDROP_REDIS_URL') });
      expect(String(fault)).not.toContain('secret-4711');
    },
  );
});
