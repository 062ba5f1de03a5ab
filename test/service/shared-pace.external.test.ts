/**
 * Two services behind one address that share a real Redis: together they admit no more than one would, and without Redis
 * nobody is admitted.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { KEY, startService, type TestService } from '../support/flowdrop.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const { server, reason } = await startRedis();

const RATE = 10;
const CLIENTS = 200;
const LOAD_MS = 5_000;
const OTHER_KEY = 'cus_second_desk_4712';
const ARGS = ['--generate', '1', '--generate-rows', '500', '--key', OTHER_KEY, '--requests-per-second', String(RATE)];

let services: readonly TestService[] = [];
/** In `describe`, it is there. */
const redis = server as RedisServer;

async function ask({ url }: TestService, apiKey: string): Promise<Response> {
  const sql = "SELECT count() AS n FROM RawOptionTrades WHERE symbol = 'SPY'";
  return await fetch(url + HISTORICAL_PATH, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ sql, api_key: apiKey }),
  });
}

const statusOf = async (response: Response): Promise<number> => {
  await response.arrayBuffer();
  return response.status;
};

// Skipped only where no Redis can be had, which `support/` says aloud; CI never skips it.
describe.skipIf(server === undefined)(`services that share Redis${reason === undefined ? '' : ` (${reason})`}`, () => {
  beforeAll(async () => {
    const start = () => startService(ARGS, { FLOWDROP_REDIS_URL: redis.url });
    services = await Promise.all([start(), start()]);
  }, 60_000);
  afterAll(async () => {
    for (const service of services) await service.stop();
    await redis?.stop();
  });

  it('admit together what one would, whoever asks whom', async () => {
    const admitted = new Map<string, number>();
    const statuses = new Set<number>();
    const from = performance.now();
    const client = async (at: number): Promise<void> => {
      const key = at % 2 === 0 ? KEY : OTHER_KEY;
      for (let call = at; performance.now() < from + LOAD_MS; call += 1) {
        const service = services[call % services.length] as TestService;
        const status = await statusOf(await ask(service, key));
        statuses.add(status);
        if (status === 200) admitted.set(key, (admitted.get(key) ?? 0) + 1);
        // Not in step, so that a budget is asked for all the time.
        await delay(100 + (at % 10) * 20);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, at) => client(at)));
    const seconds = (performance.now() - from) / 1000;
    expect([...statuses].sort()).toEqual([200, 429]);
    for (const key of [KEY, OTHER_KEY]) {
      const count = admitted.get(key) ?? 0;
      console.log(`${count} of ${Math.floor(seconds * RATE)} requests of a key in ${seconds.toFixed(1)} s`);
      expect(count).toBeLessThanOrEqual(Math.ceil(seconds * RATE) + 1);
      expect(count).toBeGreaterThan(RATE);
    }
    for (const { requests } of services) expect(requests.some(({ status }) => status === 200)).toBe(true);
  }, 60_000);

  it('admit nobody while Redis is down, and go on when it is back', async () => {
    const [first] = services as readonly [TestService];
    await redis.kill();
    const refused = await ask(first, KEY);
    expect(refused.status).toBe(500);
    expect(await refused.json()).toMatchObject({ errorCode: 'INTERNAL_ERROR' });
    await redis.revive();
    await expect.poll(async () => await statusOf(await ask(first, KEY)), { timeout: 20_000, interval: 300 }).toBe(200);
  }, 40_000);

  it('do not start without the Redis of their setting', async () => {
    const started = startService(ARGS, { FLOWDROP_REDIS_URL: 'redis://127.0.0.1:1/0' });
    await expect(started).rejects.toThrow(/SERVICE_REDIS_FAILED.*127\.0\.0\.1:1/s);
  });
});
