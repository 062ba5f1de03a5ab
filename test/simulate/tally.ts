/** What simulated lives came to, for people: a line a failed life, and the totals at the end. */
import type { LifeResult } from './simulate.ts';

export interface LifeTotals {
  add(result: LifeResult): void;
  describe(): string;
  readonly failed: readonly number[];
}

export function createTotals(): LifeTotals {
  const counts = {
    lives: 0,
    dates: 0,
    equal: 0,
    stale: 0,
    lost: 0,
    mails: 0,
    requests: 0,
    restated: 0,
    ms: 0,
  };
  const changes = new Map<string, number>();
  const faults = new Map<string, number>();
  const ends = new Map<string, number>();
  const failed: number[] = [];
  const sum = (all: ReadonlyMap<string, number>) => [...all.values()].reduce((total, one) => total + one, 0);
  const list = (all: ReadonlyMap<string, number>) =>
    [...all]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, count]) => `${name} x${count}`)
      .join(', ');
  return {
    failed,
    add({ seed, problems, dates, equal, stale, lost, moves, mails, runs, ms }) {
      counts.lives += 1;
      counts.dates += dates;
      counts.equal += equal;
      counts.stale += stale;
      counts.lost += lost;
      for (const move of moves) changes.set(move, (changes.get(move) ?? 0) + 1);
      counts.mails += mails;
      counts.ms += ms;
      if (problems.length > 0) failed.push(seed);
      for (const { finished, faults: done, requests } of runs) {
        counts.requests += requests;
        for (const fault of done) faults.set(fault, (faults.get(fault) ?? 0) + 1);
        const { error, shortfall, result } = finished ?? {};
        const end = finished === undefined ? 'died' : error === undefined ? (shortfall ?? 'done') : readCode(error);
        ends.set(end, (ends.get(end) ?? 0) + 1);
        counts.restated +=
          result?.dates.filter(({ revision = 1, status }) => status === 'sealed' && revision > 1).length ?? 0;
      }
    },
    describe() {
      const ended = (name: string) => [...faults].filter(([fault]) => fault.startsWith(name));
      const aborts = sum(new Map([...ended('stopped'), ...ended('died')]));
      return [
        '',
        `lives: ${counts.lives}, ${(counts.ms / Math.max(1, counts.lives) / 1000).toFixed(2)} s each`,
        `runs: ${sum(ends)} (${list(ends)}), ${counts.requests} requests`,
        `dates: ${counts.dates}: ${counts.equal} equal to the source at their end, ${counts.lost} recorded as lost, ${counts.stale} left to themselves before they expired`,
        `changes at the source: ${sum(changes)} (${list(changes)}); restatements: ${counts.restated}`,
        `faults: ${sum(faults)} (${list(faults)})`,
        `runs stopped or killed at a step: ${aborts}`,
        `mails: ${counts.mails}`,
        ...(failed.length > 0 ? [`failed lives, for --life: ${failed.join(', ')}`] : []),
        `${counts.lives - failed.length} passed, ${failed.length} failed`,
      ].join('\n');
    },
  };
}

function readCode(error: unknown): string {
  return String((error as { readonly code?: unknown }).code ?? 'without a code'); // Faults have one.
}
