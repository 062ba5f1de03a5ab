/**
 * `npm run chaos [-- --runs N] [--seed S] [--scenario NAME] [--kinds A,B] [--parallel N]`: exports a session again
 * and again under random faults and kills, each run drawn from a seed of its own, and compares what is sealed with the source. Timing is the
 * machine's, so a seed repeats the faults, not to the millisecond what they hit.
 */

import { parseArgs } from 'node:util';
import { setup } from '../support/build.ts';
import { hasRealDay, makeFolder } from '../support/flowdrop.ts';
import { parseCount, watchStop } from '../support/program.ts';
import { startS3 } from '../support/s3-server.ts';
import { describeResult, describeTotals } from './report.ts';
import { type ChaosResult, runChaos } from './run.ts';
import { KINDS, type Kind, SCENARIOS, type Scenario } from './scenario.ts';
import { ChaosSources } from './source.ts';
import { closeTables } from './table.ts';

/** At least; two workers' worth of time each. */
const DEFAULT_RUNS = 200;
const SEEDS = 1_000_000;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: String(DEFAULT_RUNS) },
    seed: { type: 'string', default: String(Date.now() % SEEDS) },
    scenario: { type: 'string' },
    kinds: { type: 'string' },
    parallel: { type: 'string', default: '1' },
  },
});
const runs = parseCount('--runs', values.runs);
const firstSeed = parseCount('--seed', values.seed);
const lanes = parseCount('--parallel', values.parallel);
const kinds = values.kinds?.split(',').map(parseKind);

// The SDK would print a paragraph about Node versions among the results.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
setup();
const { server: s3 } = await startS3();
const scenarios = SCENARIOS.filter(isPossible);
console.log(`chaos: ${runs} runs, seeds ${firstSeed} to ${firstSeed + runs - 1}, ${lanes} at a time`);
const results: ChaosResult[] = [];
let next = 0;
const isStopping = watchStop();
await Promise.all(Array.from({ length: lanes }, runLane));
await closeTables();
console.log(describeTotals(results));
process.exitCode = results.every(({ problems }) => problems.length === 0) ? 0 : 1;

/** Services of its own, because their logs are what requests are counted by. */
async function runLane(): Promise<void> {
  const { path, remove } = await makeFolder();
  const sources = new ChaosSources(path);
  try {
    while (next < runs && !isStopping()) {
      const seed = firstSeed + next;
      next += 1;
      const result = await runChaos({ sources, s3 }, chooseScenario(seed), seed, kinds);
      results.push(result);
      console.log(describeResult(result));
    }
  } finally {
    await sources.close();
    await remove();
  }
}

/** In turn, so that each comes as often; the long one once in three rounds. */
function chooseScenario(seed: number): Scenario {
  if (values.scenario !== undefined) {
    const named = SCENARIOS.find(({ name }) => name === values.scenario);
    if (!named)
      throw new RangeError(
        `--scenario is ${values.scenario}; there are ${SCENARIOS.map(({ name }) => name).join(', ')}`,
      );
    return named;
  }
  const short = scenarios.filter(({ isLong }) => !isLong);
  const long = scenarios.filter(({ isLong }) => isLong);
  const turn = seed % (3 * short.length + long.length);
  const chosen = turn < 3 * short.length ? short[turn % short.length] : long[turn - 3 * short.length];
  if (!chosen) throw new RangeError('no scenario can be run here');
  return chosen;
}

function isPossible(scenario: Scenario): boolean {
  const lacks =
    scenario.store === 's3' && !s3
      ? 'an S3 server'
      : scenario.source.data === 'real' && !hasRealDay
        ? 'the real day'
        : undefined;
  if (lacks) console.warn(`SKIPPED: ${scenario.name} needs ${lacks}`);
  return lacks === undefined;
}

function parseKind(name: string): Kind {
  const found = KINDS.find((kind) => kind === name);
  if (found) return found;
  throw new RangeError(`--kinds has ${JSON.stringify(name)}; there are ${KINDS.join(', ')}`);
}
