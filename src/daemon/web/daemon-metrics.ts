/**
 * The daemon's counters for Prometheus. Invariants: labels are job names and words of small fixed sets, so no external
 * text becomes a series; a run is counted once, when it has ended. Counters start at 0 for every job, so that their
 * first increase is visible, and are removed with the job. `gauges.ts` has the current values.
 */
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import type { CalendarOverride } from '../../calendar/session.ts';
import { endOf, type RunRecord, sumSealed } from '../../state/run-record.ts';
import type { DaemonView, JobView } from '../job-view.ts';
import { findLastSuccess } from './describe-job.ts';
import { createGauges } from './gauges.ts';
import { OUTCOME_WORDS } from './health-text.ts';

/** From a run with nothing to do, through a nightly export at one request a second, to a backfill of hours. */
const RUN_SECONDS_BUCKETS = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800];

/** An editor replaces a file within seconds. After this time nobody needs the last numbers of a removed job. */
const GONE_GRACE_MS = 600_000;

type JobCounter = Counter<'job'>;

export class DaemonMetrics {
  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly #registry = new Registry();
  readonly #rows: JobCounter;
  readonly #bytes: JobCounter;
  readonly #requests: JobCounter;
  readonly #rateLimited: JobCounter;
  readonly #splits: JobCounter;
  readonly #retries: JobCounter;
  readonly #runs: Counter<'job' | 'outcome'>;
  readonly #seconds: Histogram<'job'>;
  /** Counted runs per job. Only runs that the view still shows are kept: one that left the view never returns. */
  #counted = new Map<string, ReadonlySet<string>>();
  readonly #lastSuccessMs = new Map<string, number>();
  /** Jobs that recently left the view, with the loop's time. */
  readonly #goneSinceMs = new Map<string, number>();
  readonly #setGauges: (view: DaemonView, nowMs: number, lastSuccessMs: ReadonlyMap<string, number>) => void;

  /** @param stateDir folder whose disk is measured */
  constructor(calendar: CalendarOverride, stateDir: string) {
    const registers = [this.#registry];
    const counter = (name: string, help: string) => new Counter({ name, help, labelNames: ['job'], registers });
    this.#rows = counter('flowdrop_rows_total', 'Rows of dates that finished runs sealed.');
    this.#bytes = counter('flowdrop_received_bytes_total', 'Bytes that finished runs received from the source.');
    this.#requests = counter('flowdrop_requests_total', 'Requests of finished runs.');
    this.#rateLimited = counter(
      'flowdrop_rate_limited_total',
      'Requests of finished runs that were answered with 429.',
    );
    this.#splits = counter('flowdrop_splits_total', 'Windows that finished runs had to split.');
    this.#retries = counter('flowdrop_retries_total', 'Requests that finished runs sent again.');
    this.#runs = new Counter({
      name: 'flowdrop_runs_total',
      help: 'Runs that have ended, by outcome.',
      labelNames: ['job', 'outcome'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'flowdrop_run_duration_seconds',
      help: 'How long runs took, whatever their outcome.',
      labelNames: ['job'],
      buckets: RUN_SECONDS_BUCKETS,
      registers,
    });
    this.#setGauges = createGauges(this.#registry, calendar, stateDir);
    collectDefaultMetrics({ register: this.#registry });
  }

  /** Counts the runs that ended since the last call. Call it before they leave the view. */
  observe(view: DaemonView): void {
    const counted = new Map<string, ReadonlySet<string>>();
    for (const job of view.jobs) {
      const known = this.#counted.get(job.name);
      if (!known) this.#begin(job.name);
      const ended = job.runs.filter(({ reason, outcome }) => reason !== 'hand' && outcome !== null);
      for (const run of ended) {
        if (known?.has(run.id)) continue;
        // An earlier daemon counted the runs before this start: counting them again would look like an increase.
        if (Date.parse(endOf(run)) >= view.startedAtMs) this.#count(job.name, run);
      }
      this.#noteSuccess(job);
      counted.set(job.name, new Set(ended.map(({ id }) => id)));
    }
    for (const [name, runs] of this.#counted) {
      if (counted.has(name)) continue;
      const goneSinceMs = this.#goneSinceMs.get(name) ?? view.beatAtMs;
      this.#goneSinceMs.set(name, goneSinceMs);
      // A job whose file is being replaced disappears for a moment; it must not be counted again.
      if (Math.abs(view.beatAtMs - goneSinceMs) < GONE_GRACE_MS) counted.set(name, runs);
      else this.#forget(name);
    }
    for (const { name } of view.jobs) this.#goneSinceMs.delete(name);
    this.#counted = counted;
  }

  /** The text exposition format; send it with `contentType`. */
  async text(view: DaemonView, nowMs: number): Promise<string> {
    this.observe(view);
    this.#setGauges(view, nowMs, this.#lastSuccessMs);
    return await this.#registry.metrics();
  }

  #jobCounters(): readonly JobCounter[] {
    return [this.#rows, this.#bytes, this.#requests, this.#rateLimited, this.#splits, this.#retries];
  }

  #begin(job: string): void {
    for (const counter of this.#jobCounters()) counter.inc({ job }, 0);
    for (const outcome of Object.keys(OUTCOME_WORDS)) this.#runs.inc({ job, outcome }, 0);
    this.#seconds.zero({ job });
  }

  /** Removes the series of a job: otherwise they would describe a job that no longer exists. */
  #forget(job: string): void {
    for (const counter of this.#jobCounters()) counter.remove({ job });
    for (const outcome of Object.keys(OUTCOME_WORDS)) this.#runs.remove({ job, outcome });
    this.#seconds.remove({ job });
    this.#lastSuccessMs.delete(job);
    this.#goneSinceMs.delete(job);
  }

  /** The last success in the view may be older than one that was already seen. */
  #noteSuccess(job: JobView): void {
    const atMs = findLastSuccess(job);
    if (atMs !== undefined) this.#lastSuccessMs.set(job.name, Math.max(atMs, this.#lastSuccessMs.get(job.name) ?? 0));
  }

  #count(job: string, run: RunRecord): void {
    this.#runs.inc({ job, outcome: run.outcome ?? 'died' });
    this.#seconds.observe({ job }, Math.max(0, Date.parse(endOf(run)) - Date.parse(run.started_at)) / 1000);
    this.#rows.inc({ job }, sumSealed(run).rows);
    this.#bytes.inc({ job }, Math.max(0, run.bytes));
    this.#requests.inc({ job }, Math.max(0, run.requests));
    this.#rateLimited.inc({ job }, Math.max(0, run.rate_limited));
    this.#splits.inc({ job }, Math.max(0, run.splits));
    this.#retries.inc({ job }, Math.max(0, run.retries));
  }
}
