/** Health of the service while others hold all the connections it has. Its other limits: `answers.test.ts`, `close.test.ts`. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { gatherCrowd } from '../support/crowd.ts';
import { startTestService, type TestService } from './running-service.ts';

const PROBE_MS = 1_000;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ generateSessions: 1, generateRows: 100 });
});
afterAll(() => service.stop());

test.each([
  ['half a head', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: '],
  ['a body that never comes', 'POST /api/historical/sql HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n'],
])('the service tells its health within a second past 1,000 connections with %s', async (_title, text) => {
  const crowd = await gatherCrowd(service.url, 1_000, text);
  try {
    const answer = await fetch(`${service.url}/healthz`, { signal: AbortSignal.timeout(PROBE_MS) });
    expect(answer.status).toBe(200);
    // A connection that is answered is not closed for the crowd.
    expect((await service.ask('SELECT count() AS n FROM RawOptionTrades')).body.data).toHaveLength(1);
  } finally {
    crowd.close();
  }
});
