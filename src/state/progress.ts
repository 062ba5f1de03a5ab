/**
 * Publishes the progress of a run to other processes: one small file, rewritten while the run is active and removed at
 * its end. Invariant: it is for people only, so a run never fails or waits because of it. Readers detect the file of a
 * killed run by its process id and its age.
 */
import { rm } from 'node:fs/promises';
import { pid } from 'node:process';
import { replaceFile } from '../core/atomic-file.ts';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import { readJsonFile } from '../core/json-file.ts';
import { isProcessAlive } from '../core/liveness.ts';
import type { Log } from '../core/log.ts';
import type { SourceStats } from '../source/source.ts';
import { type RunProgress, runProgressSchema } from './run-progress.ts';
import type { RunTotals } from './totals.ts';

/** Frequent enough for a live page, rare enough for any disk. */
const WRITE_EVERY_MS = 1_000;

/** A live run writes every second; a suspended machine or a hanging disk can delay it. */
const STALE_AFTER_MS = 120_000;

interface ProgressDeps {
  readonly path: string;
  readonly runId: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly totals: RunTotals;
  readonly stats: Readonly<SourceStats>;
}

interface ProgressFile {
  /** Stops writing and removes the file. Idempotent. */
  stop(): Promise<void>;
}

/** Starts writing: at once, then every second, even if nothing changed. */
export function writeProgress(deps: ProgressDeps): ProgressFile {
  const ending = new AbortController();
  const done = keepWriting(deps, ending.signal);
  return {
    async stop() {
      ending.abort();
      await done;
      // If the file cannot be removed, its age shows that the run is over.
      await rm(deps.path, { force: true }).catch(() => undefined);
    },
  };
}

async function keepWriting(deps: ProgressDeps, signal: AbortSignal): Promise<void> {
  const { path, clock, log } = deps;
  const startedAtMs = clock.now();
  while (!signal.aborted) {
    try {
      await replaceFile(path, `${JSON.stringify(describeProgress(deps, startedAtMs), undefined, 2)}\n`);
    } catch (error) {
      // Readers see no run, or an older state of it; the run itself loses nothing.
      const reason = describeError(error);
      log.debug({ event: 'progress-unwritten', path, reason }, `the progress was not written: ${reason}`);
    }
    // Only the end of the run rejects this, and the loop checks for that.
    await clock.sleep(WRITE_EVERY_MS, signal).catch(() => undefined);
  }
}

function describeProgress({ runId, clock, totals, stats }: ProgressDeps, startedAtMs: number): RunProgress {
  const state = totals.read();
  return {
    run_id: runId,
    pid,
    started_at: new Date(startedAtMs).toISOString(),
    updated_at: new Date(clock.now()).toISOString(),
    date: state.date,
    phase: state.phase,
    window: state.window,
    rows: state.rows,
    total_rows: state.totalRows,
    dates_done: state.datesDone,
    dates_total: state.datesTotal,
    pages: state.pages,
    pages_left: state.pagesLeft,
    requests: stats.requests,
    retries: stats.retries,
    rate_limited: stats.rateLimited,
    splits: state.splits,
    rows_per_second: Math.round(state.rowsPerSecond),
    seconds_left: state.leftMs === undefined ? null : Math.round(state.leftMs / 1000),
  };
}

/** The active run; `undefined` when there is no valid file, or no live run wrote it. */
export async function readProgress(path: string, nowMs: number): Promise<RunProgress | undefined> {
  const progress = await readJsonFile(path, runProgressSchema);
  if (progress === undefined) return undefined;
  const ageMs = nowMs - Date.parse(progress.updated_at);
  // An invalid time gives the age NaN, which fails the comparison.
  return Math.abs(ageMs) <= STALE_AFTER_MS && isProcessAlive(progress.pid) ? progress : undefined;
}
