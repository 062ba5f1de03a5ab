/**
 * What a run that goes on tells other processes of itself: one small file, written while it runs and taken away at its
 * end. Invariant: it is for people only, so a run never fails, or waits, for it; and what a killed run left behind is
 * told from a run that goes on by its process and its age.
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

/** Often enough for a page that is looked at, seldom enough for any disk. */
const WRITE_EVERY_MS = 1_000;

/** A live run writes every second; a machine that was suspended, or a disk that hangs, may make it late. */
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
  /** Ends the writing and takes the file away. Idempotent. */
  stop(): Promise<void>;
}

/** Begins to write: at once, then every second, whether anything happened or not. */
export function writeProgress(deps: ProgressDeps): ProgressFile {
  const ending = new AbortController();
  const done = keepWriting(deps, ending.signal);
  return {
    async stop() {
      ending.abort();
      await done;
      // A file that cannot be removed says by its age that the run is over.
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
      // Whoever looks sees no run, or an older state of it: the run itself loses nothing.
      const reason = describeError(error);
      log.debug({ event: 'progress-unwritten', path, reason }, `the progress was not written: ${reason}`);
    }
    // Rejected by the end of the run only, which the loop asks for itself.
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

/** The run that goes on; `undefined` when there is none, or what is there is not the word of a run that lives. */
export async function readProgress(path: string, nowMs: number): Promise<RunProgress | undefined> {
  const progress = await readJsonFile(path, runProgressSchema);
  if (progress === undefined) return undefined;
  const ageMs = nowMs - Date.parse(progress.updated_at);
  // An unreadable time has an age that is no number.
  return Math.abs(ageMs) <= STALE_AFTER_MS && isProcessAlive(progress.pid) ? progress : undefined;
}
