/**
 * What becomes of a tick: a run, a day without a session, or a line that says why not; and after a run that failed, another
 * try. A tick that comes while a run goes on waits for its end. Invariant: one run of a job at a time, and a tick that is
 * held is settled once nothing more comes of it.
 */
import { formatWallDate } from '../calendar/wall-clock.ts';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Claims } from './claims.ts';
import type { Coordinator } from './coordinator.ts';
import type { MissedTick } from './job-board.ts';
import { addFinished, type JobRecord } from './job-record.ts';
import type { DueRun, Runs } from './runs.ts';
import type { Statuses } from './statuses.ts';
import type { FinishedRun } from './view.ts';

export interface AdmissionDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly coordinator: Coordinator | undefined;
  readonly claims: Claims;
  readonly statuses: Statuses;
  readonly newRunId: () => string;
  readonly hasSession: (tickMs: number) => boolean;
  readonly recordOf: (job: string) => JobRecord | undefined;
  readonly runs: () => Runs;
  readonly nextTick: (job: string) => number | undefined;
  readonly isStopping: () => boolean;
  /** Nothing more comes of the job's tick: a restart need not look for it. */
  readonly onOver: (job: string) => void;
  /** A process that was killed, or stopped for taking too long, could tell nobody. */
  readonly onUntold: (run: FinishedRun, job: string) => void;
  /** It came to its own end, so that an earlier death is over. */
  readonly onResult: (job: string) => void;
}

export interface Admission {
  /** A tick that is this daemon's. */
  letIn(due: DueRun): void;
  /** Ticks that node-cron did not fire: of shared schedules they must be claimed first. */
  catchUp(missed: readonly MissedTick[]): Promise<void>;
  /** A run came to its end. */
  close(due: DueRun, run: FinishedRun, isUntold: boolean): void;
  dropRetry(record: JobRecord | undefined): void;
  settle(due: DueRun): void;
}

/** A status that is younger tells whether dates are pending. */
const STATUS_FRESH_MS = 60_000;
/** What another try may mend: a wrong job file or an incomplete date it does not. */
const RETRIED: readonly FinishedRun['outcome'][] = ['failed', 'died', 'timed-out', 'active'];

export function createAdmission(deps: AdmissionDeps): Admission {
  const { clock, log, coordinator, claims, statuses } = deps;
  const deciding = new Set<string>();

  function settle({ job, tickMs }: DueRun): void {
    claims.settle({ job, dueAtMs: tickMs });
  }
  function dropRetry(record: JobRecord | undefined): void {
    if (record?.retry) settle(record.retry.due);
    if (record) record.retry = undefined;
  }
  /** One is enough, and the newest: a run goes for everything that is not sealed. */
  function keepNext(record: JobRecord, due: DueRun): void {
    const older = record.next !== undefined && record.next.tickMs > due.tickMs ? due : record.next;
    if (older !== due) record.next = due;
    if (older) settle(older);
  }
  function dropNext(record: JobRecord): DueRun | undefined {
    const { next } = record;
    record.next = undefined;
    return next;
  }
  /** A tick that is this daemon's becomes a run, unless there is no session or its job runs already. */
  function letIn(due: DueRun): void {
    const record = deps.recordOf(due.job);
    if (!record || deps.isStopping()) return;
    if (record.filed.job.schedule?.distributed) claims.hold({ job: due.job, dueAtMs: due.tickMs });
    // Whoever takes the schedule or its retries out of the file wants none.
    if (due.reason === 'retry' && (record.filed.job.schedule?.retrySeconds ?? null) === null) {
      deps.onOver(due.job);
      settle(due);
      return;
    }
    const isSure = due.reason === 'retry' || deps.hasSession(due.tickMs);
    // One that is sure does not wait for what becomes of one that is not.
    if (deps.runs().has(due.job) || (deciding.has(due.job) && !isSure)) {
      // The very tick that runs, found again when its file was gone for a moment: it is still held.
      if (record.current?.tickMs === due.tickMs) return;
      log.warn({ event: 'overlap', job: due.job }, `${due.job} is due, but its last run has not ended`);
      if (isSure && due.reason !== 'retry') keepNext(record, due);
      else settle(due);
      return;
    }
    if (due.reason !== 'retry') dropRetry(record);
    record.current = due;
    if (isSure) {
      deps.runs().add(due);
      return;
    }
    deciding.add(due.job);
    void decide(record, due).finally(() => deciding.delete(due.job));
  }
  /** On a day without a session only pending dates are worth a process. */
  async function decide(record: JobRecord, due: DueRun): Promise<void> {
    const readAtMs = statuses.of(due.job).status?.readAtMs ?? Number.NEGATIVE_INFINITY;
    if (Math.abs(clock.now() - readAtMs) > STATUS_FRESH_MS) await statuses.refresh(due.job);
    if (record.isRemoved || deps.runs().has(due.job)) return settle(due);
    // Where nothing is known a run that finds nothing is cheaper than a date that is lost.
    if (statuses.hasPending(due.job) !== false) {
      record.current = { ...due, reason: 'gap' };
      return void deps.runs().add(record.current);
    }
    const at = clock.now();
    const none = { code: undefined, signal: undefined, result: undefined, error: undefined, logFile: undefined };
    addFinished(record, {
      ...{
        runId: deps.newRunId(),
        reason: due.reason,
        startedAtMs: at,
        finishedAtMs: at,
        outcome: 'no-session',
        ...none,
      },
    });
    log.info({ event: 'no-session', job: due.job }, `${due.job}: no session on ${formatWallDate(due.tickMs)}`);
    settle(due);
  }
  function close(due: DueRun, run: FinishedRun, isUntold: boolean): void {
    const record = deps.recordOf(due.job);
    if (!record) return;
    addFinished(record, run);
    record.progress = null;
    if (deps.isStopping()) {
      // What was interrupted is taken over by another daemon, or caught up at the next start; what was done is over.
      if (run.outcome !== 'done') return;
      deps.onOver(due.job);
      settle(due);
      return;
    }
    const next = dropNext(record);
    if (record.isRemoved) {
      deps.onOver(due.job);
      settle(due);
      if (next) settle(next);
      return;
    }
    // What has become due meanwhile is also the next try.
    const atMs = next ? undefined : retryAt(record, run);
    record.retry = atMs === undefined ? undefined : { atMs, due: { ...due, reason: 'retry' } };
    if (atMs === undefined) {
      deps.onOver(due.job);
      settle(due);
    } else
      log.info(
        { event: 'retry-planned', job: due.job, at: new Date(atMs).toISOString() },
        `${due.job}: is tried again`,
      );
    void statuses.refresh(due.job);
    if (isUntold) deps.onUntold(run, due.job);
    else if (run.outcome === 'done' || run.result) deps.onResult(due.job);
    if (next) letIn(next);
  }
  function retryAt({ filed }: JobRecord, { outcome, finishedAtMs }: FinishedRun): number | undefined {
    const seconds = filed.job.schedule?.retrySeconds ?? null;
    if (seconds === null || !RETRIED.includes(outcome)) return undefined;
    const atMs = finishedAtMs + seconds * 1000;
    return atMs < (deps.nextTick(filed.job.name) ?? 0) ? atMs : undefined;
  }
  async function catchUp(missed: readonly MissedTick[]): Promise<void> {
    // All at once: while Redis is away each takes seconds to find it out.
    const claimed = await Promise.all(
      missed.map(async ({ job, tickMs }) => {
        const record = deps.recordOf(job);
        return record !== undefined && (await claim(record, tickMs));
      }),
    );
    for (const [index, { job, tickMs }] of missed.entries()) {
      if (claimed[index]) letIn({ job, tickMs, reason: 'catch-up' });
    }
  }
  async function claim(record: JobRecord, tickMs: number): Promise<boolean> {
    const { name, schedule } = record.filed.job;
    if (!schedule?.distributed || !coordinator) return true;
    try {
      const isMine = await coordinator.claim({ job: name, dueAtMs: tickMs });
      if (tickMs === record.owedMs) record.owedMs = undefined;
      return isMine;
    } catch (error) {
      record.owedMs = Math.max(tickMs, record.owedMs ?? 0);
      log.error({ event: 'claim-failed', job: name, reason: describeError(error) }, `${name}: ${describeError(error)}`);
      return false;
    }
  }
  return { letIn, catchUp, close, dropRetry, settle };
}
