/** Two pieces of work at the same time. */

/** Waits for both, even when one fails. An error of the first is thrown before one of the second. */
export async function sideBySide<First, Second>(
  first: Promise<First>,
  second: Promise<Second>,
): Promise<[First, Second]> {
  await Promise.allSettled([first, second]);
  return [await first, await second];
}
