/** Several pieces of work at the same time: how many, in which order, and what an error stops. */
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { inParallel } from '../../src/core/side-by-side.ts';

const ITEMS = [0, 1, 2, 3, 4, 5, 6];

describe('work in parallel', () => {
  it.each([1, 3, 20])('has at most %i items at the same time, and the results in their order', async (width) => {
    let [running, most] = [0, 0];
    const results = await inParallel(ITEMS, width, async (item) => {
      running += 1;
      most = Math.max(most, running);
      // The later ones end first.
      await delay(5 * (ITEMS.length - item));
      running -= 1;
      return item * 10;
    });
    expect(most).toBe(Math.min(width, ITEMS.length));
    expect(results).toEqual(ITEMS.map((item) => item * 10));
    expect(await inParallel([], width, async () => 1)).toEqual([]);
  });

  it('begins no item after an error, and throws it only when the others have ended', async () => {
    const [begun, ended]: [number[], number[]] = [[], []];
    const work = inParallel(ITEMS, 3, async (item) => {
      begun.push(item);
      if (item === 1) throw new Error('item 1');
      await delay(20);
      ended.push(item);
    });
    await expect(work).rejects.toThrow('item 1');
    expect(begun).toEqual([0, 1, 2]);
    expect(ended).toEqual([0, 2]);
  });
});
