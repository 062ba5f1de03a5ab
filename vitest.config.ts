import { configDefaults, defineConfig } from 'vitest/config';
import { Tally } from './test/support/tally.ts';

/**
 * `npm test` runs everything that needs nothing but Node and is not slow. `npm run test:all` (`--mode all`) adds the slow
 * files, `*.slow.test.ts`, and whatever needs a server or a program of other people, which files named
 * `*.external.test.ts` do in whole or in part. CI runs `npm test`, then these two (`--mode rest`).
 */
const SLOW = 'test/**/*.slow.test.ts';
const EXTERNAL = 'test/**/*.external.test.ts';

/** One worker process per file (`forks`), because the embedded engine binds one data path per process. */
export default defineConfig(({ mode }) => {
  const isFull = mode === 'all' || mode === 'rest';
  return {
    test: {
      include: mode === 'rest' ? [SLOW, EXTERNAL] : ['test/**/*.test.ts'],
      exclude: isFull ? configDefaults.exclude : [...configDefaults.exclude, SLOW],
      env: isFull ? {} : { FLOWDROP_TEST_EXTERNAL: '0' },
      reporters: ['default', new Tally()],
      globalSetup: ['test/support/build.ts'],
      pool: 'forks',
      // The reference machine has two cores. A third worker makes each test slower and the whole no faster.
      maxWorkers: 2,
      testTimeout: isFull ? 120_000 : 60_000,
      hookTimeout: 120_000,
      // Most files run whole processes against clocks, kills and sockets, on machines that are noisy. A random test draws
      // its seed once a file, so a fault of a seed fails again; whatever passes only at the second try is named at the end.
      retry: process.env['CI'] ? 1 : 0,
    },
  };
});
