/**
 * Seals an incomplete date. A date that expired before it was complete can no longer be proved complete, but the operator
 * may keep what was staged as a `degraded` drop. A later complete export restates it.
 */

import { type DateRange, isInRange } from '../calendar/wall-clock.ts';
import { formatWindow } from '../calendar/window.ts';
import { Fault } from '../core/errors.ts';
import { sumCounts } from '../plan/counts.ts';
import { lookbackOf } from '../plan/dates.ts';
import type { SqlRun } from '../run/run.ts';
import { openStage } from '../stage/stage.ts';
import { listStages, listStageTables, stageTableName } from '../stage/stage-table.ts';
import type { DateResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { describeFailed } from './export-dates.ts';
import type { SealResult } from './restate.ts';
import { beginDate, createDropFile, sealRows } from './seal-rows.ts';
import { describeSent } from './trades/fetched-date.ts';

/**
 * `backfill --degraded`: seals what is staged of expired dates, each by itself.
 * @throws Fault `NOTHING_STAGED` (usage) when there is no such date in the range
 */
export async function sealStaged(run: SqlRun, range: DateRange | undefined): Promise<readonly DateResult[]> {
  const { source, job, signal } = run;
  // Until the API has answered once, this machine's clock stands for its clock.
  await source.ask(`SELECT id FROM ${job.source.table} LIMIT 1`, { testMode: true, signal });
  // If any clock still calls the date complete, it can be exported and has not expired.
  const { firstWhole, edge } = lookbackOf(job, run.clocks.earliest());
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
      const { manifest, status } = await sealDegraded(run, date);
      const [{ size }] = manifest.files;
      return { date, status, rows: manifest.rows, requests: 0, size, revision: manifest.revision };
    };
    results.push(await attempt(seal, (error) => describeFailed(run, date, error)));
  }
  return results;
}

/**
 * Seals what is staged of an expired or clipped date as `degraded`.
 * @throws Fault (usage) `NOTHING_STAGED`; and those of `sealRows`
 */
export async function sealDegraded(run: SqlRun, date: string): Promise<SealResult> {
  const { engine, source, state, job } = run;
  const name = stageTableName(job, date, source.url);
  // Opening drops rows staged by another query, and here they may be all there is.
  const isThere = (await listStageTables(engine, name)).includes(name);
  const stage = isThere ? await openStage(engine, job, date, source.url) : undefined;
  const windows = (await stage?.windows()) ?? [];
  if (stage === undefined || windows.length === 0) {
    throw new Fault('NOTHING_STAGED', `this query of the job "${job.name}" has staged nothing of ${date}`, {
      kind: 'usage',
      hint: 'Pages that another query, other columns or another source staged are kept; restore the old job file to seal them.',
    });
  }
  // The source's last counts, if a run kept them.
  const counts = await state.counts(date).read();
  const texts = windows.map(({ window }) => formatWindow(window)).sort();
  const span = `the first ${texts[0]}, the last ${texts.at(-1)}`;
  return await sealRows(run, stage, {
    ...describeSent(run, date),
    begun: beginDate(run),
    file: createDropFile(run, stage),
    counted: counts && sumCounts(counts),
    degradedReason: `left the lookback before it was complete; sealed on request from ${windows.length} staged window(s), ${span}`,
  });
}
