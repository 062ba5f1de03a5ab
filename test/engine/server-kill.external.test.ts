/** A query with a name that is given up also ends on the server: a real one, where it would run for ever. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { openServerEngine } from '../../src/engine/server.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';

const { server } = await startClickHouse();

// Skipped only where no server can be had; CI throws instead of skipping.
test.skipIf(server === undefined)('an aborted query is killed on the server', async () => {
  const engine = await openServerEngine({ url: server?.adminUrl ?? '' });
  try {
    const queryId = `flowdrop-${randomUUID()}`;
    const running = async () =>
      (await engine.rows(`SELECT query_id FROM system.processes WHERE query_id = '${queryId}'`)).length;
    const controller = new AbortController();
    const asked = engine.stream('SELECT count() FROM system.numbers', 'CSV', { queryId, signal: controller.signal });
    asked.catch(() => {});
    await expect.poll(running, { timeout: 10_000 }).toBe(1);
    controller.abort();
    await expect(asked).rejects.toThrow();
    await expect.poll(running, { timeout: 10_000 }).toBe(0);
  } finally {
    await engine.close();
  }
});
