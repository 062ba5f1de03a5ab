/**
 * A reporter that ends a run with one plain line, `N passed, N failed, N skipped`, for whoever reads only the last line.
 * Before it stand the tests that passed only at a second try.
 */
import type { Reporter, TestModule } from 'vitest/node';

export class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      // A file that fails before its first test counts as one failure.
      if (module.state() === 'failed' && [...module.children.allTests('failed')].length === 0) count.failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== 'pending') count[state] += 1;
        if (test.diagnostic()?.flaky)
          console.log(`passed only when tried again: ${module.relativeModuleId}: ${test.fullName}`);
      }
    }
    console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  }
}
