/**
 * The queue between an engine and a caller: order, failures, leaving, and when a giver waits. That a slow caller keeps no
 * engine over HTTP is in `answers.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import { HeldBytes, PieceQueue } from '../../src/service/historical/piece-queue.ts';

const { signal } = new AbortController();
/** More than one queue may always hold. */
const BIG_BYTES = 5_000_000;

function startQueue(limit = 1_000_000_000) {
  const held = new HeldBytes(limit);
  return {
    held,
    queue: new PieceQueue(held),
    push: (queue: PieceQueue, value: number) => queue.push(piece(value), signal),
  };
}

const piece = (value: number, bytes = 1) => new Uint8Array(bytes).fill(value);

/** First bytes of all pieces, each taken after `pause`. */
async function readAll(queue: PieceQueue, pause: () => Promise<void> = async () => {}): Promise<readonly number[]> {
  const read: number[] = [];
  for await (const taken of queue) {
    read.push(taken[0] ?? -1);
    await pause();
  }
  return read;
}

/** Whatever is ready to run has run. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Whether it is settled, as told now. */
function watch(promise: Promise<unknown>): { readonly isOver: boolean } {
  const state = { isOver: false };
  const end = () => {
    state.isOver = true;
  };
  promise.then(end, end);
  return state;
}

const HUNDRED = Array.from({ length: 100 }, (_, value) => value);

describe('order', () => {
  test('is kept when a slow reader is behind, and when pieces come while one is in hand', async () => {
    const { queue, push } = startQueue();
    const reading = readAll(queue, turn);
    for (const value of HUNDRED) {
      await push(queue, value);
      if (value % 7 === 0) await turn();
    }
    queue.end();
    expect(await reading).toEqual(HUNDRED);
  });

  test('an end without pieces ends the reader, whether it waits already or comes later', async () => {
    const { queue: early } = startQueue();
    early.end();
    expect(await readAll(early)).toEqual([]);
    const { queue: late } = startQueue();
    const reading = readAll(late);
    await turn();
    late.end();
    expect(await reading).toEqual([]);
  });
});

describe('a failure', () => {
  test('comes behind the pieces before it, and the first one counts', async () => {
    const { queue, push } = startQueue();
    await push(queue, 1);
    await push(queue, 2);
    const reason = new RangeError('first');
    queue.fail(reason);
    queue.fail(new RangeError('second'));
    const read: number[] = [];
    const reading = (async () => {
      for await (const taken of queue) read.push(taken[0] ?? -1);
    })();
    await expect(reading).rejects.toBe(reason);
    expect(read).toEqual([1, 2]);
  });

  test('reaches a reader who waits', async () => {
    const { queue } = startQueue();
    const reading = readAll(queue);
    await turn();
    queue.fail(new RangeError('gone'));
    await expect(reading).rejects.toThrow('gone');
  });

  test('after the end, and after the reader has left, says nothing', async () => {
    const { queue, push } = startQueue();
    await push(queue, 1);
    queue.end();
    expect(await readAll(queue)).toEqual([1]);
    queue.fail(new RangeError('too late'));
    expect(queue.isLeft).toBe(true);
  });
});

describe('leaving early', () => {
  test('tells the giver, drops what is left, and takes nothing more', async () => {
    const { held, queue } = startQueue(0);
    for (const value of [1, 2, 3]) await queue.push(piece(value), signal);
    expect([queue.isLeft, held.isFull]).toEqual([false, true]);
    for await (const taken of queue) {
      expect(taken[0]).toBe(1);
      break;
    }
    expect([queue.isLeft, held.isFull]).toEqual([true, false]);
    await queue.push(piece(4, BIG_BYTES), signal);
    expect(held.isFull).toBe(false);
    queue.end();
    expect(await readAll(queue)).toEqual([]);
  });

  test('frees a giver who waits for room', async () => {
    const { held, queue } = startQueue(0);
    const giving = queue.push(piece(1, BIG_BYTES), signal);
    await queue.push(piece(2), AbortSignal.abort());
    const state = watch(giving);
    await turn();
    expect(state.isOver).toBe(false);
    for await (const _taken of queue) break;
    await giving;
    expect(held.isFull).toBe(false);
  });
});

describe('a queue that is given up before anyone reads it', () => {
  test('holds nothing, takes nothing more, and tells a reader who comes after all', async () => {
    const { held, queue } = startQueue(0);
    await queue.push(piece(1), signal);
    const waiting = queue.push(piece(2, BIG_BYTES), signal);
    expect(held.isFull).toBe(true);
    queue.leave(new RangeError('the caller is gone'));
    await waiting;
    await queue.push(piece(3), signal);
    expect([queue.isLeft, held.isFull]).toEqual([true, false]);
    await expect(readAll(queue)).rejects.toThrow('the caller is gone');
    expect(held.isFull).toBe(false);
  });
});

describe('a giver', () => {
  test('never waits while all queues together hold little', async () => {
    const { queue } = startQueue(3 * BIG_BYTES);
    for (const value of [1, 2, 3]) await queue.push(piece(value, BIG_BYTES), signal);
    queue.end();
    expect(await readAll(queue)).toEqual([1, 2, 3]);
  });

  test('waits for its own reader when they hold too much, and goes on as pieces are taken', async () => {
    const { queue } = startQueue(BIG_BYTES);
    let given = 0;
    const giving = (async () => {
      for (; given < 5; given += 1) await queue.push(piece(given, BIG_BYTES), signal);
      queue.end();
    })();
    await turn();
    expect(given).toBe(1);
    expect(await readAll(queue, turn)).toEqual([0, 1, 2, 3, 4]);
    await giving;
  });

  test('whose reader keeps up is not held up by one whose reader does not', async () => {
    const held = new HeldBytes(BIG_BYTES);
    const [stuck, free] = [new PieceQueue(held), new PieceQueue(held)];
    const state = watch(stuck.push(piece(0, 2 * BIG_BYTES), signal));
    const reading = readAll(free);
    for (const value of HUNDRED) await free.push(piece(value, 1_000_000), signal);
    free.end();
    expect(await reading).toEqual(HUNDRED);
    expect(state.isOver).toBe(false);
    for await (const _taken of stuck) break;
    await turn();
    expect(state.isOver).toBe(true);
  });

  test('stops waiting when its task is aborted', async () => {
    const control = new AbortController();
    const { queue } = startQueue(0);
    const giving = queue.push(piece(1, BIG_BYTES), control.signal);
    const state = watch(giving);
    await turn();
    expect(state.isOver).toBe(false);
    control.abort();
    await giving;
  });
});
