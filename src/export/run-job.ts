/**
 * One run of one job, from the source to the recipients: export -> deliver -> audit -> deliver what was restated ->
 * alert -> post events. The audits of older dates do not hold back the newest report. Invariant: whatever happens, sealed dates
 * stay sealed, the end of the run is recorded, and the operators are alerted; the same call continues from there.
 */
import { alertOperators } from '../alert/alerts.ts';
import { beginEvents, postEvents } from '../alert/events.ts';
import { Fault, isFault } from '../core/errors.ts';
import { readFailure, tellInterruption } from '../core/failure.ts';
import { assertMayMail, deliverReports } from '../deliver/deliver.ts';
import type { Job } from '../job/job.ts';
import { type ExportRun, type RunEnv, withExportRun } from '../run/run.ts';
import { recordRun } from '../run/run-recorder.ts';
import { type Delivery, hasFailed, judgeRun, type RunResult } from '../state/run-result.ts';
import { sealStaged } from './degraded.ts';
import { type ExportedJob, type RunOptions, runExport } from './export.ts';
import { assertStageable, type StagedAhead, stageAhead } from './trades/ahead.ts';

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
