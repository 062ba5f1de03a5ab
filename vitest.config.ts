import { defineConfig } from 'vitest/config';
import { Tally } from './test/support/tally.ts';

/**
 * One worker process per file (`forks`), because the embedded engine binds one data path per process.
 * Two at a time, as the reference machine has two cores.
 */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    reporters: ['default', new Tally()],
    globalSetup: ['test/support/build.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Most files run whole processes against clocks, kills and sockets, on machines that are noisy. A random test draws its
    // seed once a file, so a fault of a seed fails again; whatever passes only at the second try is named at the end.
    retry: process.env['CI'] ? 1 : 0,
  },
});
