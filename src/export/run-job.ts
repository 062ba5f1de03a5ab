/**
 * One run of one job, from the source to the recipients: export -> deliver -> audit -> deliver what was restated ->
 * alert -> post events. The audits of older dates do not hold back the newest report. Invariant: whatever happens, sealed dates
 * stay sealed, the end of the run is recorded, and the operators are alerted; the same call continues from there.
 */
import { alertOperators } from '../alert/alerts.ts';
import { beginEvents, postEvents } from '../alert/events.ts';
import { type DateRange, isInRange } from '../calendar/wall-clock.ts';
import { formatWindow } from '../calendar/window.ts';
import { Fault, isFault } from '../core/errors.ts';
import { readFailure, tellInterruption } from '../core/failure.ts';
import { countOf } from '../core/units.ts';
import { assertMayMail, deliverReports } from '../deliver/deliver.ts';
import type { Job } from '../job/job.ts';
import { sumCounts } from '../plan/counts.ts';
import { lookbackOf } from '../plan/dates.ts';
import { type ExportRun, type RunEnv, type SqlRun, withExportRun } from '../run/run.ts';
import { recordRun } from '../run/run-recorder.ts';
import { openStage } from '../stage/stage.ts';
import { listStages, listStageTables, stageTableName } from '../stage/stage-table.ts';
import { type DateResult, type Delivery, hasFailed, judgeRun, type RunResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import { type ExportedJob, type RunOptions, runExport } from './export.ts';
import { describeFailed } from './export-dates.ts';
import type { SealResult } from './restate.ts';
import { beginDate, createDropFile, sealRows } from './seal-rows.ts';
import { assertStageable, type StagedAhead, stageAhead } from './trades/ahead.ts';
import { describeSent } from './trades/fetched-date.ts';

export interface RunRequest {
  /** `run`: a tick of the schedule, everything unsealed; `backfill`: a date selection. */
  readonly command: 'run' | 'backfill';
  /**
   * Which dates; default: everything unsealed inside the lookback. `staged`: seal, as degraded, the staged data of
   * expired dates.
   */
  readonly dates?: RunOptions | { readonly mode: 'staged'; readonly range: RunOptions['range'] };
  readonly withReports: boolean;
  /** Accept the store that is now at `drop.to` as the job's store from now on. Default: false. */
  readonly isNewStore?: boolean | undefined;
}

/** Outcome of a run. Without an `error` it has a `result`. */
export interface FinishedRun {
  /** Result of the export; `undefined` if the export did not finish. */
  readonly result: RunResult | undefined;
  readonly deliveries: readonly Delivery[];
  /** The error that ended the run early. */
  readonly error: unknown;
  /** What is wrong with a run that finished; `undefined` if nothing is. */
  readonly shortfall: 'failed' | 'incomplete' | undefined;
}

/** Never throws: errors are in the outcome. */
export async function runJob(env: RunEnv, job: Job, request: RunRequest): Promise<FinishedRun> {
  return await recordRun(
    env,
    job,
    request.command,
    async (watched) => await runRecorded(watched, job, request),
    ({ error, shortfall, ...finished }) => {
      return { ...finished, error, outcome: error === undefined ? (shortfall ?? 'done') : readFailure(error).kind };
    },
  );
}

async function runRecorded(env: RunEnv, job: Job, request: RunRequest): Promise<FinishedRun> {
  const { command, withReports, dates, isNewStore } = request;
  let result: RunResult | undefined;
  let deliveries: readonly Delivery[] = [];
  let error: unknown;
  const work = async (run: ExportRun) => {
    await beginEvents(env, job, run.ledger.store);
    if (withReports) assertMayMail(run, job);
    const exported = await exportDates(run, dates);
    ({ result } = exported);
    try {
      if (withReports) deliveries = await deliverReports(run, job);
    } finally {
      // A report that cannot be made must not cost an expiring date its last audit.
      if (exported.audit) result = await exported.audit();
    }
    const restated = listRestated(exported.result, result);
    if (!withReports || restated.size === 0) return;
    const corrections = await deliverReports(run, job, { restated });
    deliveries = [...leaveOutRetried(deliveries, restated), ...corrections];
  };
  try {
    await withExportRun(env, job, work, { isNewStore });
  } catch (thrown) {
    error = tellInterruption(thrown, env.signal);
  }
  const shortfall = (result && judgeRun(result)) ?? (deliveries.some(hasFailed) ? 'failed' : undefined);
  // The job file is invalid and no request used it: this is not a run.
  if (!isFault(error) || error.code !== 'JOB_INVALID') {
    // Nothing is known about reports that did not finish.
    const made = withReports && error === undefined ? deliveries : undefined;
    await alertOperators(env, job, { command, withReports, result, deliveries: made, error });
    // Another run of the job is active, and posts its own.
    if (!isFault(error) || error.kind !== 'active') await postEvents(env, job, result);
  }
  return { result, deliveries, error, shortfall };
}

/** Dates that only the audit sealed. */
function listRestated(exported: RunResult, audited: RunResult): ReadonlySet<string> {
  const before = new Set(exported.dates.map(({ date }) => date));
  return new Set(audited.dates.flatMap(({ date }) => (before.has(date) ? [] : [date])));
}

/** Of the restated dates, only the mails that were sent: the second delivery tries the others again. */
function leaveOutRetried(deliveries: readonly Delivery[], restated: ReadonlySet<string>): readonly Delivery[] {
  return deliveries.flatMap((delivery) => {
    if (!restated.has(delivery.date)) return [delivery];
    const recipients = delivery.recipients.filter(({ outcome }) => outcome !== 'failed');
    return recipients.length > 0 ? [{ ...delivery, recipients, error: null }] : [];
  });
}

async function exportDates(run: ExportRun, dates: RunRequest['dates'] = {}): Promise<ExportedJob> {
  if (dates.mode !== 'staged') return await runExport({ ...run, acceptedBy: dates.acceptedBy }, dates);
  const { opened } = run;
  if (opened.kind !== 'sql') {
    throw new Fault('NOTHING_STAGED', `${opened.job.file}: only SQL exports are staged in parts`, { kind: 'usage' });
  }
  const staged = await sealStaged({ ...run, ...opened }, dates.range);
  // Exports no date; writes the current conditions to the store.
  const { result } = await runExport(run, { mode: 'none' });
  return { result: { ...result, dates: [...staged, ...result.dates] } };
}

/**
 * Seals what is staged of expired dates, each by itself: a date that expired before it was complete can no longer be proved
 * complete, but the operator may keep it as a `degraded` drop. A later complete export restates it.
 * @throws Fault `NOTHING_STAGED` (usage) when there is no such date in the range
 */
async function sealStaged(run: SqlRun, range: DateRange | undefined): Promise<readonly DateResult[]> {
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
    degradedReason: `left the lookback before it was complete; sealed on request from ${countOf(windows.length, 'staged window')}, ${span}`,
  });
}

/**
 * Stages the running session of a job. No run: it seals and mails nothing, `status` does not count it, and it alerts nobody,
 * because the next run fetches whatever it left.
 * @throws Fault `STAGE_UNFIT` (usage); `RUN_ACTIVE` (kind `active`) if a run of the job is active
 */
export async function stageJob(env: RunEnv, job: Job): Promise<StagedAhead> {
  assertStageable(job);
  const stage = async (watched: RunEnv) => {
    try {
      // Limits found meanwhile are kept even when a window fails.
      return await withExportRun(watched, job, (run) => stageAhead(run).finally(() => run.limits.save()));
    } catch (error) {
      throw tellInterruption(error, env.signal);
    }
  };
  return await recordRun(env, job, 'stage', stage, () => ({ outcome: 'done' }));
}
