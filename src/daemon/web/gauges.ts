/** Metrics of the current state: each is set again from the view, and a removed job leaves no series. */
import { statfs } from 'node:fs/promises';
import { Gauge, type Registry } from 'prom-client';
import { type CalendarOverride, isSession } from '../../calendar/session.ts';
import { addDays, formatWallDate, parseWallClock } from '../../calendar/wall-clock.ts';
import { CONDITIONS } from '../../plan/conditions.ts';
import { isEndedRun } from '../../state/run-record.ts';
import type { DaemonView, JobView } from '../job-view.ts';
import { listGaps, parseInstant } from './date-gap.ts';

interface Moment {
  readonly nowMs: number;
  readonly startedAtMs: number;
  readonly lastSuccessMs: ReadonlyMap<string, number>;
  readonly calendar: CalendarOverride;
}

/** Gauges with one number per job; `undefined`: the job has no such number now. */
const JOB_GAUGES: Readonly<
  Record<string, { readonly help: string; readonly read: (job: JobView, moment: Moment) => number | undefined }>
> = {
  flowdrop_gaps: {
    help: 'Unsealed dates, not counting the session that the next run is due for. Absent until the status is read.',
    read: (job, { nowMs, calendar }) => (job.status ? listGaps(job, nowMs, calendar).length : undefined),
  },
  flowdrop_next_expiry_seconds: {
    help: 'Time until the first gap begins to expire, at least 0. Absent without a gap.',
    read: (job, { nowMs, calendar }) => {
      const atMs = listGaps(job, nowMs, calendar)[0]?.expiresAtMs;
      return atMs === undefined ? undefined : Math.max(0, atMs - nowMs) / 1000;
    },
  },
  flowdrop_last_success_timestamp_seconds: {
    help: 'End time of the last successful run. Absent if unknown.',
    read: ({ name }, { lastSuccessMs }) => toSeconds(lastSuccessMs.get(name)),
  },
  flowdrop_since_success_session_seconds: {
    help: 'Time since the last success, or since the daemon was started, counting session days only. Absent without a schedule.',
    read: ({ name, schedule }, { nowMs, startedAtMs, lastSuccessMs, calendar }) =>
      schedule && measureSessionTimeMs(lastSuccessMs.get(name) ?? startedAtMs, nowMs, calendar) / 1000,
  },
  flowdrop_last_run_timestamp_seconds: {
    help: 'End time of the last run with any outcome. Absent if unknown.',
    read: ({ runs }) => toSeconds(parseInstant(runs.find(isEndedRun)?.finished_at ?? null)),
  },
  flowdrop_next_run_timestamp_seconds: {
    help: 'When the next run is due, by schedule or as a retry. Absent without a schedule.',
    read: ({ nextRunAtMs, retryAtMs }) => {
      const atMs = Math.min(nextRunAtMs ?? Number.POSITIVE_INFINITY, retryAtMs ?? Number.POSITIVE_INFINITY);
      return Number.isFinite(atMs) ? atMs / 1000 : undefined;
    },
  },
  flowdrop_run_active: { help: '1 while a run is active.', read: ({ running }) => (running ? 1 : 0) },
  flowdrop_run_waiting: {
    help: '1 while a run waits for its turn.',
    read: ({ waitingSinceMs }) => (waitingSinceMs === undefined ? 0 : 1),
  },
  flowdrop_run_pace_requests_per_second: {
    help: 'Average requests per second of the active run since it started. Absent without a run.',
    read: ({ running }) => {
      const run = running?.record;
      if (!run) return undefined;
      const seconds = (Date.parse(run.updated_at) - Date.parse(run.started_at)) / 1000;
      return seconds > 0 ? run.requests / seconds : undefined;
    },
  },
  flowdrop_run_progress_ratio: {
    help: 'Share of the rows of the date that the run has fetched. Absent without a run.',
    read: ({ running }) => {
      const { rows = 0, progress } = running?.record ?? {};
      return progress && progress.total_rows > 0 ? Math.min(1, rows / progress.total_rows) : undefined;
    },
  },
  flowdrop_run_requests: {
    help: 'Requests of the active run. Absent without a run.',
    read: ({ running }) => running?.record?.requests,
  },
  flowdrop_run_rate_limited: {
    help: 'Requests of the active run that were answered with 429. Absent without a run.',
    read: ({ running }) => running?.record?.rate_limited,
  },
  flowdrop_events_owed: {
    help: 'Events that their receivers have not accepted. Absent until the status is read.',
    read: ({ status }) => (status ? (status.document.owed_events?.count ?? 0) : undefined),
  },
  flowdrop_job_file_fault: {
    help: '1 while the current job file is not in use.',
    read: ({ fault }) => (fault ? 1 : 0),
  },
  flowdrop_status_fault: {
    help: '1 while the status of the job cannot be read.',
    read: ({ status, statusFault }) => (statusFault !== undefined || status?.document.fault ? 1 : 0),
  },
  flowdrop_status_read_timestamp_seconds: {
    help: 'When the status of the job was last read. Absent until it is read.',
    read: ({ status }) => toSeconds(status?.readAtMs),
  },
};

/** Creates the gauges; the returned function sets them from a view. @param stateDir folder whose disk is measured */
export function createGauges(registry: Registry, calendar: CalendarOverride, stateDir: string) {
  const registers = [registry];
  const perJob = Object.entries(JOB_GAUGES).map(([name, { help, read }]) => ({
    gauge: new Gauge({ name, help, labelNames: ['job'], registers }),
    read,
  }));
  const dates = new Gauge({
    name: 'flowdrop_dates',
    help: 'Dates by condition. Absent until the status is read.',
    labelNames: ['job', 'condition'],
    registers,
  });
  const build = new Gauge({
    name: 'flowdrop_build_info',
    help: 'Always 1; the version is the label.',
    labelNames: ['version'],
    registers,
  });
  new Gauge({
    name: 'flowdrop_state_free_bytes',
    help: 'Free bytes of the disk of FLOWDROP_STATE_DIR. NaN if unknown.',
    registers,
    async collect() {
      const disk = await statfs(stateDir).catch(() => undefined);
      this.set(disk ? disk.bavail * disk.bsize : Number.NaN);
    },
  });
  const jobs = new Gauge({ name: 'flowdrop_jobs', help: 'Jobs with a schedule.', registers });
  return ({ jobs: views, startedAtMs, version }: DaemonView, nowMs: number, lastSuccessMs: Moment['lastSuccessMs']) => {
    const moment: Moment = { nowMs, startedAtMs, lastSuccessMs, calendar };
    build.set({ version }, 1);
    jobs.set(views.filter(({ schedule }) => schedule).length);
    for (const { gauge, read } of perJob) {
      gauge.reset();
      for (const job of views) {
        const value = read(job, moment);
        if (value !== undefined && Number.isFinite(value)) gauge.set({ job: job.name }, value);
      }
    }
    dates.reset();
    for (const { name: job, status } of views) {
      if (!status) continue;
      for (const condition of CONDITIONS) dates.set({ job, condition }, status.document.date_counts[condition]);
    }
  };
}

function toSeconds(atMs: number | undefined): number | undefined {
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
