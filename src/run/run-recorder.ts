/**
 * Remembers a run on this machine, whoever started it: its record when it begins, every second while it goes on, and at
 * its end; its windows; its log. Invariant: a run never fails or waits because of it. A run that the daemon started has
 * its record and its log file already.
 */
import { isFault } from '../core/errors.ts';
import { readFailure } from '../core/failure.ts';
import type { Job } from '../job/job.ts';
import type { RunEvent } from '../state/run-events.ts';
import { MAX_WINDOWS, RunHistory } from '../state/run-history.ts';
import type { RunCommand, RunOutcome, RunRecord, RunWindow } from '../state/run-record.ts';
import type { Delivery, RunResult } from '../state/run-result.ts';
import type { Progress, ProgressInput, RunEnv } from './run.ts';

/** Rare enough for any disk, frequent enough for a page that shows the run live. */
const WRITE_EVERY_MS = 1_000;
/** A message may repeat an answer of any length; the log has all of it. */
const MAX_MESSAGE_CHARACTERS = 20_000;

/** How it ended; without a result it is only known that it did. */
export interface RecordedEnd {
  readonly outcome: RunOutcome;
  readonly error?: unknown;
  readonly result?: RunResult | undefined;
  readonly deliveries?: readonly Delivery[] | undefined;
}

/**
 * Does `action` and remembers it as a run.
 * @param judge how it ended, by what it returned
 * @throws what `action` throws
 */
export async function recordRun<T>(
  env: RunEnv,
  job: Job,
  command: RunCommand,
  action: (env: RunEnv) => Promise<T>,
  judge: (value: T) => RecordedEnd,
): Promise<T> {
  const { watch, end } = await beginRecord(env, job, command);
  try {
    const value = await action({ ...env, showProgress: (input) => watch(input, env.showProgress(input)) });
    await end(judge(value));
    return value;
  } catch (error) {
    await end({ outcome: isFault(error) ? error.kind : 'failed', error });
    throw error;
  }
}

async function beginRecord(env: RunEnv, { name: job }: Job, command: RunCommand) {
  const { clock, redact, runId } = env;
  const history = new RunHistory(env.stateDir, job);
  const adopted = await history.adopt(runId);
  // What to type for the same.
  const args = [command === 'stage' ? 'run' : command, job, ...env.flags];
  const facts = { run_id: runId, job, command, args, reason: 'hand' as const };
  const record = adopted ?? (await history.begin(facts, clock.now(), env.readSetting('FLOWDROP_RUN_HISTORY_DAYS')));
  if (!adopted) env.keepLog(history.files(record).log);
  const ending = new AbortController();
  const windows: RunWindow[] = [];
  let noted = 0;
  let progress: ProgressInput | undefined;
  let writing: Promise<void> = Promise.resolve();
  const now = () => new Date(clock.now()).toISOString();
  return { watch, end };

  /** From now on, writes how far the run is, beside what shows it. */
  function watch(input: ProgressInput, shown: Progress): Progress {
    progress = input;
    writing = keepWriting();
    return {
      onEvent: (event) => {
        shown.onEvent(event);
        note(event, input);
      },
      stop: () => shown.stop(),
    };
  }

  function note(event: RunEvent, { totals, stats }: ProgressInput): void {
    const { kind } = event;
    const { pages, pagesLeft, splits } = totals.read();
    if (kind === 'planned' || kind === 'date') record.planned_pages = pages + pagesLeft;
    if (kind === 'sealed') {
      const { date, rows, requests } = event;
      record.dates = [...record.dates, { date, status: 'sealed', rows, requests }];
    }
    if (kind !== 'page' && kind !== 'split' && kind !== 'sealed' && kind !== 'failed') return;
    if (noted >= MAX_WINDOWS) return;
    noted += 1;
    const { requests, retries, rateLimited: rate_limited } = stats;
    const reason = 'reason' in event ? redact(event.reason) : undefined;
    windows.push({ window: '', rows: 0, ...event, requests, retries, rate_limited, splits, at: now(), reason });
  }

  async function end({ outcome, error, result, deliveries = [] }: RecordedEnd): Promise<void> {
    ending.abort();
    await writing;
    // The job file is invalid and no request used it: this is not a run.
    if (isFault(error) && error.code === 'JOB_INVALID') {
      await history.remove(record).catch(() => undefined); // A leftover is removed by age.
      return;
    }
    const dates = result?.dates.map(({ date, status, rows, requests, revision, error: failure }) => {
      return { date, status, rows, requests, revision, error: failure };
    });
    Object.assign(record, readTotals(), {
      updated_at: now(),
      finished_at: now(),
      outcome,
      error: error === undefined ? null : describeFailure(error, redact),
      progress: null,
      dates: dates ?? record.dates,
      has_open: result !== undefined && (result.held.length > 0 || Object.keys(result.open).length > 0),
      reports: deliveries.map(({ report, date, recipients }) => {
        const count = (wanted: string) => recipients.filter(({ outcome: came }) => came === wanted).length;
        const [sent, written] = [count('sent'), count('written')];
        return { report, date, sent, written, unsent: recipients.length - sent - written };
      }),
    } satisfies Partial<RunRecord>);
    await history.write(record).catch(() => undefined); // The run's own result stands.
  }

  function readTotals(): Partial<RunRecord> {
    if (!progress) return {};
    const { pages, rows, splits, date, phase, window, ...totals } = progress.totals.read();
    const { requests, retries, rateLimited: rate_limited, bytes } = progress.stats;
    const far = {
      ...{ date, phase, window },
      total_rows: totals.totalRows,
      dates_done: totals.datesDone,
      dates_total: totals.datesTotal,
      pages_left: totals.pagesLeft,
      rows_per_second: Math.round(totals.rowsPerSecond),
      seconds_left: totals.leftMs === undefined ? null : Math.round(totals.leftMs / 1000),
    };
    return { pages, rows, splits, requests, retries, rate_limited, bytes, progress: far };
  }

  /** At once, then every second, even if nothing changed; the windows once more at the end. Never rejects. */
  async function keepWriting(): Promise<void> {
    while (!ending.signal.aborted) {
      Object.assign(record, readTotals(), { updated_at: now() });
      // Readers see an older state of the run; the run itself loses nothing.
      await history.update(record).catch(() => undefined);
      await writeWindows();
      // Only the end of the run rejects this, and the loop checks for that.
      await clock.sleep(WRITE_EVERY_MS, ending.signal).catch(() => undefined);
    }
    await writeWindows();
  }

  async function writeWindows(): Promise<void> {
    // They are for a chart.
    await history.appendWindows(record, windows.splice(0)).catch(() => undefined);
  }
}

function describeFailure(error: unknown, redact: (text: string) => string): RunRecord['error'] {
  const { code, message, hint } = readFailure(error, redact);
  return { code, message: message.slice(0, MAX_MESSAGE_CHARACTERS), hint };
}
