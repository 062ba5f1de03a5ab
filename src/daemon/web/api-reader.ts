/**
 * Reads the documents of the API: what the daemon knows, the runs that this machine remembers, and drops by child
 * processes. Invariant: nothing is read for a name that the daemon does not know, and what many ask for at once is read
 * once.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import { type ActionEntry, ActionLog } from '../../state/action-log.ts';
import type { RunHistory } from '../../state/run-history.ts';
import { readRunLog } from '../../state/run-log.ts';
import type { RunRecord } from '../../state/run-record.ts';
import type { DaemonView, JobView } from '../job-view.ts';
import type {
  DropDetail,
  JobDocument,
  JobsDocument,
  LogDocument,
  ReportLink,
  RunDetail,
  RunsDocument,
} from './api-shape.ts';
import { describeJob, describeJobs, describeRun, listReports } from './describe-job.ts';
import { DropReader, type DropSource } from './drop-reader.ts';

/** A view younger than this is used again. */
export const VIEW_LIFETIME_MS = 1_000;
/** Runs of one answer; `next` leads to the others. */
export const USUAL_RUNS = 50;
const USUAL_ACTIONS = 200;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
/** Records read for one answer with a filter: older ones are in the next. */
const MAX_READ_RUNS = 2_000;
/** Records read in parallel: jobs may have thousands. */
const READ_AT_ONCE = 50;

export interface ApiReaderOptions {
  readonly view: () => DaemonView;
  /** Someone views the page, so its data should be refreshed. */
  readonly onLook?: (() => Promise<void>) | undefined;
  readonly history: (job: string) => RunHistory;
  /** Path of the record of what was done on the page. */
  readonly actionLog: string;
  /** Reads drops, by processes. */
  readonly drops: DropSource;
  readonly calendar: CalendarOverride;
  readonly clock: Clock;
}

export interface RunsQuery {
  readonly job?: string | undefined;
  readonly command?: string | undefined;
  readonly outcome?: string | undefined;
  readonly before?: string | undefined;
  readonly limit?: number | undefined;
}

export interface ReportsQuery {
  readonly job?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

export class ApiReader {
  readonly #options: ApiReaderOptions;
  readonly #drops: DropReader;
  #known: { readonly view: DaemonView; readonly atMs: number } | undefined;
  #looking: Promise<DaemonView> | undefined;

  constructor(options: ApiReaderOptions) {
    this.#options = options;
    this.#drops = new DropReader(options.drops, options.clock);
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
    if (!job) return undefined;
    return { job, document: describeJob(job, view, this.#options.clock.now(), this.#options.calendar) };
  }

  /** Runs of all jobs that the daemon knows, newest first. */
  async runs({ job, command, outcome, before, limit = USUAL_RUNS }: RunsQuery): Promise<RunsDocument> {
    const names = (await this.look()).jobs.map(({ name }) => name).filter((name) => job === undefined || name === job);
    const isWanted = (run: RunRecord) =>
      (command === undefined || run.command === command) &&
      (outcome === undefined || (run.outcome ?? 'running') === outcome);
    const listed = names.map(async (name) => {
      const history = this.#options.history(name);
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
    const found = await this.#find(job, id);
    if (!found) return undefined;
    const { run, history } = found;
    return { run: describeRun(run), windows: [...(await history.readWindows(run))] };
  }

  /** Path of a run's log; `undefined` if the run is unknown. */
  async logFile(job: string, id: string): Promise<string | undefined> {
    const found = await this.#find(job, id);
    return found?.history.logFile(found.run);
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

  /** A drop of a known job; `undefined` if the job or the date is none. @throws Fault when it cannot be read */
  async drop(job: string, date: string, withRows: boolean): Promise<DropDetail | undefined> {
    return (await this.#isDrop(job, date)) ? await this.#drops.read(job, date, withRows) : undefined;
  }

  /** The file of a sealed date with its name and size; `undefined` if there is none. @throws Fault */
  async dropFile(job: string, date: string) {
    const detail = await this.drop(job, date, false);
    const [file] = detail?.drop.manifest?.files ?? [];
    return file && { name: `${date}-${file.filename}`, sizeBytes: file.size, stream: this.#drops.stream(job, date) };
  }

  async #isDrop(job: string, date: string): Promise<boolean> {
    return DATE.test(date) && (await this.look()).jobs.some(({ name }) => name === job);
  }

  /** What was done on the page, newest first. */
  async actions(): Promise<readonly ActionEntry[]> {
    return await new ActionLog(this.#options.actionLog).list(USUAL_ACTIONS);
  }

  async #find(job: string, id: string) {
    const view = (await this.look()).jobs.find(({ name }) => name === job);
    if (!view) return undefined;
    const history = this.#options.history(job);
    const run = await history.read(id);
    return run && { run, history, view };
  }

  async #read(nowMs: number): Promise<DaemonView> {
    await this.#options.onLook?.();
    const view = this.#options.view();
    this.#known = { view, atMs: nowMs };
    return view;
  }
}
