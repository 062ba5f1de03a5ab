/**
 * Reads the documents of the API: what the daemon knows, the runs that this machine remembers, and drops by child
 * processes. Invariant: nothing is read for a name that the daemon does not know, and what many ask for at once is read
 * once.
 */
import type { CalendarOverride } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import { Fault } from '../../core/errors.ts';
import type { ListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import { openActionLog } from '../../state/action-log.ts';
import type { DropDocument } from '../../state/documents.ts';
import { actionLogOf } from '../../state/job-state.ts';
import { RunHistory } from '../../state/run-history.ts';
import { type RunLog, readRunLog } from '../../state/run-log.ts';
import type { RunRecord } from '../../state/run-record.ts';
import type { Daemon, DaemonView } from '../daemon.ts';
import type { Commands } from '../run-process.ts';
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

export type ApiReader = ReturnType<typeof createApiReader>;

export function createApiReader({ clock, daemon, commands, calendar, stateDir }: WebOptions) {
  const views = keep<DaemonView>(clock, VIEW_LIFETIME_MS);
  const drops = keep<DropDetail>(clock, DROP_LIFETIME_MS);
  return { look, jobs, job: readJob, runs, run, logFile, log, reports, drop, dropFile, actions };

  /** The daemon's view for whoever looks at a page: at most one a second. */
  async function look(): Promise<DaemonView> {
    return await views('', () => daemon.look().then(() => daemon.view()));
  }

  async function jobs(): Promise<JobsDocument> {
    return describeJobs(await look(), clock.now(), calendar);
  }

  /** `undefined` for an unknown job. */
  async function readJob(name: string): Promise<JobDocument | undefined> {
    const view = await look();
    const job = view.jobs.find((one) => one.name === name);
    return job && describeJob(job, view, clock.now(), calendar);
  }

  /** Runs of all jobs that the daemon knows, newest first. */
  async function runs({ job, command, outcome, before, limit = USUAL_RUNS }: RunQuery): Promise<RunsDocument> {
    const names = (await look()).jobs.map(({ name }) => name).filter((name) => job === undefined || name === job);
    const isWanted = (run: RunRecord) =>
      (command === undefined || run.command === command) &&
      (outcome === undefined || (run.outcome ?? 'running') === outcome);
    const listed = names.map(async (name) => {
      const history = historyOf(name);
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
  async function run(job: string, id: string): Promise<RunDetail | undefined> {
    const run = await find(job, id);
    return run && { run: describeRun(run), windows: [...(await historyOf(job).readWindows(run))] };
  }

  /** Path of a run's log; `undefined` if the run is unknown. */
  async function logFile(job: string, id: string): Promise<string | undefined> {
    const run = await find(job, id);
    return run && historyOf(job).logFile(run);
  }

  async function log(job: string, id: string, filter: Parameters<typeof readRunLog>[1]): Promise<RunLog | undefined> {
    const path = await logFile(job, id);
    return path === undefined ? undefined : await readRunLog(path, filter);
  }

  /** Archived reports, newest first. */
  async function reports({ job, from = '', to = '9999' }: Readonly<Record<string, string>>): Promise<ReportLink[]> {
    const all = (await look()).jobs.filter(({ name }) => job === undefined || name === job).flatMap(listReports);
    return all.filter(({ date }) => date >= from && date <= to).sort((a, b) => (a.date < b.date ? 1 : -1));
  }

  /**
   * A drop of a known job; `undefined` if the job or the date is none.
   * @param withRows also the first rows and the sums by symbol
   * @throws Fault when it cannot be read
   */
  async function drop(job: string, date: string, withRows: boolean): Promise<DropDetail | undefined> {
    if (!DATE.test(date) || !(await isJob(job))) return undefined;
    return await drops(JSON.stringify([job, date, withRows]), () => readDrop(job, date, withRows));
  }

  /** The file of a sealed date with its name and size; `undefined` if there is none. @throws Fault */
  async function dropFile(job: string, date: string) {
    const [file] = (await drop(job, date, false))?.drop.manifest?.files ?? [];
    if (!file) return undefined;
    const stream = commands.stream(['drop', daemon.pathOf(job), date, '--file']);
    return { name: `${date}-${file.filename}`, sizeBytes: file.size, stream };
  }

  /** What was done on the page, newest first. */
  async function actions() {
    return [...(await openActionLog(actionLogOf(stateDir)).list(USUAL_ACTIONS))];
  }

  function historyOf(job: string): RunHistory {
    return new RunHistory(stateDir, job);
  }

  async function isJob(job: string): Promise<boolean> {
    return (await look()).jobs.some(({ name }) => name === job);
  }

  async function find(job: string, id: string): Promise<RunRecord | undefined> {
    return (await isJob(job)) ? await historyOf(job).read(id) : undefined;
  }

  async function readDrop(job: string, date: string, withRows: boolean): Promise<DropDetail> {
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

/**
 * What many ask for: read once for all who ask meanwhile, and again after a while. A failure is not kept.
 * @param most things kept or read at a time @returns reads it; throws Fault `BUSY` when too many others are being read
 */
export function keep<T>(clock: Pick<Clock, 'now'>, lifetimeMs: number, most = 50) {
  const kept = new Map<string, { readonly atMs: number; readonly value: Promise<T>; isRead: boolean }>();
  return async (key: string, read: () => Promise<T>): Promise<T> => {
    const nowMs = clock.now();
    for (const [old, { atMs, isRead }] of kept) {
      const isOld = Math.abs(nowMs - atMs) >= lifetimeMs || kept.size >= most;
      if (isRead && isOld) kept.delete(old);
    }
    const known = kept.get(key);
    if (known) return await known.value;
    if (kept.size >= most) throw new Fault('BUSY', 'others are being read; try again in a few seconds');
    const asked = { atMs: nowMs, value: read(), isRead: false };
    kept.set(key, asked);
    asked.value.then(
      () => {
        asked.isRead = true;
      },
      // The next one who asks may be luckier.
      () => kept.delete(key),
    );
    return await asked.value;
  };
}
