/**
 * `backfill --degraded`: seals what is staged of expired, incomplete dates as `degraded`. A date that cannot be sealed does
 * not stop the others.
 */

import { type DateRange, isInRange } from '../calendar/wall-clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { SqlJob } from '../job/job.ts';
import { lookbackOf } from '../plan/lookback.ts';
import type { ExportRun } from '../run/run.ts';
import type { Source } from '../source/source.ts';
import { listStages } from '../stage/list.ts';
import type { DateResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { earliestNow } from './clocks.ts';
import { sealDegraded } from './degraded.ts';

/** @throws Fault `NOTHING_STAGED` (usage) when there is no such date in the range */
export async function sealStaged(
  run: ExportRun,
  job: SqlJob,
  source: Source,
  range: DateRange | undefined,
): Promise<readonly DateResult[]> {
  // Until the API has answered once, this machine's clock stands for its clock.
  const ask = { testMode: true, signal: run.signal };
  await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, ask);
  // If any clock still calls the date complete, it can be exported and has not expired.
  const { firstWhole, edge } = lookbackOf(job, earliestNow(run));
  const sealed = new Set(await run.ledger.dates());
  const dates = (await listStages(run.engine)).filter(
    (date) => date < firstWhole && !sealed.has(date) && isInRange(date, range),
  );
  if (dates.length === 0) {
    throw new Fault('NOTHING_STAGED', `no pages of expired dates are staged (the lookback begins at ${edge})`, {
      kind: 'usage',
      hint: '`flowdrop status` shows which dates expired. A date that no run has started has nothing to seal.',
    });
  }
  const results: DateResult[] = [];
  for (const date of dates) {
    const seal = async (): Promise<DateResult> => {
      const { manifest, status } = await sealDegraded({ ...run, source }, job, date);
      const [{ size }] = manifest.files;
      return { date, status, rows: manifest.rows, requests: 0, size, revision: manifest.revision };
    };
    const fail = (error: Fault): DateResult => {
      const hint = error.hint === undefined ? {} : { hint: error.hint };
      const fault = { code: error.code, message: describeError(error), ...hint };
      return { date, status: 'failed', rows: 0, requests: 0, error: fault };
    };
    results.push(await attempt(seal, fail));
  }
  return results;
}
