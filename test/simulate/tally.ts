/** What simulated lives came to, for people: a line a failed life, and the totals at the end. */
import { countAll, describeCounts } from '../chaos/report.ts';
import type { LifeResult } from './simulate.ts';

export interface LifeTotals {
  add(result: LifeResult): void;
  describe(): string;
  readonly failed: readonly number[];
}

export function createTotals(): LifeTotals {
  const counts = { lives: 0, dates: 0, equal: 0, stale: 0, lost: 0, mails: 0, requests: 0, restated: 0, ms: 0 };
  const changes: string[] = [];
  const faults: string[] = [];
  const ends: string[] = [];
  const failed: number[] = [];
  const list = (names: readonly string[]) => `${names.length} (${describeCounts(countAll(names))})`;
  return {
    failed,
    add({ seed, problems, dates, equal, stale, lost, moves, mails, runs, ms }) {
      counts.lives += 1;
      counts.dates += dates;
      counts.equal += equal;
      counts.stale += stale;
      counts.lost += lost;
      counts.mails += mails;
      counts.ms += ms;
      changes.push(...moves);
      if (problems.length > 0) failed.push(seed);
      for (const { finished, faults: done, requests } of runs) {
        counts.requests += requests;
        faults.push(...done);
        const { error, shortfall, result } = finished ?? {};
        ends.push(finished === undefined ? 'died' : error === undefined ? (shortfall ?? 'done') : readCode(error));
        counts.restated +=
          result?.dates.filter(({ revision = 1, status }) => status === 'sealed' && revision > 1).length ?? 0;
      }
    },
    describe() {
      const aborts = faults.filter((fault) => /^(stopped|died)/.test(fault));
      return [
        '',
        `lives: ${counts.lives}, ${(counts.ms / Math.max(1, counts.lives) / 1000).toFixed(2)} s each`,
        `runs: ${list(ends)}, ${counts.requests} requests`,
        `dates: ${counts.dates}: ${counts.equal} equal to the source at their end, ${counts.lost} recorded as lost, ${counts.stale} left to themselves before they expired`,
        `changes at the source: ${list(changes)}; restatements: ${counts.restated}`,
        `faults: ${list(faults)}`,
        `runs stopped or killed at a step: ${aborts.length}`,
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
