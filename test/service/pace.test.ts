/** The rate limit: the arithmetic with a hand-moved clock, and over HTTP that both entry points share one budget. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Pace } from '../../src/service/pace.ts';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/wire/limits.ts';
import { KEY, postJson, startTestService, type TestService } from './running-service.ts';

describe('pace', () => {
  function startPace(requestsPerSecond: number) {
    let nowMs = 1_000_000;
    const pace = new Pace({ now: () => nowMs, sleep: systemClock.sleep }, requestsPerSecond);
    return { pace, advance: (ms: number) => (nowMs += ms) };
  }

  test('one request a second passes, a second one within it waits a whole second', () => {
    const { pace, advance } = startPace(1);
    expect(pace.admit(0)).toBe(0);
    expect(pace.admit(0)).toBe(1);
    advance(1_000);
    expect(pace.admit(0)).toBe(0);
  });

  test('a caller who sends each second with the jitter of a network is never refused', () => {
    const { pace, advance } = startPace(1);
    for (let sent = 0; sent < 100; sent += 1) {
      expect(pace.admit(0)).toBe(0);
      advance(sent % 2 === 0 ? 920 : 1_080);
    }
  });

  test('a tenth of the interval is forgiven, but not gained: the mean stays at the limit', () => {
    const { pace, advance } = startPace(1);
    let admitted = 0;
    for (let tenth = 0; tenth < 1_000; tenth += 1) {
      if (pace.admit(0) === 0) admitted += 1;
      advance(100);
    }
    // 100 s, the one at the start, and the last a tenth early.
    expect(admitted).toBe(101);
    const { pace: other, advance: move } = startPace(1);
    other.admit(0);
    move(899);
    expect(other.admit(0)).toBe(1);
    move(1);
    expect(other.admit(0)).toBe(0);
  });

  test('a refused request costs nothing, and an idle hour saves nothing', () => {
    const { pace, advance } = startPace(1);
    pace.admit(0);
    for (let refused = 0; refused < 10; refused += 1) expect(pace.admit(0)).toBe(1);
    advance(3_600_000);
    expect(pace.admit(0)).toBe(0);
    expect(pace.admit(0)).toBe(1);
  });

  test('a slow limit tells how many seconds are left, rounded up', () => {
    const { pace, advance } = startPace(0.1);
    pace.admit(0);
    expect(pace.admit(0)).toBe(9);
    advance(5_500);
    expect(pace.admit(0)).toBe(4);
  });

  test('a clock that is set back locks nobody out', () => {
    const { pace, advance } = startPace(1);
    pace.admit(0);
    advance(-3_600_000);
    expect(pace.admit(0)).toBe(0);
    expect(pace.admit(0)).toBe(1);
  });

  test('keys do not share', () => {
    const { pace } = startPace(1);
    expect(pace.admit(0)).toBe(0);
    expect(pace.admit(1)).toBe(0);
  });
});

describe('over HTTP', () => {
  let service: TestService;
  beforeAll(async () => {
    // One in ten seconds: the test's own requests are all within one interval.
    service = await startTestService({ requestsPerSecond: 0.1, keys: [KEY, 'apikey_other'] });
  });
  afterAll(() => service.stop());

  test('a key has one budget for both entry points, and 429 says when to come back', async () => {
    expect((await service.ask('SELECT 1')).status).toBe(200);
    const early = await service.askPortal('SELECT 1');
    expect(early.status).toBe(429);
    expect(early.body).toMatchObject({ status: 'ERROR', errorCode: 'RATE_LIMITED' });
    expect(early.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    const main = await service.ask('SELECT 1');
    expect([main.status, main.body.errorCode]).toEqual([429, 'RATE_LIMITED']);

    const other = await service.send(HISTORICAL_PATH, postJson({ api_key: 'apikey_other', sql: 'SELECT 1' }));
    expect(other.status).toBe(200);
    const unknown = await service.sendPortal(PORTAL_PATH, postJson({ api_key: 'cus_unknown', sql: 'SELECT 1' }));
    expect(unknown.status).toBe(401);
    expect((await service.send('/healthz', { method: 'GET' })).status).toBe(200);

    service.advance(10_000);
    expect((await service.askPortal('SELECT 1')).status).toBe(200);
    expect((await service.ask('DROP TABLE x')).status).toBe(429);
  });
});
