/** The gate beyond `contract/api.test.ts`: what a session stands for, and whose budget a call counts to. */
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { type Budget, Gate } from '../../src/service/access/gate.ts';
import { buildEntry, type Entitlement, hashKey, KeyRing } from '../../src/service/access/keys.ts';
import { ApiFailure } from '../../src/service/http/api-failure.ts';

const PRODUCTS: readonly Budget[] = ['historical', 'chain', 'market-structure'];

function entry(key: string, historical: Entitlement, realtime: boolean) {
  return buildEntry(hashKey(key), { name: key.slice('cus_'.length), historical, realtime });
}

function startGate(requestsPerSecond = 1) {
  const keys = new KeyRing([
    entry('cus_full', 'active', true),
    entry('cus_trial', 'trialing', false),
    entry('cus_live', 'none', true),
    entry('cus_nothing', 'none', false),
  ]);
  let nowMs = 1_000_000;
  const gate = new Gate({ now: () => nowMs, sleep: systemClock.sleep }, keys, { requestsPerSecond });
  return { gate, keys, advance: (ms: number) => (nowMs += ms) };
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

async function inTurn<In, Out>(list: readonly In[], act: (one: In) => Promise<Out>): Promise<readonly Out[]> {
  const results: Out[] = [];
  for (const one of list) results.push(await act(one));
  return results;
}

describe('authentication', () => {
  test('a key that is given counts more than a session, also when it is wrong; an empty one is none', async () => {
    const { gate, keys } = startGate();
    const session = keys.identify('cus_full')?.id;
    expect((await gate.enter({ apiKey: 'cus_trial', session }, 'historical')).name).toBe('trial');
    expect(await statusOf(() => gate.enter({ apiKey: 'cus_wrong', session }, 'historical'))).toBe(401);
    expect((await gate.enter({ apiKey: '', session }, 'historical')).name).toBe('full');
  });
});

describe('budgets', () => {
  /** How many calls at once are let in. */
  async function spend(gate: Gate, product: Budget, apiKey = 'cus_full'): Promise<number> {
    let admitted = 0;
    while ((await statusOf(() => gate.enter({ apiKey }, product))) === 200) admitted += 1;
    return admitted;
  }

  test('callers have theirs, and a session spends that of its key', async () => {
    const { gate, keys } = startGate();
    expect(await spend(gate, 'chain')).toBe(10);
    expect(await statusOf(() => gate.enter({ session: keys.identify('cus_full')?.id }, 'chain'))).toBe(429);
    expect(await spend(gate, 'chain', 'cus_live')).toBe(10);
  });

  test('the rate of the options is that of historical SQL only', async () => {
    const { gate, advance } = startGate(100);
    await spend(gate, 'historical');
    await spend(gate, 'chain');
    advance(10);
    expect(await inTurn(PRODUCTS, (product) => spend(gate, product))).toEqual([1, 0, 10]);
  });

  test('a login has one of its own, and takes any valid key', async () => {
    const { gate, advance } = startGate();
    const login = (apiKey: string | undefined) => statusOf(() => gate.enter({ apiKey }, 'login'));
    expect((await gate.enter({ apiKey: 'cus_nothing' }, 'login')).name).toBe('nothing');
    expect(await inTurn([undefined, '', 'cus_wrong'], login)).toEqual([401, 401, 401]);
    for (let attempt = 0; attempt < 10; attempt += 1) expect(await login('cus_full')).toBe(200);
    expect(await login('cus_full')).toBe(429);
    expect(await login('cus_trial')).toBe(200);
    expect(await spend(gate, 'historical')).toBe(1);
    advance(1_000);
    expect(await login('cus_full')).toBe(200);
  });
});
