import { configDefaults, defineConfig } from 'vitest/config';
import { LongestFirst, Tally } from './test/support/tally.ts';

/**
 * `npm test` runs everything that needs nothing but Node and is not slow. `npm run test:all` (`--mode all`) adds the slow
 * files, `*.slow.test.ts`, and `*.external.test.ts`, which need servers or programs of other people. CI runs `npm test`, then
 * these two (`--mode rest`). `npm run nightly` (`--mode nightly`) adds `*.nightly.test.ts`, and makes slow files longer.
 */
const SLOW = 'test/**/*.slow.test.ts';
const EXTERNAL = 'test/**/*.external.test.ts';
const NIGHTLY = 'test/**/*.nightly.test.ts';

/** Files that a mode leaves out. */
const EXCLUDED: Readonly<Record<string, readonly string[]>> = { all: [NIGHTLY], rest: [NIGHTLY], nightly: [] };

export default defineConfig(({ mode }) => {
  return {
    test: {
      include: mode === 'rest' ? [SLOW, EXTERNAL] : ['test/**/*.test.ts'],
      exclude: [...configDefaults.exclude, ...(EXCLUDED[mode] ?? [SLOW, EXTERNAL, NIGHTLY])],
      env: mode === 'nightly' ? { FLOWDROP_TEST_NIGHTLY: '1' } : {},
      reporters: ['default', new Tally()],
      ...(mode === 'test' ? {} : { sequence: { sequencer: LongestFirst } }),
      globalSetup: ['test/support/build.ts'],
      pool: 'forks',
      // In `npm test` files share a process, which saves a quarter of its time: each closes its engine, because one process
      // has one data path, and leaves environment, clock and working directory as it found them.
      isolate: mode !== 'test',
      // The reference machine has two cores. In `npm test` a third worker makes each test slower and the whole no faster; the
      // other tests wait for processes, servers and clocks half of their time.
      maxWorkers: mode === 'test' ? 2 : 3,
      // Nightly tests take as long as they are large.
      testTimeout: mode === 'test' ? 60_000 : mode === 'nightly' ? 1_800_000 : 120_000,
      hookTimeout: 120_000,
      // Most files run whole processes against clocks, kills and sockets, on machines that are noisy. A random test draws
      // its seed once a file, so a fault of a seed fails again; whatever passes only at the second try is named at the end.
      retry: process.env['CI'] ? 1 : 0,
    },
  };
});
