/**
 * Reads the documents of the API: what the daemon knows, the runs that this machine remembers, and drops by child
 * processes. Invariant: nothing is read for a name that the daemon does not know, and what many ask for at once is read
 * once.
 */
import type { Readable } from 'node:stream';
import { ActionLog } from '../../state/action-log.ts';
import { dropSchema } from '../../state/drop-document.ts';
import { actionLogOf } from '../../state/job-state.ts';
import { RunHistory } from '../../state/run-history.ts';
import { readRunLog } from '../../state/run-log.ts';
import type { RunRecord } from '../../state/run-record.ts';
import type { DaemonView, JobView } from '../job-view.ts';
import {
  type DropDetail,
  type JobDocument,
  type JobsDocument,
  type LogDocument,
  type ReportLink,
  type RunDetail,
  type RunsDocument,
  rowsSchema,
} from './api-shape.ts';
import { describeJob, describeJobs, describeRun, listReports } from './describe-job.ts';
import type { WebOptions } from './web-options.ts';

/** A view younger than this is used again. */
const VIEW_LIFETIME_MS = 1_000;
/** Runs of one answer; `next` leads to the others. */
const USUAL_RUNS = 50;
const USUAL_ACTIONS = 200;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
/** Records read for one answer with a filter: older ones are in the next. */
const MAX_READ_RUNS = 2_000;
/** Records read in parallel: jobs may have thousands. */
const READ_AT_ONCE = 50;
/** Each reading of a drop is a process: a restatement may come at any time, but a person goes back and forth. */
const DROP_LIFETIME_MS = 30_000;
const MAX_KNOWN_DROPS = 50;
/** What a person looks through. */
const SHOWN_ROWS = 20;

export interface RunsQuery
  extends Partial<Readonly<Record<'job' | 'command' | 'outcome' | 'before', string | undefined>>> {
  readonly limit?: number | undefined;
}

type ReportsQuery = Partial<Readonly<Record<'job' | 'from' | 'to', string | undefined>>>;

export class ApiReader {
  readonly #options: WebOptions;
  readonly #drops = new Map<string, { readonly atMs: number; readonly detail: Promise<DropDetail> }>();
  #known: { readonly view: DaemonView; readonly atMs: number } | undefined;
  #looking: Promise<DaemonView> | undefined;

  constructor(options: WebOptions) {
    this.#options = options;
  }

  /** The daemon's view for whoever looks at a page: at most one a second. */
  async look(): Promise<DaemonView> {
    const nowMs = this.#options.clock.now();
    const known = this.#known;
    if (known && nowMs >= known.atMs && nowMs - known.atMs < VIEW_LIFETIME_MS) return known.view;
    this.#looking ??= this.#read(nowMs).finally(() => {
      this.#looking = undefined;
    });
    return await this.#looking;
  }

  async jobs(): Promise<JobsDocument> {
    return describeJobs(await this.look(), this.#options.clock.now(), this.#options.calendar);
  }

  /** `undefined` for an unknown job. */
  async job(name: string): Promise<{ readonly job: JobView; readonly document: JobDocument } | undefined> {
    const view = await this.look();
    const job = view.jobs.find((one) => one.name === name);
    return job && { job, document: describeJob(job, view, this.#options.clock.now(), this.#options.calendar) };
  }

  /** Runs of all jobs that the daemon knows, newest first. */
  async runs({ job, command, outcome, before, limit = USUAL_RUNS }: RunsQuery): Promise<RunsDocument> {
    const names = (await this.look()).jobs.map(({ name }) => name).filter((name) => job === undefined || name === job);
    const isWanted = (run: RunRecord) =>
      (command === undefined || run.command === command) &&
      (outcome === undefined || (run.outcome ?? 'running') === outcome);
    const listed = names.map(async (name) => {
      const history = this.#historyOf(name);
      return (await history.listIds(command === 'stage')).map((id) => ({ id, history }));
    });
    const known = (await Promise.all(listed))
      .flat()
      .filter(({ id }) => before === undefined || id < before)
      .sort((a, b) => (a.id < b.id ? 1 : -1));
    const found: RunRecord[] = [];
    let read = 0;
    while (read < Math.min(known.length, MAX_READ_RUNS) && found.length <= limit) {
      const some = known.slice(read, read + READ_AT_ONCE);
      const runs = await Promise.all(some.map(({ id, history }) => history.read(id)));
      found.push(...runs.filter((run) => run !== undefined).filter(isWanted));
      read += some.length;
    }
    const last = found.length > limit ? found[limit - 1] : known.length > read ? known[read - 1] : undefined;
    return { runs: found.slice(0, limit).map(describeRun), next: last?.id ?? null };
  }

  /** A run with its windows; `undefined` if it is unknown. */
  async run(job: string, id: string): Promise<RunDetail | undefined> {
    const run = await this.#find(job, id);
    return run && { run: describeRun(run), windows: [...(await this.#historyOf(job).readWindows(run))] };
  }

  /** Path of a run's log; `undefined` if the run is unknown. */
  async logFile(job: string, id: string): Promise<string | undefined> {
    const run = await this.#find(job, id);
    return run && this.#historyOf(job).logFile(run);
  }

  async log(
    job: string,
    id: string,
    filter: { readonly level?: string; readonly text?: string },
  ): Promise<LogDocument | undefined> {
    const path = await this.logFile(job, id);
    if (path === undefined) return undefined;
    const { lines, size, isCut } = await readRunLog(path, filter);
    return { lines: lines.map((line) => ({ ...line, fields: { ...line.fields } })), size, is_cut: isCut };
  }

  /** Archived reports, newest first. */
  async reports({ job, from = '', to = '9999' }: ReportsQuery): Promise<readonly ReportLink[]> {
    const all = (await this.look()).jobs.filter(({ name }) => job === undefined || name === job).flatMap(listReports);
    return all.filter(({ date }) => date >= from && date <= to).sort((a, b) => (a.date < b.date ? 1 : -1));
  }

  /**
   * A drop of a known job; `undefined` if the job or the date is none. It is read once for all who ask at the same time,
   * and again only after a while.
   * @param withRows also the first rows and the sums by symbol
   * @throws Fault when it cannot be read
   */
  async drop(job: string, date: string, withRows: boolean): Promise<DropDetail | undefined> {
    if (!DATE.test(date) || !(await this.#isJob(job))) return undefined;
    const key = JSON.stringify([job, date, withRows]);
    const nowMs = this.#options.clock.now();
    for (const [old, { atMs }] of this.#drops) {
      if (Math.abs(nowMs - atMs) >= DROP_LIFETIME_MS || this.#drops.size > MAX_KNOWN_DROPS) this.#drops.delete(old);
    }
    const known = this.#drops.get(key);
    if (known) return await known.detail;
    const detail = this.#readDrop(job, date, withRows);
    this.#drops.set(key, { atMs: nowMs, detail });
    // A failure is not kept: the next one who asks may be luckier.
    detail.catch(() => this.#drops.delete(key));
    return await detail;
  }

  /** The file of a sealed date with its name and size; `undefined` if there is none. @throws Fault */
  async dropFile(
    job: string,
    date: string,
  ): Promise<{ readonly name: string; readonly sizeBytes: number; readonly stream: Readable } | undefined> {
    const [file] = (await this.drop(job, date, false))?.drop.manifest?.files ?? [];
    if (!file) return undefined;
    const stream = this.#options.commands.stream(['drop', this.#options.pathOf(job), date, '--file']);
    return { name: `${date}-${file.filename}`, sizeBytes: file.size, stream };
  }

  /** What was done on the page, newest first. */
  async actions() {
    return await new ActionLog(actionLogOf(this.#options.stateDir)).list(USUAL_ACTIONS);
  }

  #historyOf(job: string): RunHistory {
    return new RunHistory(this.#options.stateDir, job);
  }

  async #isJob(job: string): Promise<boolean> {
    return (await this.look()).jobs.some(({ name }) => name === job);
  }

  async #find(job: string, id: string): Promise<RunRecord | undefined> {
    return (await this.#isJob(job)) ? await this.#historyOf(job).read(id) : undefined;
  }

  async #read(nowMs: number): Promise<DaemonView> {
    await this.#options.onLook();
    const view = this.#options.view();
    this.#known = { view, atMs: nowMs };
    return view;
  }

  async #readDrop(job: string, date: string, withRows: boolean): Promise<DropDetail> {
    const { commands, pathOf } = this.#options;
    const drop = await commands.read(dropSchema, ['drop', pathOf(job), date]);
    if (!withRows || !drop.manifest) return { drop, first_rows: null, sums: null };
    const query = async (sql: string) => await commands.read(rowsSchema, ['query', sql, '--job', pathOf(job)]);
    const where = `WHERE date = toDate('${date}')`;
    const sums = 'symbol, trades, contracts, total_premium, call_premium, put_premium';
    const summary = quoteName(`${drop.dataset}_summary`);
    const [first_rows, summed] = await Promise.all([
      query(`SELECT * FROM ${quoteName(drop.dataset)} ${where} LIMIT ${SHOWN_ROWS}`),
      drop.manifest.has_summary
        ? query(
            `SELECT ${sums} FROM ${summary} ${where} AND symbol != '' ORDER BY total_premium DESC LIMIT ${SHOWN_ROWS}`,
          )
        : null,
    ]);
    return { drop, first_rows, sums: summed };
  }
}

function quoteName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}
