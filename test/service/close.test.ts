/** Stopping: requests in flight finish, new ones are not taken, and the engine is left without the service's tables. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { startTestService } from './running-service.ts';

let engine: Engine;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
});
afterAll(() => engine.close());

test('a request in flight is answered, later ones find nobody', async () => {
  const service = await startTestService({ generateSessions: 1, generateRows: 3_000 }, engine);
  let arrived = false;
  const slow = service
    .ask('SELECT count() AS n FROM RawOptionTrades a CROSS JOIN RawOptionTrades b WHERE a.size + b.size > 0')
    .then((reply) => {
      arrived = true;
      return reply;
    });
  // The request has reached the service once another one, sent after it, is answered.
  await service.send('/healthz', { method: 'GET' });
  const closed = service.close().then(() => arrived);
  const reply = await slow;
  expect([reply.status, reply.body.data]).toEqual([200, [{ n: 3_000 * 3_000 }]]);
  expect(await closed).toBe(true);
  await expect(service.ask('SELECT 1')).rejects.toThrow();
});

test('the engine keeps nothing of a service, and can hold the next one in another order', async () => {
  const [left] = await engine.rows<{ n: number }>(
    "SELECT count() AS n FROM system.databases WHERE match(name, '^(trades|service)_')",
  );
  expect(left?.n).toBe(0);
  const service = await startTestService(
    { generateSessions: 2, generateRows: 40_000, scanLimit: 30_000, order: 'symbol' },
    engine,
  );
  const bySymbol = await service.ask("SELECT count() AS n FROM RawOptionTrades WHERE symbol = 'NVDA'");
  expect(bySymbol.status).toBe(200);
  expect((await service.ask('SELECT count() FROM RawOptionTrades')).status).toBe(422);
  await service.close();
});
