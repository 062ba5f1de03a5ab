/**
 * Whose turn it is, and who finds no place, on engines that do nothing. Leaving and closing are in the contract of the
 * pools (`test/contract/engine-pool.external.test.ts`).
 */
import { expect, test } from 'vitest';
import { PoolBusyFault } from '../../src/engine/engine-fault.ts';
import { EnginePool } from '../../src/engine/pool.ts';

const { signal } = new AbortController();
/** All promises that can settle have. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A pool, and how to start a task in it that lasts until `end`; `begun` are the labels of tasks in order. */
function openPool(size: number, maxWaiting: number) {
  const lane = { state: {}, run: async () => (async function* () {})(), settle: (idle: Promise<void>) => idle };
  const begun: string[] = [];
  const pool = new EnginePool({ size, maxWaiting }, { open: async () => lane, close: async () => {} });
  const start = (owner: string, label = owner) => {
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const done = pool.use({ owner, signal }, async () => {
      begun.push(label);
      await ended;
    });
    return { end, done };
  };
  return { pool, start, begun };
}

test('the owner who holds fewest goes first, among equals who came first', async () => {
  const { pool, start, begun } = openPool(3, 10);
  const [one, , third] = [start('a', 'a1'), start('a', 'a2'), start('b', 'b1')];
  await settled();
  for (const [owner, label] of [
    ['a', 'a3'],
    ['b', 'b2'],
    ['c', 'c1'],
    ['d', 'd1'],
    ['c', 'c2'],
  ] as const)
    start(owner, label);
  third?.end(); // b holds none now and came before c and d
  await settled();
  expect(begun.slice(3)).toEqual(['b2']);
  one?.end();
  await settled();
  expect(begun.slice(3)).toEqual(['b2', 'c1']);
  expect(pool.waiting).toBe(3);
});

test('one owner cannot fill the queue against the others: his newest is refused in their place', async () => {
  const { pool, start, begun } = openPool(1, 3);
  const tasks = ['m0', 'm1', 'm2', 'm3'].map((label) => start('many', label));
  const other = start('other');
  await expect(tasks[3]?.done).rejects.toThrow(PoolBusyFault);
  expect(pool.waiting).toBe(3);
  for (const { end } of [...tasks, other]) end();
  await other.done;
  expect(begun).toEqual(['m0', 'm1', 'm2', 'other']);
});

test('with no places to wait a free engine is still given', async () => {
  const { start } = openPool(1, 0);
  const first = start('a');
  await expect(start('b').done).rejects.toThrow(PoolBusyFault);
  first.end();
  await first.done;
  const next = start('b');
  next.end();
  await next.done;
});

test('of a thousand tasks by four owners, no more run than there are engines, and no owner has them all', async () => {
  const { pool } = openPool(4, 1000);
  const running: string[] = [];
  let most = 0;
  await Promise.all(
    Array.from({ length: 1000 }, async (_, index) => {
      const owner = `owner ${(index * 7) % 4}`;
      await pool.use({ owner, signal: new AbortController().signal }, async () => {
        running.push(owner);
        expect(running.length).toBeLessThanOrEqual(4);
        most = Math.max(most, running.filter((name) => name === owner).length);
        await settled();
        running.splice(running.indexOf(owner), 1);
      });
    }),
  );
  expect(most).toBeLessThan(4);
  expect(pool.waiting).toBe(0);
});
