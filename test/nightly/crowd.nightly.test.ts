/**
 * Two services behind one address, over a real cluster of four nodes and a real Redis, asked by 200 clients while one node
 * is killed, one hangs, and one comes back without its data: no wrong answer, and no key gets more than its budget. Errors
 * are counted and printed.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { EVENING } from '../service/running-service.ts';
import { CLUSTER, startCluster } from '../support/clickhouse-cluster.ts';
import { startService, type TestService } from '../support/flowdrop.ts';
import { startRedis } from '../support/redis-server.ts';
import { createTrade } from '../support/trades.ts';

const [{ server: cluster, reason: noCluster }, { server: redis, reason: noRedis }] = [
  await startCluster(),
  await startRedis(),
];
const reason = noCluster ?? noRedis;

const SECONDS = 100;
const CLIENTS = 200;
/** Requests a second of each key. */
const RATE = 5;
const KEYS = ['cus_crowd_a', 'cus_crowd_b', 'cus_crowd_c', 'cus_crowd_d'];
const ROWS = 10_000;
const SUM = 'SELECT count() AS n, uniqExact(id) AS ids, sum(size) AS size FROM RawOptionTrades';
/** Parts of the time at which something happens to a node. */
const [KILLED, HUNG, RESUMED, EMPTY] = [0.15, 0.35, 0.55, 0.7];

// Skipped only where no cluster or no Redis can be had, which `support/` says aloud; CI never skips it.
describe.skipIf(reason !== undefined)(
  `two services over a cluster${reason === undefined ? '' : ` (${reason})`}`,
  () => {
    let folder: string;
    let services: readonly TestService[] = [];
    let expected: object;

    beforeAll(async () => {
      if (cluster === undefined || redis === undefined) return;
      folder = await mkdtemp(join(tmpdir(), 'flowdrop-crowd-'));
      const file = join(folder, 'trades.ndjson');
      const trades = Array.from({ length: ROWS }, (_, k) => createTrade(k));
      await writeFile(file, trades.map((trade) => JSON.stringify(trade)).join('\n'));
      expected = { n: ROWS, ids: ROWS, size: trades.reduce((sum, trade) => sum + Number(trade['size']), 0) };
      const start = async (...args: readonly string[]) =>
        await startService(
          [
            ...['--as-of', EVENING, '--cluster', CLUSTER, '--concurrency', '8', '--requests-per-second', String(RATE)],
            ...cluster.nodes.flatMap(({ readerUrl }) => ['--clickhouse-url', readerUrl]),
            ...KEYS.flatMap((key) => ['--key', key]),
            ...args,
          ],
          { FLOWDROP_REDIS_URL: redis.url, FLOWDROP_CLICKHOUSE_ADMIN_URL: cluster.nodes[0].adminUrl },
        );
      services = [await start('--data', file), await start()];
    }, 300_000);
    afterAll(async () => {
      for (const service of services) await service.stop();
      await cluster?.stop();
      await redis?.stop();
      if (folder) await rm(folder, { recursive: true, force: true });
    });

    it(
      'give no wrong answer and no key more than its budget, whatever happens to the nodes',
      async () => {
        if (cluster === undefined) return;
        const from = performance.now();
        const secondsSince = () => (performance.now() - from) / 1000;
        const admitted = new Map<string, number>();
        const statuses = new Map<number, number>();
        const slowest = new Map<number, number>();
        const wrong: unknown[] = [];
        const client = async (at: number): Promise<void> => {
          const key = KEYS[at % KEYS.length] as string;
          for (let call = at; secondsSince() < SECONDS; call += 1) {
            const { url } = services[call % services.length] as TestService;
            const asked = secondsSince();
            const response = await fetch(url + HISTORICAL_PATH, {
              method: 'POST',
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify({ sql: SUM, api_key: key }),
            });
            const body = (await response.json()) as { readonly data?: readonly object[] };
            const { status } = response;
            statuses.set(status, (statuses.get(status) ?? 0) + 1);
            slowest.set(status, Math.max(secondsSince() - asked, slowest.get(status) ?? 0));
            if (status !== 429) admitted.set(key, (admitted.get(key) ?? 0) + 1);
            if (status === 200 && JSON.stringify(body.data) !== JSON.stringify([expected])) wrong.push(body);
            await delay(100 + (at % 10) * 20);
          }
        };
        const at = async (part: number, act: () => Promise<void> | void) => {
          await delay(part * SECONDS * 1000);
          await act();
        };
        const [, hung, , lost] = cluster.nodes;
        await Promise.all([
          ...Array.from({ length: CLIENTS }, (_, index) => client(index)),
          at(KILLED, () => lost.kill()),
          at(HUNG, () => hung.hang()),
          at(RESUMED, () => hung.resume()),
          at(EMPTY, () => lost.start(true)),
        ]);
        const seconds = secondsSince();
        const counts = [...statuses].sort(([a], [b]) => a - b);
        const line = ([status, count]: readonly [number, number]) =>
          `${status} x${count} (slowest ${slowest.get(status)?.toFixed(1)} s)`;
        console.log(`${seconds.toFixed(0)} s: ${counts.map(line).join(', ')}; ${wrong.length} wrong answers`);
        for (const key of KEYS) {
          const count = admitted.get(key) ?? 0;
          console.log(`${key}: ${count} of ${Math.ceil(seconds * RATE)} requests admitted`);
          expect(count).toBeLessThanOrEqual(Math.ceil(seconds * RATE) + 1);
        }
        expect(wrong).toEqual([]);
        expect(statuses.get(200)).toBeGreaterThan(SECONDS);
        // Whatever else there is says that the query took too long.
        expect(counts.map(([status]) => status).filter((status) => ![200, 429, 504].includes(status))).toEqual([]);
      },
      SECONDS * 1000 + 120_000,
    );
  },
);
