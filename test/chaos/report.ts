/** What chaos runs print: a line a run, and the tally at the end. Pure. */
import type { ChaosResult } from './run.ts';

export function describeResult(result: ChaosResult): string {
  const { seed, scenario, kinds, faults, kills, ends, restarts, requests, ms, problems, folder } = result;
  const { equalDates, told, mailsDue, mailsTaken } = result;
  const lines = [
    [
      `seed ${seed}`,
      scenario,
      `kinds: ${kinds.join(', ')}`,
      `faults: ${describeCounts(faults) || 'none'}`,
      `kills: ${kills.join(', ') || 'none'}`,
      `ends: ${ends.join(', ') || 'none'}`,
      `restarts ${restarts}`,
      `requests ${requests}`,
      ...(mailsDue > 0 ? [`mails ${mailsTaken} of ${mailsDue}`] : []),
      `${(ms / 1000).toFixed(1)} s`,
      ...(told > 0 ? [`told ${told}`] : []),
      `dates equal: ${equalDates}`,
      ...(problems.length > 0 ? ['FAILED'] : []),
    ].join(' | '),
  ];
  for (const problem of problems) lines.push(`  ${problem.replaceAll('\n', '\n    ')}`);
  if (problems.length > 0) {
    const again = `--seed ${seed} --runs 1 --scenario ${scenario} --kinds ${kinds.join(',')}`;
    lines.push(`  kept: ${folder}`, `  again: npm run chaos -- ${again}`);
  }
  return lines.join('\n');
}

/** The last line is for programs. */
export function describeTotals(results: readonly ChaosResult[]): string {
  const failed = results.filter(({ problems }) => problems.length > 0);
  const sum = (read: (result: ChaosResult) => number) => results.reduce((total, result) => total + read(result), 0);
  const counts = (read: (result: ChaosResult) => readonly string[]) =>
    describeCounts(countAll(results.flatMap(read))) || 'none';
  const faults = sumCounts(results.map((result) => result.faults));
  const skipped = countAll(results.flatMap((result) => result.skipped));
  return [
    '',
    `runs: ${results.length} (${counts(({ scenario }) => [scenario])})`,
    `mean seconds of a run: ${describeTimes(results)}`,
    `kinds of trouble: ${counts(({ kinds }) => kinds)}`,
    `faults: ${sumOf(faults)} (${describeCounts(faults)})`,
    `kills: ${sum(({ kills }) => kills.length)} (${counts(({ kills }) => kills)})`,
    `attempts that ended otherwise than with 0: ${counts(({ ends }) => ends)}`,
    `attempts that did not seal, and said so: ${sum(({ told }) => told)}`,
    `restarts a run: ${counts(({ restarts }) => [String(restarts)])}`,
    `requests: ${sum(({ requests }) => requests)}`,
    `dates equal to the source, row for row: ${sum(({ equalDates }) => equalDates)}`,
    `mails: ${sum(({ mailsDue }) => mailsDue)} due, ${sum(({ mailsTaken }) => mailsTaken)} taken by the server`,
    `left by kills where no reader sees it: ${counts(({ remains }) => remains)}`,
    ...(failed.length > 0
      ? [
          `failed: ${failed.map(({ seed, scenario, kinds }) => `${seed} (${scenario}: ${kinds.join(', ')})`).join('; ')}`,
        ]
      : []),
    ...[...skipped].map(([reason, count]) => `SKIPPED in ${count} runs: ${reason}`),
    `${results.length - failed.length} passed, ${failed.length} failed`,
  ].join('\n');
}

function describeTimes(results: readonly ChaosResult[]): string {
  return [...new Set(results.map(({ scenario }) => scenario))]
    .sort()
    .map((name) => {
      const times = results.filter(({ scenario }) => scenario === name).map(({ ms }) => ms / 1000);
      return `${name} ${(times.reduce((sum, seconds) => sum + seconds, 0) / times.length).toFixed(1)}`;
    })
    .join(', ');
}

export function countAll(names: readonly string[]): ReadonlyMap<string, number> {
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

export function describeCounts(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([name, count]) => `${name} x${count}`).join(', ');
}
