/**
 * The bounded version of `npm run chaos`: one run of each scenario that does not take long, each from a seed of its own.
 * `CHAOS_SEED` repeats a test run; a failure names the command that repeats it alone. What single faults lead to is tested
 * where they belong (`source/`, `store/`, `flow/kill.test.ts`); here is only whether the drop is the source in the end.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasRealDay, makeFolder } from '../support/flowdrop.ts';
import { startS3 } from '../support/s3-server.ts';
import { describeResult, describeTally } from './report.ts';
import { type ChaosResult, runChaos } from './run.ts';
import { SCENARIOS, type Scenario } from './scenario.ts';
import { ChaosSources } from './source.ts';

const firstSeed = Number(process.env['CHAOS_SEED'] ?? Date.now() % 1_000_000);
const { server: s3 } = await startS3();
const short = SCENARIOS.filter(({ isLong }) => !isLong);
const isPossible = (scenario: Scenario) =>
  (scenario.store === 'directory' || s3 !== undefined) && (scenario.source.data !== 'real' || hasRealDay);

/** As many as the reference machine has cores. */
const LANES = 2;
/** They take about a minute; a machine that has much else to do takes many times as long, which is no failure. */
const RUNS_TIMEOUT_MS = 1_200_000;

describe(`chaos, seeds ${firstSeed} to ${firstSeed + short.length - 1}`, () => {
  const results = new Map<string, ChaosResult>();
  let sources: ChaosSources;
  let removeFolder: () => Promise<void>;

  beforeAll(async () => {
    const { path, remove } = await makeFolder();
    removeFolder = remove;
    sources = new ChaosSources(path);
    const groups = groupBySource(short.filter(isPossible));
    const runGroups = async () => {
      for (let group = groups.shift(); group; group = groups.shift()) {
        for (const scenario of group) {
          const result = await runChaos({ sources, s3 }, scenario, firstSeed + short.indexOf(scenario));
          results.set(scenario.name, result);
          console.log(describeResult(result));
        }
      }
    };
    await Promise.all(Array.from({ length: LANES }, runGroups));
    console.log(describeTally([...results.values()]));
  }, RUNS_TIMEOUT_MS);

  afterAll(async () => {
    await sources?.close();
    await removeFolder?.();
  });

  for (const scenario of short) {
    // Skipped where there is no real day or no S3 server, which their supports say aloud; CI throws without the latter.
    it.skipIf(!isPossible(scenario))(`of the scenario ${scenario.name} ends in a drop equal to the source`, () => {
      const result = results.get(scenario.name);
      expect(result?.problems, result && describeResult(result)).toEqual([]);
      expect(result?.isEqual).toBe(true);
    });
  }
});

/** Runs over one service come one after another: its log is what their requests are counted by. The largest group first. */
function groupBySource(scenarios: readonly Scenario[]): (readonly Scenario[])[] {
  const groups = new Map<string, Scenario[]>();
  for (const scenario of scenarios) {
    const key = JSON.stringify(scenario.source);
    groups.set(key, [...(groups.get(key) ?? []), scenario]);
  }
  return [...groups.values()].sort((a, b) => b.length - a.length);
}
