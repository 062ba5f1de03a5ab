/**
 * A reporter that ends a run with one plain line, `N passed, N failed, N skipped`, for whoever reads only the last line.
 * Before it stand the ten slowest files, and the tests that passed only at a second try. Runs that share a file, named in
 * `TEST_TALLY`, end with their sum.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

const SLOWEST = 10;
const SUM_FILE = 'TEST_TALLY';

export class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length > SLOWEST) printSlowest(modules);
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
    const before = process.env[SUM_FILE];
    if (before !== undefined) printSum(before, count);
  }
}

/** The sum over the runs that share a file. */
function printSum(file: string, count: Readonly<{ passed: number; failed: number }>): void {
  appendFileSync(file, `${count.passed} ${count.failed}\n`);
  const runs = readFileSync(file, 'utf8').trim().split('\n');
  if (runs.length < 2) return;
  const sum = (column: number) => runs.reduce((all, run) => all + Number(run.split(' ')[column]), 0);
  console.log(`${sum(0)} passed, ${sum(1)} failed`);
}

function printSlowest(modules: readonly TestModule[]): void {
  const times = modules.map((module) => {
    const { setupDuration, collectDuration, duration } = module.diagnostic();
    return { file: module.relativeModuleId, seconds: (setupDuration + collectDuration + duration) / 1000 };
  });
  const all = times.reduce((sum, { seconds }) => sum + seconds, 0);
  console.log(`the ${SLOWEST} slowest of ${times.length} files, which took ${all.toFixed(0)} s together:`);
  for (const { file, seconds } of times.sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST)) {
    console.log(`${seconds.toFixed(1).padStart(8)} s  ${file}`);
  }
}
