/**
 * A reporter that ends a run with one plain line, `N passed, N failed, N skipped`, for whoever reads only the last line.
 * Before it stand the ten slowest files, and the tests that passed only at a second try. Runs that share a file, named in
 * `TEST_TALLY`, end with their sum.
 */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { BaseSequencer, type Reporter, type TestModule, type TestSpecification } from 'vitest/node';

const SLOWEST = 10;
const SUM_FILE = 'TEST_TALLY';
/** Set, a run records how long its files took, for the order of later runs. */
const RECORD = 'TEST_RECORD';
const SECONDS = new URL('seconds.json', import.meta.url);
/** Shorter files may come in any order. */
const LONG_SECONDS = 15;

/** The longest files first, so that no worker is left alone with one at the end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const seconds = JSON.parse(readFileSync(SECONDS, 'utf8')) as Readonly<Record<string, number>>;
    const { root } = this.ctx.config;
    const secondsOf = ({ moduleId }: TestSpecification) => seconds[moduleId.slice(root.length + 1)] ?? 0;
    return [...files].sort((a, b) => secondsOf(b) - secondsOf(a));
  }
}

export class Tally implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const times = modules.map((module) => {
      const { setupDuration, collectDuration, duration } = module.diagnostic();
      return { file: module.relativeModuleId, seconds: (setupDuration + collectDuration + duration) / 1000 };
    });
    times.sort((a, b) => b.seconds - a.seconds);
    if (modules.length > SLOWEST) printSlowest(times);
    if (process.env[RECORD]) recordSeconds(times);
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

interface FileTime {
  readonly file: string;
  readonly seconds: number;
}

function recordSeconds(times: readonly FileTime[]): void {
  const long = times.filter(({ seconds }) => seconds >= LONG_SECONDS);
  const byFile = Object.fromEntries(long.map(({ file, seconds }) => [file, Math.round(seconds)]));
  writeFileSync(SECONDS, `${JSON.stringify(byFile, null, 2)}\n`);
}

function printSlowest(times: readonly FileTime[]): void {
  const all = times.reduce((sum, { seconds }) => sum + seconds, 0);
  console.log(`the ${SLOWEST} slowest of ${times.length} files, which took ${all.toFixed(0)} s together:`);
  for (const { file, seconds } of times.slice(0, SLOWEST)) {
    console.log(`${seconds.toFixed(1).padStart(8)} s  ${file}`);
  }
}
