/** Several pieces of work at the same time, and work that is given up. */

/** Waits for both, even when one fails. An error of the first is thrown before one of the second. */
export async function sideBySide<First, Second>(
  first: Promise<First>,
  second: Promise<Second>,
): Promise<[First, Second]> {
  await Promise.allSettled([first, second]);
  return [await first, await second];
}

/**
 * Does `act` for each item, in their order, at most `width` at the same time. After an error no other item begins; the
 * error is thrown when the running ones have ended.
 * @returns the results, in the order of the items
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  width: number,
  act: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const waiting = [...items.entries()];
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, item] = next;
      try {
        results[index] = await act(item);
      } catch (error) {
        waiting.length = 0;
        throw error;
      }
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: width }, work));
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
  return results;
}

/** Waits for the work, at most until the signal is aborted; the work goes on by itself. @throws the signal's reason */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const over = new AbortController();
  const aborted = new Promise<never>((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    // A signal may outlive much work.
    signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: over.signal });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    over.abort();
  }
}
