/**
 * Reads the documents of the API: what the daemon knows, the runs that this machine remembers, and drops by child
 * processes. Invariant: nothing is read for a name that the daemon does not know, and what many ask for at once is read
 * once.
 */
import type { Readable } from 'node:stream';
import type { CalendarOverride } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import { Fault } from '../../core/errors.ts';
import type { ListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import { ActionLog } from '../../state/action-log.ts';
import type { DropDocument } from '../../state/documents.ts';
import { actionLogOf } from '../../state/job-state.ts';
import { RunHistory } from '../../state/run-history.ts';
import { type RunLog, readRunLog } from '../../state/run-log.ts';
import type { RunRecord } from '../../state/run-record.ts';
import type { Commands } from '../commands.ts';
import type { Daemon } from '../daemon.ts';
import type { DaemonView } from '../state.ts';
import type {
  DropDetail,
  JobDocument,
  JobsDocument,
  ReportLink,
  RunDetail,
  RunQuery,
  RunsDocument,
} from './api-shape.ts';
import { describeJob, describeJobs, describeRun, listReports } from './describe-job.ts';

export interface WebOptions {
  readonly address: ListenAddress;
  /** Token that viewers need. Required unless the address is a loopback one. */
  readonly token: string | undefined;
  /** What is shown; pages look at most once a second. */
  readonly daemon: Pick<Daemon, 'view' | 'look' | 'ask' | 'reload' | 'pathOf'>;
  /** Whether the page may act. */
  readonly mayAct: boolean;
  /** Reads stores, by processes. */
  readonly commands: Pick<Commands, 'read' | 'stream'>;
  /** With the remembered runs, and what was done on the page; the metrics measure its disk. */
  readonly stateDir: string;
  readonly calendar: CalendarOverride;
  readonly log: Log;
  readonly clock: Clock;
}

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
/** What a person looks through. */
const SHOWN_ROWS = 20;

export class ApiReader {
  readonly #options: WebOptions;
  readonly #view: Kept<DaemonView>;
  readonly #drops: Kept<DropDetail>;

  constructor(options: WebOptions) {
    this.#options = options;
    this.#view = new Kept(options.clock, VIEW_LIFETIME_MS);
    this.#drops = new Kept(options.clock, DROP_LIFETIME_MS);
  }

  /** The daemon's view for whoever looks at a page: at most one a second. */
  async look(): Promise<DaemonView> {
    const { daemon } = this.#options;
    return await this.#view.get('', () => daemon.look().then(() => daemon.view()));
  }

  async jobs(): Promise<JobsDocument> {
    return describeJobs(await this.look(), this.#options.clock.now(), this.#options.calendar);
  }

  /** `undefined` for an unknown job. */
  async job(name: string): Promise<JobDocument | undefined> {
    const view = await this.look();
    const job = view.jobs.find((one) => one.name === name);
    return job && describeJob(job, view, this.#options.clock.now(), this.#options.calendar);
  }

  /** Runs of all jobs that the daemon knows, newest first. */
  async runs({ job, command, outcome, before, limit = USUAL_RUNS }: RunQuery): Promise<RunsDocument> {
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

  async log(job: string, id: string, filter: Parameters<typeof readRunLog>[1]): Promise<RunLog | undefined> {
    const path = await this.logFile(job, id);
    return path === undefined ? undefined : await readRunLog(path, filter);
  }

  /** Archived reports, newest first. */
  async reports({ job, from = '', to = '9999' }: Readonly<Record<string, string>>): Promise<ReportLink[]> {
    const all = (await this.look()).jobs.filter(({ name }) => job === undefined || name === job).flatMap(listReports);
    return all.filter(({ date }) => date >= from && date <= to).sort((a, b) => (a.date < b.date ? 1 : -1));
  }

  /**
   * A drop of a known job; `undefined` if the job or the date is none.
   * @param withRows also the first rows and the sums by symbol
   * @throws Fault when it cannot be read
   */
  async drop(job: string, date: string, withRows: boolean): Promise<DropDetail | undefined> {
    if (!DATE.test(date) || !(await this.#isJob(job))) return undefined;
    return await this.#drops.get(JSON.stringify([job, date, withRows]), () => this.#readDrop(job, date, withRows));
  }

  /** The file of a sealed date with its name and size; `undefined` if there is none. @throws Fault */
  async dropFile(
    job: string,
    date: string,
  ): Promise<{ readonly name: string; readonly sizeBytes: number; readonly stream: Readable } | undefined> {
    const [file] = (await this.drop(job, date, false))?.drop.manifest?.files ?? [];
    if (!file) return undefined;
    const stream = this.#options.commands.stream(['drop', this.#options.daemon.pathOf(job), date, '--file']);
    return { name: `${date}-${file.filename}`, sizeBytes: file.size, stream };
  }

  /** What was done on the page, newest first. */
  async actions() {
    return [...(await new ActionLog(actionLogOf(this.#options.stateDir)).list(USUAL_ACTIONS))];
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

  async #readDrop(job: string, date: string, withRows: boolean): Promise<DropDetail> {
    const { commands, daemon } = this.#options;
    const path = daemon.pathOf(job);
    const drop = await commands.read<DropDocument>(['drop', path, date]);
    if (!withRows || !drop.manifest) return { drop, first_rows: null, sums: null };
    const query = (table: string, what: string, how: string) => {
      const from = `\`${table.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
      const sql = `SELECT ${what} FROM ${from} WHERE date = toDate('${date}')${how} LIMIT ${SHOWN_ROWS}`;
      return commands.read<NonNullable<DropDetail['first_rows']>>(['query', sql, '--job', path]);
    };
    const sums = 'symbol, trades, contracts, total_premium, call_premium, put_premium';
    const bySymbol = " AND symbol != '' ORDER BY total_premium DESC";
    const [first_rows, summed] = await Promise.all([
      query(drop.dataset, '*', ''),
      drop.manifest.has_summary ? query(`${drop.dataset}_summary`, sums, bySymbol) : null,
    ]);
    return { drop, first_rows, sums: summed };
  }
}

/** What many ask for: read once for all who ask meanwhile, and again after a while. A failure is not kept. */
export class Kept<T> {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #lifetimeMs: number;
  readonly #most: number;
  readonly #known = new Map<string, { readonly atMs: number; readonly value: Promise<T>; isRead: boolean }>();

  /** @param most things kept or read at a time */
  constructor(clock: Pick<Clock, 'now'>, lifetimeMs: number, most = 50) {
    this.#clock = clock;
    this.#lifetimeMs = lifetimeMs;
    this.#most = most;
  }

  /** @throws Fault `BUSY` when too many others are being read */
  async get(key: string, read: () => Promise<T>): Promise<T> {
    const nowMs = this.#clock.now();
    for (const [old, { atMs, isRead }] of this.#known) {
      const isOld = Math.abs(nowMs - atMs) >= this.#lifetimeMs || this.#known.size >= this.#most;
      if (isRead && isOld) this.#known.delete(old);
    }
    const known = this.#known.get(key);
    if (known) return await known.value;
    if (this.#known.size >= this.#most) throw new Fault('BUSY', 'others are being read; try again in a few seconds');
    const asked = { atMs: nowMs, value: read(), isRead: false };
    this.#known.set(key, asked);
    asked.value.then(
      () => {
        asked.isRead = true;
      },
      // The next one who asks may be luckier.
      () => this.#known.delete(key),
    );
    return await asked.value;
  }
}
