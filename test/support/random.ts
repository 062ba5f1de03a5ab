/** Seeded random numbers, so that a failure can be repeated by its seed. */

/** Uniform numbers in [0, 1): mulberry32. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function pick<T>(random: () => number, choices: readonly T[]): T {
  const [first] = choices;
  const chosen = choices[Math.floor(random() * choices.length)] ?? first;
  if (chosen === undefined) throw new RangeError('there is nothing to pick from');
  return chosen;
}

/** A seed for numbers of its own. */
export function drawSeed(random: () => number): number {
  return Math.floor(random() * 2 ** 31);
}
