/** Numbers on the command lines of programs that developers run. */

/** @throws RangeError when it is no whole number above 0 */
export function parseCount(flag: string, text: string | undefined): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new RangeError(`${flag} is ${JSON.stringify(text)}; allowed is a whole number above 0`);
}
