/**
 * The gate beyond `contract/api.test.ts`: what a session stands for, whose budget a call counts to, and the arithmetic of
 * the pace with a hand-moved clock. Logins are in `session.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { type Budget, createGate, createPace, type Gate } from '../../src/service/access/gate.ts';
import { buildEntry, hashKey } from '../../src/service/access/key-file.ts';
import { createKeyRing } from '../../src/service/access/keys.ts';
import { ApiFailure } from '../../src/service/http/api-failure.ts';

const PRODUCTS: readonly Budget[] = ['historical', 'chain', 'market-structure'];

function startGate(requestsPerSecond = 1) {
  const entry = (key: string) =>
    buildEntry(hashKey(key), { name: key.slice('cus_'.length), historical: 'active', realtime: true });
  const keys = createKeyRing([entry('cus_desk'), entry('cus_other')]);
  let nowMs = 1_000_000;
  const gate = createGate({ now: () => nowMs, sleep: systemClock.sleep }, keys, { requestsPerSecond });
  return { gate, session: keys.identify('cus_desk')?.id, advance: (ms: number) => (nowMs += ms) };
}

/** The status of a call, 200 when it is let in. */
async function statusOf(act: () => Promise<unknown>): Promise<number> {
  try {
    await act();
    return 200;
  } catch (error) {
    if (error instanceof ApiFailure) return error.status;
    throw error;
  }
}

/** How many calls at once are let in. */
async function spend(gate: Gate, product: Budget, apiKey = 'cus_desk'): Promise<number> {
  let admitted = 0;
  while ((await statusOf(() => gate.enter({ apiKey }, product))) === 200) admitted += 1;
  return admitted;
}

describe('the gate', () => {
  test('takes a key that is given before a session, also when it is wrong; an empty one is none', async () => {
    const { gate, session } = startGate();
    expect((await gate.enter({ apiKey: 'cus_other', session }, 'historical')).name).toBe('other');
    expect(await statusOf(() => gate.enter({ apiKey: 'cus_wrong', session }, 'historical'))).toBe(401);
    expect((await gate.enter({ apiKey: '', session }, 'historical')).name).toBe('desk');
  });

  test('counts callers apart, and a session to its key', async () => {
    const { gate, session } = startGate();
    expect(await spend(gate, 'chain')).toBe(10);
    expect(await statusOf(() => gate.enter({ session }, 'chain'))).toBe(429);
    expect(await spend(gate, 'chain', 'cus_other')).toBe(10);
  });

  test('has the rate of the options for historical SQL only', async () => {
    const { gate, advance } = startGate(100);
    await spend(gate, 'historical');
    await spend(gate, 'chain');
    advance(10);
    const admitted: number[] = [];
    for (const product of PRODUCTS) admitted.push(await spend(gate, product));
    expect(admitted).toEqual([1, 0, 10]);
  });
});

describe('pace', () => {
  function startPace(requestsPerSecond: number, burst = 1) {
    let nowMs = 1_000_000;
    const pace = createPace({ now: () => nowMs, sleep: systemClock.sleep }, { requestsPerSecond, burst });
    return { pace, advance: (ms: number) => (nowMs += ms) };
  }

  test('a caller who sends each second with the jitter of a network is never refused', () => {
    const { pace, advance } = startPace(1);
    for (let sent = 0; sent < 100; sent += 1) {
      expect(pace.admit('a')).toBe(0);
      advance(sent % 2 === 0 ? 920 : 1_080);
    }
  });

  test('a tenth of the interval is forgiven, but not gained: the mean stays at the limit', () => {
    const { pace, advance } = startPace(1);
    let admitted = 0;
    for (let tenth = 0; tenth < 1_000; tenth += 1) {
      if (pace.admit('a') === 0) admitted += 1;
      advance(100);
    }
    // 100 s, the one at the start, and the last a tenth early.
    expect(admitted).toBe(101);
    const { pace: other, advance: move } = startPace(1);
    other.admit('a');
    move(899);
    expect(other.admit('a')).toBe(1);
    move(1);
    expect(other.admit('a')).toBe(0);
  });

  test('a refused request costs nothing, and an idle hour saves nothing', () => {
    const { pace, advance } = startPace(1);
    pace.admit('a');
    for (let refused = 0; refused < 10; refused += 1) expect(pace.admit('a')).toBe(1);
    advance(3_600_000);
    expect(pace.admit('a')).toBe(0);
    expect(pace.admit('a')).toBe(1);
  });

  test('a slow limit tells how many seconds are left, rounded up', () => {
    const { pace, advance } = startPace(0.1);
    pace.admit('a');
    expect(pace.admit('a')).toBe(9);
    advance(5_500);
    expect(pace.admit('a')).toBe(4);
  });

  test('an idle second gives one request of a burst back, ten give all, a day no more', () => {
    const { pace, advance } = startPace(1, 10);
    const spend = () => {
      let admitted = 0;
      while (pace.admit('a') === 0) admitted += 1;
      return admitted;
    };
    expect(spend()).toBe(10);
    advance(3_000);
    expect(spend()).toBe(3);
    advance(10_000);
    expect(spend()).toBe(10);
    advance(86_400_000);
    expect(spend()).toBe(10);
  });

  test.each([1, 10])('a burst of %i keeps its mean at a rate whose interval is no whole number', (burst) => {
    const { pace, advance } = startPace(3, burst);
    let admitted = 0;
    for (let ms = 0; ms < 100_000; ms += 10) {
      while (pace.admit('a') === 0) admitted += 1;
      advance(10);
    }
    expect(admitted).toBeGreaterThanOrEqual(300);
    expect(admitted).toBeLessThanOrEqual(300 + burst);
  });

  test.each([1, 10])('a clock that is set back locks nobody out (burst of %i)', (burst) => {
    const { pace, advance } = startPace(1, burst);
    while (pace.admit('a') === 0);
    advance(-3_600_000);
    expect(pace.admit('a')).toBe(0);
    advance(3_600_000);
    expect(pace.admit('a')).toBe(0);
  });

  test.each([1, 10])('callers of the past are forgotten, whatever order they came in (burst of %i)', (burst) => {
    const { pace, advance } = startPace(1, burst);
    for (let caller = 0; caller < 10_000; caller += 1) {
      pace.admit(`caller ${caller}`);
      if (caller % 3 === 0) pace.admit('regular');
      advance(10);
    }
    // A hundred come in a second; ten seconds are remembered of one that spent its burst, one of the others.
    expect(pace.callers.size).toBeLessThanOrEqual(1_200);
    advance(20_000);
    pace.admit('regular');
    expect(pace.callers.size).toBe(1);
    advance(-3_600_000);
    pace.admit('other');
    expect(pace.callers.size).toBe(1);
  });
});
