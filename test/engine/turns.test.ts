/**
 * Whose turn it is, without engines. Limits, leaving and closing are in the contract of the pools
 * (`test/contract/engine-pool.ts`).
 */
import { setMaxListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { PoolBusyFault } from '../../src/engine/engine-fault.ts';
import { type FairSlot, FairSlots } from '../../src/engine/fair-slots.ts';

const never = new AbortController().signal;
// All the tests' tasks listen to this one signal; in the service each request has its own.
setMaxListeners(0, never);

/** Takes a turn and notes under `label` when it is given. */
function ask(turns: FairSlots, owner: string, given: string[], label = owner): Promise<FairSlot> {
  return turns.take(owner, never).then((turn) => {
    given.push(label);
    return turn;
  });
}

/** All promises that can settle have. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('turns', () => {
  test('a released slot is the one given next, the lowest of several', async () => {
    const turns = new FairSlots({ size: 3, maxWaiting: 10 });
    const held = await Promise.all(['a', 'b', 'c'].map((owner) => turns.take(owner, never)));
    held[2]?.release();
    held[0]?.release();
    expect((await turns.take('d', never)).slot).toBe(0);
    expect((await turns.take('e', never)).slot).toBe(2);
  });

  test('a single slot is everybody’s', async () => {
    const turns = new FairSlots({ size: 1, maxWaiting: 10 });
    const first = await turns.take('a', never);
    const second = turns.take('a', never);
    first.release();
    expect((await second).slot).toBe(0);
  });

  test('the owner who holds fewest goes first, among equals who came first', async () => {
    const turns = new FairSlots({ size: 3, maxWaiting: 10 });
    const given: string[] = [];
    const [one, , third] = await Promise.all([turns.take('a', never), turns.take('a', never), turns.take('b', never)]);
    for (const [owner, label] of [
      ['a', 'a3'],
      ['b', 'b2'],
      ['c', 'c1'],
      ['d', 'd1'],
      ['c', 'c2'],
    ] as const)
      void ask(turns, owner, given, label);
    third.release(); // b holds none now and came before c and d
    await settled();
    expect(given).toEqual(['b2']);
    one.release();
    await settled();
    expect(given).toEqual(['b2', 'c1']);
    expect(turns.waiting).toBe(3);
  });

  test('releasing twice frees one slot', async () => {
    const turns = new FairSlots({ size: 1, maxWaiting: 10 });
    const given: string[] = [];
    const first = await turns.take('a', never);
    void ask(turns, 'b', given);
    void ask(turns, 'c', given);
    first.release();
    first.release();
    await settled();
    expect(given).toEqual(['b']);
  });

  test('with no places to wait a free slot is still given', async () => {
    const turns = new FairSlots({ size: 1, maxWaiting: 0 });
    const turn = await turns.take('a', never);
    await expect(turns.take('b', never)).rejects.toThrow(PoolBusyFault);
    turn.release();
    expect((await turns.take('b', never)).slot).toBe(0);
  });

  test('one owner cannot fill the queue against the others: his newest is refused in their place', async () => {
    const turns = new FairSlots({ size: 1, maxWaiting: 3 });
    const given: string[] = [];
    const first = await turns.take('many', never);
    const waiting = ['m1', 'm2', 'm3'].map((label) => ask(turns, 'many', given, label));
    const other = ask(turns, 'other', given);
    await expect(waiting[2]).rejects.toThrow(PoolBusyFault);
    expect(turns.waiting).toBe(3);
    first.release();
    (await waiting[0])?.release();
    (await waiting[1])?.release();
    await other;
    expect(given).toEqual(['m1', 'm2', 'other']);
  });

  test('who is aborted before asking, or after being given a slot, changes nothing', async () => {
    const turns = new FairSlots({ size: 1, maxWaiting: 1 });
    await expect(turns.take('a', AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
    const control = new AbortController();
    const turn = await turns.take('a', control.signal);
    const next = turns.take('b', never);
    control.abort();
    expect(turns.waiting).toBe(1);
    turn.release();
    expect((await next).slot).toBe(0);
  });

  test('of a thousand tasks by four owners, no slot has two holders and no owner has them all', async () => {
    const turns = new FairSlots({ size: 4, maxWaiting: 1000 });
    const holders = new Map<number, string>();
    let most = 0;
    await Promise.all(
      Array.from({ length: 1000 }, async (_, index) => {
        const owner = `owner ${(index * 7) % 4}`;
        const turn = await turns.take(owner, never);
        expect(holders.has(turn.slot)).toBe(false);
        holders.set(turn.slot, owner);
        most = Math.max(most, [...holders.values()].filter((name) => name === owner).length);
        await settled();
        holders.delete(turn.slot);
        turn.release();
      }),
    );
    expect(most).toBeLessThan(4);
    expect(turns.waiting).toBe(0);
  });
});
