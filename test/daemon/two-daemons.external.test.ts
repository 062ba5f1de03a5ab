/**
 * Two daemons reduced to their schedules on a real Redis, a tick a second, whose runs overlap; one is killed with several.
 * Whole daemons are in `shared-ticks.external.test.ts`, the coordinator by itself in `redis-coordinator.external.test.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { makeFolder } from '../support/flowdrop.ts';
import { startRedis } from '../support/redis-server.ts';
import { runTwoDaemons } from './two-daemons.ts';

const { server, reason } = await startRedis();
afterAll(async () => await server?.stop());

// A machine without Redis and without a way to install it; CI fails instead (`startRedis`).
describe.skipIf(reason !== undefined)('two daemons', () => {
  test('complete each of 20 ticks once, and the one takes over what the other was killed in', async () => {
    const folder = await makeFolder();
    const file = join(folder.path, 'lines');
    await writeFile(file, '');
    const seed = Date.now() % 1_000_000;
    const result = await runTwoDaemons({
      ...{ url: server?.url ?? '', file, ticks: 20, kills: 1, seed },
      // A quarter of it between renewals, which a busy machine must not miss three times.
      ...{ leaseMs: 4_000, workSeconds: 1 },
    });
    await folder.remove();
    expect(result, `seed ${seed}`).toMatchObject({
      completed: 20,
      lost: [],
      doubled: [],
      startedTwice: [],
      faults: [],
    });
    expect(result.killed.length).toBeGreaterThan(0);
    expect(result.takenOver).toEqual(result.killed);
    // A tick that is lost is waited for until it should long have been taken over.
  }, 90_000);
});
