/**
 * How long a long or random test is: short and of a fixed seed in CI and by hand; long, and of a new seed each time, in
 * `npm run nightly`. `FLOWDROP_TEST_SEED` repeats a seed.
 */

/** Set by `npm run nightly`. */
export const IS_NIGHTLY = process.env['FLOWDROP_TEST_NIGHTLY'] === '1';

/** @param fixed the same in CI every time, so that a change lands or not by what it is */
export function chooseSeed(fixed: number): number {
  return Number(process.env['FLOWDROP_TEST_SEED'] ?? fixed);
}

export function chooseSize<T>(short: T, long: T): T {
  return IS_NIGHTLY ? long : short;
}
