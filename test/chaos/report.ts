/** What chaos runs print: a line a run, and the tally at the end. Pure. */
import type { ChaosResult } from './run.ts';

export function describeResult(result: ChaosResult): string {
  const { seed, scenario, faults, kills, ends, restarts, requests, ms, isEqual, problems, folder } = result;
  const lines = [
    [
      `seed ${seed}`,
      scenario,
      `faults: ${describeCounts(faults) || 'none'}`,
      `kills: ${kills.join(', ') || 'none'}`,
      `ends: ${ends.join(', ') || 'none'}`,
      `restarts ${restarts}`,
      `requests ${requests}`,
      `${(ms / 1000).toFixed(1)} s`,
      isEqual ? 'equal' : 'NOT EQUAL',
      ...(problems.length > 0 ? ['FAILED'] : []),
    ].join(' | '),
  ];
  for (const problem of problems) lines.push(`  ${problem.replaceAll('\n', '\n    ')}`);
  if (problems.length > 0) {
    lines.push(`  kept: ${folder}`, `  again: npm run chaos -- --seed ${seed} --runs 1 --scenario ${scenario}`);
  }
  return lines.join('\n');
}

/** The last line is for programs. */
export function describeTally(results: readonly ChaosResult[]): string {
  const failed = results.filter(({ problems }) => problems.length > 0);
  const equal = results.filter(({ isEqual }) => isEqual);
  const faults = sumCounts(results.map((result) => result.faults));
  const skipped = countAll(results.flatMap((result) => result.skipped));
  return [
    '',
    `runs: ${results.length} (${describeCounts(countAll(results.map(({ scenario }) => scenario)))})`,
    `faults: ${sumOf(faults)} (${describeCounts(faults)})`,
    `kills: ${results.flatMap(({ kills }) => kills).length} (${describeCounts(countAll(results.flatMap(({ kills }) => kills)))})`,
    `attempts that ended otherwise than with 0: ${describeCounts(countAll(results.flatMap(({ ends }) => ends))) || 'none'}`,
    `restarts a run: ${describeCounts(countAll(results.map(({ restarts }) => String(restarts))))}`,
    `requests: ${results.reduce((sum, { requests }) => sum + requests, 0)}`,
    `drops equal to the source, row for row: ${equal.length}; other: ${results.length - equal.length}`,
    `left by kills where no reader sees it: ${describeCounts(countAll(results.flatMap(({ remains }) => remains))) || 'nothing'}`,
    ...(failed.length > 0 ? [`failed: ${failed.map(({ seed, scenario }) => `${seed} (${scenario})`).join(', ')}`] : []),
    ...[...skipped].map(([reason, count]) => `SKIPPED in ${count} runs: ${reason}`),
    `${results.length - failed.length} passed, ${failed.length} failed`,
  ].join('\n');
}

function countAll(names: readonly string[]): ReadonlyMap<string, number> {
  return sumCounts(names.map((name) => new Map([[name, 1]])));
}

function sumCounts(all: readonly ReadonlyMap<string, number>[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const counts of all) for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  return new Map([...sums].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function sumOf(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function describeCounts(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([name, count]) => `${name} x${count}`).join(', ');
}
