/**
 * The daemon's metrics for Prometheus: counters of the runs that ended, gauges of how it is now. Invariants: labels are
 * job names and words of small fixed sets, so no external text becomes a series; a run is counted once, when the daemon
 * has seen its end. Counters start at 0 for every job, so that their first increase is visible, and are removed with the job.
 */
import { statfs } from 'node:fs/promises';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type CalendarOverride, isSession } from '../../calendar/session.ts';
import { addDays, formatWallDate, parseWallClock } from '../../calendar/wall-clock.ts';
import { CONDITIONS } from '../../plan/conditions.ts';
import { endOf, type RunRecord, sumSealed } from '../../state/run-record.ts';
import type { DaemonView } from '../daemon.ts';
import { parseInstant } from '../shapes.ts';
import { describeFacts, type JobFacts, OUTCOMES } from './describe-job.ts';

/** Of a job's name. Not `job`: Prometheus gives each series the name of its scrape job under that. */
const LABEL = 'job_name';

/** From a run with nothing to do, through a nightly export at one request a second, to a backfill of hours. */
const RUN_SECONDS_BUCKETS = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800];

/** What each run adds to the counters of its job. */
const RUN_COUNTERS: Readonly<Record<string, readonly [help: string, read: (run: RunRecord) => number]>> = {
  flowdrop_rows_total: ['Rows of dates that finished runs sealed.', (run) => sumSealed(run).rows],
  flowdrop_received_bytes_total: ['Bytes that finished runs received from the source.', ({ bytes }) => bytes],
  flowdrop_requests_total: ['Requests of finished runs.', ({ requests }) => requests],
  flowdrop_rate_limited_total: [
    'Requests of finished runs that were answered with 429.',
    ({ rate_limited: limited }) => limited,
  ],
  flowdrop_splits_total: ['Windows that finished runs had to split.', ({ splits }) => splits],
  flowdrop_retries_total: ['Requests that finished runs sent again.', ({ retries }) => retries],
};

/** Gauges with one number per job; `undefined`: the job has no such number now. */
const JOB_GAUGES: Readonly<
  Record<string, readonly [help: string, read: (job: JobFacts, nowMs: number) => number | undefined]>
> = {
  flowdrop_gaps: [
    'Unsealed dates, not counting the session that the next run is due for. Absent until the status is read.',
    ({ gaps }) => gaps ?? undefined,
  ],
  flowdrop_next_expiry_seconds: [
    'Time until the first gap begins to expire, at least 0. Absent without a gap.',
    ({ gap_dates: [first] }, nowMs) => {
      const atMs = parseInstant(first?.begins_to_expire);
      return atMs === undefined ? undefined : Math.max(0, atMs - nowMs) / 1000;
    },
  ],
  flowdrop_last_success_timestamp_seconds: [
    'End time of the last successful run. Absent if unknown.',
    (job) => toSeconds(job.last_success),
  ],
  flowdrop_last_run_timestamp_seconds: [
    'End time of the last run with any outcome. Absent if unknown.',
    ({ last_run: last }) => toSeconds(last?.finished_at),
  ],
  flowdrop_next_run_timestamp_seconds: [
    'When the next run is due, by schedule or as a retry. Absent without a schedule.',
    (job) => {
      const [next, retry] = [toSeconds(job.next_run), toSeconds(job.retry_at)];
      return Math.min(next ?? Number.POSITIVE_INFINITY, retry ?? Number.POSITIVE_INFINITY);
    },
  ],
  flowdrop_run_active: ['1 while a run is active.', ({ running }) => (running ? 1 : 0)],
  flowdrop_run_waiting: ['1 while a run waits for its turn.', (job) => (job.waiting_since === null ? 0 : 1)],
  flowdrop_run_pace_requests_per_second: [
    'Average requests per second of the active run since it started. Absent without a run.',
    ({ active }) => {
      if (!active) return undefined;
      const seconds = (Date.parse(active.updated_at) - Date.parse(active.started_at)) / 1000;
      return seconds > 0 ? active.requests / seconds : undefined;
    },
  ],
  flowdrop_run_progress_ratio: [
    'Share of the rows of the date that the run has fetched. Absent without a run.',
    ({ active }) => {
      const { rows = 0, progress } = active ?? {};
      return progress && progress.total_rows > 0 ? Math.min(1, rows / progress.total_rows) : undefined;
    },
  ],
  flowdrop_run_requests: ['Requests of the active run. Absent without a run.', ({ active }) => active?.requests],
  flowdrop_run_rate_limited: [
    'Requests of the active run that were answered with 429. Absent without a run.',
    ({ active }) => active?.rate_limited,
  ],
  flowdrop_events_owed: [
    'Events that their receivers have not accepted. Absent until the status is read.',
    (job) => (job.status_read_at === null ? undefined : (job.owed_events?.count ?? 0)),
  ],
  flowdrop_deadline_missed: [
    '1 while the newest session is not sealed and mailed by schedule.sealed_by, or unknown. Absent without a deadline.',
    ({ late, next_deadline: next }, nowMs) => {
      const nextMs = parseInstant(next);
      // A status that is older than the deadline does not know.
      return nextMs === undefined ? undefined : Number(late !== null || nextMs <= nowMs);
    },
  ],
  flowdrop_job_file_fault: ['1 while the current job file is not in use.', ({ fault }) => (fault ? 1 : 0)],
  flowdrop_status_fault: [
    '1 while the status of the job cannot be read.',
    (job) => (job.status_fault === null ? 0 : 1),
  ],
  flowdrop_status_read_timestamp_seconds: [
    'When the status of the job was last read. Absent until it is read.',
    (job) => toSeconds(job.status_read_at),
  ],
};

/** @param stateDir folder whose disk is measured */
export function createMetrics(calendar: CalendarOverride, stateDir: string) {
  const registry = new Registry();
  const describe = (name: string, help: string, ...labelNames: string[]) => {
    return { name, help, labelNames, registers: [registry] };
  };
  const counters = Object.entries(RUN_COUNTERS).map(([name, [help, read]]) => {
    return { counter: new Counter(describe(name, help, LABEL)), read };
  });
  const gauges = Object.entries(JOB_GAUGES).map(([name, [help, read]]) => {
    return { gauge: new Gauge(describe(name, help, LABEL)), read };
  });
  const runs = new Counter(describe('flowdrop_runs_total', 'Runs that have ended, by outcome.', LABEL, 'outcome'));
  const seconds = new Histogram({
    ...describe('flowdrop_run_duration_seconds', 'How long runs took, whatever their outcome.', LABEL),
    buckets: RUN_SECONDS_BUCKETS,
  });
  const dates = new Gauge(
    describe('flowdrop_dates', 'Dates by condition. Absent until the status is read.', LABEL, 'condition'),
  );
  const build = new Gauge(describe('flowdrop_build_info', 'Always 1; the version is the label.', 'version'));
  const jobsGauge = new Gauge(describe('flowdrop_jobs', 'Jobs with a schedule.'));
  const quiet = new Gauge(
    describe(
      'flowdrop_since_success_session_seconds',
      'Time since the last success, or since the daemon was started, counting session days only. Absent without a schedule.',
      LABEL,
    ),
  );
  /** Jobs that have series. */
  const known = new Set<string>();
  new Gauge({
    ...describe('flowdrop_state_free_bytes', 'Free bytes of the disk of FLOWDROP_STATE_DIR. NaN if unknown.'),
    async collect() {
      const disk = await statfs(stateDir).catch(() => undefined);
      this.set(disk ? disk.bavail * disk.bsize : Number.NaN);
    },
  });
  collectDefaultMetrics({ register: registry });
  return { contentType: Registry.PROMETHEUS_CONTENT_TYPE, count, text };

  /** A run that the daemon has started has ended. */
  function count(run: RunRecord): void {
    const { job } = run;
    begin(job);
    runs.inc({ [LABEL]: job, outcome: run.outcome ?? 'died' });
    seconds.observe({ [LABEL]: job }, Math.max(0, Date.parse(endOf(run)) - Date.parse(run.started_at)) / 1000);
    for (const { counter, read } of counters) counter.inc({ [LABEL]: job }, Math.max(0, read(run)));
  }

  /** The text exposition format; send it with `contentType`. */
  async function text({ jobs, startedAtMs, version }: DaemonView, nowMs: number): Promise<string> {
    const documents = jobs.map((job) => describeFacts(job, nowMs, calendar));
    const names = new Set(jobs.map(({ name }) => name));
    for (const job of names) begin(job);
    for (const job of known) if (!names.has(job)) forget(job);
    build.set({ version }, 1);
    jobsGauge.set(jobs.filter(({ schedule }) => schedule).length);
    // Each is set again from the documents: a removed job leaves no series.
    for (const { gauge } of gauges) gauge.reset();
    for (const each of [quiet, dates]) each.reset();
    for (const document of documents) {
      const { name: job, schedule, last_success: success, date_counts: found } = document;
      for (const { gauge, read } of gauges) {
        const value = read(document, nowMs);
        if (value !== undefined && Number.isFinite(value)) gauge.set({ [LABEL]: job }, value);
      }
      const sinceMs = parseInstant(success) ?? startedAtMs;
      if (schedule) quiet.set({ [LABEL]: job }, measureSessionTimeMs(sinceMs, nowMs, calendar) / 1000);
      for (const condition of found ? CONDITIONS : []) dates.set({ [LABEL]: job, condition }, found?.[condition] ?? 0);
    }
    return await registry.metrics();
  }

  function begin(job: string): void {
    if (known.has(job)) return;
    known.add(job);
    for (const { counter } of counters) counter.inc({ [LABEL]: job }, 0);
    for (const outcome of Object.keys(OUTCOMES)) runs.inc({ [LABEL]: job, outcome }, 0);
    seconds.zero({ [LABEL]: job });
  }

  /** Removes the series of a job: otherwise they would describe a job that no longer exists. */
  function forget(job: string): void {
    for (const { counter } of counters) counter.remove({ [LABEL]: job });
    for (const outcome of Object.keys(OUTCOMES)) runs.remove({ [LABEL]: job, outcome });
    seconds.remove({ [LABEL]: job });
    known.delete(job);
  }
}

function toSeconds(at: string | null | undefined): number | undefined {
  const atMs = parseInstant(at);
  return atMs === undefined ? undefined : atMs / 1000;
}

/** Bounds the loop: no caller needs to distinguish longer times. */
const MAX_DAYS = 60;

/**
 * The part of the time between two instants that is on session dates, from midnight to midnight in the exchange's time
 * zone. From Friday evening to Monday evening it is a day, as on any other evening.
 */
export function measureSessionTimeMs(fromMs: number, toMs: number, calendar: CalendarOverride): number {
  const startMs = Math.max(fromMs, toMs - MAX_DAYS * 86_400_000);
  let sumMs = 0;
  const last = formatWallDate(toMs);
  for (let date = formatWallDate(startMs); date <= last; date = addDays(date, 1)) {
    if (!isSession(date, calendar)) continue;
    const beginMs = Math.max(startMs, parseWallClock(date, 0));
    sumMs += Math.max(0, Math.min(toMs, parseWallClock(addDays(date, 1), 0)) - beginMs);
  }
  return sumMs;
}
