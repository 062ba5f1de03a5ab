/**
 * Two daemons as a user starts them, with one store, one Redis and one shared job; one dies in a run. The long form is
 * `npm run daemons`. What Redis promises is tested in `redis-coordinator.external.test.ts`.
 */
import { afterAll, describe, expect, it } from 'vitest';
import { LEASE_MS } from '../../src/daemon/state.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { startRedis } from '../support/redis-server.ts';
import { liveThroughTicks } from './shared-ticks.ts';
import { countSharedTicks } from './shared-ticks-count.ts';
import { planHits } from './shared-ticks-plan.ts';

/** What a busy machine takes until a take-over is seen in the log. */
const SLOW_MS = 5_000;

const { server, reason } = await startRedis({ isKept: true });
afterAll(async () => await server?.stop());

it('what befalls daemons is spread over the ticks, in runs where there is a day to seal, and never at the first', () => {
  const hits = planHits({ ticks: 100, kills: 5, stops: 2, outages: 4, everyNth: 4 });
  expect(hits.size).toBe(11);
  expect([...hits].filter(([at]) => at % 4 === 0).map(([, hit]) => hit)).toEqual([
    ...['killed-in-run', 'killed-sealed', 'killed-without-run', 'killed-in-run'],
    ...['stopped-in-run', 'redis-killed-in-run', 'api-held'],
  ]);
  expect([...hits.keys()]).not.toContain(0);
  expect(() => planHits({ ticks: 4, kills: 1, stops: 0, outages: 0, everyNth: 4 })).toThrow('1 hits in a run, and 0');
});

// A machine without Redis and without a way to install it; CI fails instead (`startRedis`).
describe.skipIf(server === undefined)(
  `a schedule that two daemons share${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    it('is caught up by one, and by the other when that one dies with its run: nothing is lost or doubled', async () => {
      if (!server) throw new Error(reason);
      const folder = await makeFolder();
      try {
        const hits = { kills: 1, stops: 0, outages: 0 };
        const lived = await liveThroughTicks({
          ...{ folder: folder.path, redis: server, daemons: 2, ticks: 3, ticksADay: 2 },
          ...{ ...hits, seed: Date.now() % 1_000_000 },
        });
        const { problems, lines } = await countSharedTicks(lived, server);
        expect(problems, lines.join('\n')).toEqual([]);
        const [first, , last] = lived.ticks;
        expect(first).toMatchObject({ hit: undefined });
        expect(last).toMatchObject({ hit: 'killed-in-run' });
        // The lease, and half of it until somebody looks.
        expect(last?.takenOverAfterMs).toBeGreaterThan(LEASE_MS / 2);
        expect(last?.takenOverAfterMs).toBeLessThan(1.5 * LEASE_MS + SLOW_MS);
      } finally {
        await folder.remove();
      }
    }, 300_000);
  },
);
