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

interface Recorded {
  readonly command: RunCommand;
  /** What to type for the same: the words after `flowdrop`. */
  readonly args: readonly string[];
}

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
  recorded: Recorded,
  action: (env: RunEnv) => Promise<T>,
  judge: (value: T) => RecordedEnd,
): Promise<T> {
  const recorder = await Recorder.begin(env, job, recorded);
  const watched: RunEnv = { ...env, showProgress: (input) => recorder.watch(input, env.showProgress(input)) };
  try {
    const value = await action(watched);
    await recorder.end(judge(value));
    return value;
  } catch (error) {
    await recorder.end({ outcome: isFault(error) ? error.kind : 'failed', error });
    throw error;
  }
}

class Recorder {
  readonly #env: RunEnv;
  readonly #history: RunHistory;
  readonly #ending = new AbortController();
  #record: RunRecord;
  #progress: ProgressInput | undefined;
  #windows: RunWindow[] = [];
  #noted = 0;
  #writing: Promise<void> = Promise.resolve();

  private constructor(env: RunEnv, history: RunHistory, record: RunRecord) {
    this.#env = env;
    this.#history = history;
    this.#record = record;
  }

  static async begin(env: RunEnv, { name: job }: Job, { command, args }: Recorded): Promise<Recorder> {
    const { clock, runId, stateDir } = env;
    const history = new RunHistory(stateDir, job);
    const known = await history.adopt(runId);
    if (known) return new Recorder(env, history, known);
    const facts = { run_id: runId, job, command, args: [...args], reason: 'hand' as const };
    const record = await history.begin(facts, clock.now(), env.readSetting('FLOWDROP_RUN_HISTORY_DAYS'));
    env.keepLog(history.files(record).log);
    return new Recorder(env, history, record);
  }

  /** From now on, writes how far the run is, beside what shows it. */
  watch(input: ProgressInput, shown: Progress): Progress {
    this.#progress = input;
    this.#writing = this.#keepWriting();
    return {
      onEvent: (event) => {
        shown.onEvent(event);
        this.#note(event, input);
      },
      stop: () => shown.stop(),
    };
  }

  #note(event: RunEvent, { totals, stats }: ProgressInput): void {
    const { kind } = event;
    if (kind === 'planned' || kind === 'date') {
      const { pages, pagesLeft } = totals.read();
      this.#record = { ...this.#record, planned_pages: pages + pagesLeft };
    }
    if (kind === 'sealed') {
      const { date, rows, requests } = event;
      const dates = [...this.#record.dates, { date, status: 'sealed', rows, requests }];
      this.#record = { ...this.#record, dates };
    }
    if (kind !== 'page' && kind !== 'split' && kind !== 'sealed' && kind !== 'failed') return;
    if (this.#noted >= MAX_WINDOWS) return;
    this.#noted += 1;
    const { requests, retries, rateLimited: rate_limited } = stats;
    this.#windows.push({
      ...{ window: '', rows: 0, ...event, requests, retries, rate_limited },
      splits: totals.read().splits,
      at: new Date(this.#env.clock.now()).toISOString(),
      reason: 'reason' in event ? this.#env.redact(event.reason) : undefined,
    });
  }

  async end({ outcome, error, result, deliveries = [] }: RecordedEnd): Promise<void> {
    this.#ending.abort();
    await this.#writing;
    // The job file is invalid and no request used it: this is not a run.
    if (isFault(error) && error.code === 'JOB_INVALID') {
      await this.#history.remove(this.#record).catch(() => undefined); // A leftover is removed by age.
      return;
    }
    const { redact, clock } = this.#env;
    const now = new Date(clock.now()).toISOString();
    const dates = result?.dates.map(({ date, status, rows, requests, revision, error: failure }) => {
      return { date, status, rows, requests, revision, error: failure };
    });
    this.#record = {
      ...this.#record,
      ...this.#read(),
      updated_at: now,
      finished_at: now,
      outcome,
      error: error === undefined ? null : describeFailure(error, redact),
      progress: null,
      dates: dates ?? this.#record.dates,
      has_open: result !== undefined && (result.held.length > 0 || Object.keys(result.open).length > 0),
      reports: deliveries.map(({ report, date, recipients }) => {
        const sent = recipients.filter((recipient) => recipient.outcome === 'sent').length;
        return { report, date, sent, unsent: recipients.length - sent };
      }),
    };
    await this.#history.write(this.#record).catch(() => undefined); // The run's own result stands.
  }

  /** What the record has of the run as it is now. */
  #read() {
    if (!this.#progress) return {};
    const { totals, stats } = this.#progress;
    const { pages, rows, splits, date, phase, window, ...now } = totals.read();
    const { requests, retries, rateLimited: rate_limited, bytes } = stats;
    const progress = {
      ...{ date, phase, window },
      total_rows: now.totalRows,
      dates_done: now.datesDone,
      dates_total: now.datesTotal,
      pages_left: now.pagesLeft,
      rows_per_second: Math.round(now.rowsPerSecond),
      seconds_left: now.leftMs === undefined ? null : Math.round(now.leftMs / 1000),
    };
    return { pages, rows, splits, requests, retries, rate_limited, bytes, progress };
  }

  /** At once, then every second, even if nothing changed; the windows once more at the end. Never rejects. */
  async #keepWriting(): Promise<void> {
    const { signal } = this.#ending;
    const { clock } = this.#env;
    while (!signal.aborted) {
      const updated_at = new Date(clock.now()).toISOString();
      this.#record = { ...this.#record, ...this.#read(), updated_at };
      // Readers see an older state of the run; the run itself loses nothing.
      await this.#history.update(this.#record).catch(() => undefined);
      await this.#writeWindows();
      // Only the end of the run rejects this, and the loop checks for that.
      await clock.sleep(WRITE_EVERY_MS, signal).catch(() => undefined);
    }
    await this.#writeWindows();
  }

  async #writeWindows(): Promise<void> {
    // They are for a chart.
    await this.#history.appendWindows(this.#record, this.#windows.splice(0)).catch(() => undefined);
  }
}

function describeFailure(error: unknown, redact: (text: string) => string): RunRecord['error'] {
  const { code, message, hint } = readFailure(error, redact);
  return { code, message: message.slice(0, MAX_MESSAGE_CHARACTERS), hint };
}
