/** What programs have in common that developers start by hand: numbers on the command line, and a stop in good order. */

/** @throws RangeError when it is no whole number above 0 */
export function parseCount(flag: string, text: string | undefined): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new RangeError(`${flag} is ${JSON.stringify(text)}; allowed is a whole number above 0`);
}

/** @returns whether somebody has asked the program to stop: what has begun comes to its end, and the tally tells of it */
export function watchStop(): () => boolean {
  let isStopping = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      isStopping = true;
    });
  }
  return () => isStopping;
}
