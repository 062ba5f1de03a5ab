/**
 * The addresses of the JSON API and of the pages. Each has one document, of what the daemon knows, the runs that this
 * machine remembers, or what a child process reads of a drop; a page at the same address without `/api` is drawn from it,
 * so that page and API cannot differ. Invariant: nothing is read for a name that the daemon does not know, and what many
 * ask for at once is read once.
 */
import { createReadStream } from 'node:fs';
import { z } from 'zod';
import type { CalendarOverride } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import { Fault } from '../../core/errors.ts';
import type { ListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import { linkReport } from '../../core/report-page.ts';
import { openActionLog } from '../../state/action-log.ts';
import type { DropDocument } from '../../state/documents.ts';
import { actionLogOf } from '../../state/job-state.ts';
import { RunHistory } from '../../state/run-history.ts';
import { readRunLog, runLogSchema } from '../../state/run-log.ts';
import type { RunRecord } from '../../state/run-record.ts';
import type { Daemon, DaemonView } from '../daemon.ts';
import type { Commands } from '../run-process.ts';
import {
  actionLogSchema,
  type DescribedRoute,
  type DropDetail,
  dateSchema,
  describeApi,
  dropDetailSchema,
  jobSchema,
  jobsSchema,
  type ReportLink,
  type RunsDocument,
  reportsSchema,
  runQuerySchema,
  runSchema,
  runsSchema,
} from '../shapes.ts';
import { renderActionsPage } from './action-form.ts';
import { describeFacts, describeJob, describeJobs, describeRun } from './describe-job.ts';
import { renderDropPage } from './drop-page.ts';
import { renderJobPage, renderOverview, renderReportsPage } from './job-page.ts';
import { answerFile, answerJson, answerReport, type PageAnswer, type PageContext, Refusal } from './page-frame.ts';
import { LOG_LEVELS, renderRunPage, renderRunsPage } from './run-page.ts';

export interface WebOptions {
  readonly address: ListenAddress;
  /** Token that viewers need. Required unless the address is a loopback one. */
  readonly token: string | undefined;
  /** What is shown; pages look at most once a second. */
  readonly daemon: Pick<Daemon, 'view' | 'look' | 'ask' | 'reload' | 'pathOf' | 'countRuns'>;
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
/** Records read for one answer with a filter: older ones are in the next. */
const MAX_READ_RUNS = 2_000;
/** Records read in parallel: jobs may have thousands. */
const READ_AT_ONCE = 50;
/** Each reading of a drop is a process: a restatement may come at any time, but a person goes back and forth. */
const DROP_LIFETIME_MS = 30_000;
/** Reports read in parallel; each reading is a process. */
const MAX_REPORTS = 2;
/** What a person looks through. */
const SHOWN_ROWS = 20;

type Words = Readonly<Record<string, string>>;

/** @param asked parts of the address, and values of the query that are not empty, by name */
interface Route<S extends z.ZodType = z.ZodType> extends DescribedRoute {
  readonly answer: S;
  /** `undefined` if there is none. @throws z.ZodError, Fault */
  read(asked: Words): Promise<z.infer<S> | undefined>;
  /** Its page, if it has one. */
  readonly draw?: ((document: z.infer<S>, context: PageContext, asked: Words) => string | Promise<string>) | undefined;
}

export function createRoutes({ clock, daemon, commands, calendar, stateDir, mayAct }: WebOptions) {
  const views = keep<DaemonView>(clock, VIEW_LIFETIME_MS);
  const drops = keep<DropDetail>(clock, DROP_LIFETIME_MS);
  const reports = keep<{ readonly html: string }>(clock, 0, MAX_REPORTS);
  const actionLog = openActionLog(actionLogOf(stateDir));

  const routes: Readonly<Record<string, Route>> = {
    '/api/jobs': route({
      summary: 'All jobs, with problems and the last sessions of each',
      answer: jobsSchema,
      read: async () => describeJobs(await look(), clock.now(), calendar),
      draw: renderOverview,
    }),
    '/api/jobs/{job}': route({
      summary: 'One job: all dates, last runs, reports, progress',
      answer: jobSchema,
      async read({ job }) {
        const view = await look();
        const found = view.jobs.find(({ name }) => name === job);
        return found && describeJob(found, view, clock.now(), calendar);
      },
      draw: renderJobPage,
    }),
    '/api/runs': route({
      summary: 'Runs of this machine, newest first',
      answer: runsSchema,
      query: runQuerySchema,
      read: async (asked) => await listRuns(runQuerySchema.parse(asked)),
      draw: (document, context, asked) => renderRunsPage(document, asked, context),
    }),
    '/api/runs/{job}/{run}': route({
      summary: 'One run with its windows',
      answer: runSchema,
      async read({ job = '', run: id = '' }) {
        const run = await findRun(job, id);
        return run && { run: describeRun(run), windows: [...(await historyOf(job).readWindows(run))] };
      },
      async draw(document, context, { job = '', run = '', text = '', level: asked }) {
        const level = LOG_LEVELS.find((each) => each === asked) ?? 'all';
        const log = await readRunLog((await logFile(job, run)) ?? '', level, text);
        return renderRunPage(document, log, { level, text }, context);
      },
    }),
    '/api/runs/{job}/{run}/log': route({
      summary: 'The last lines of a log',
      answer: runLogSchema,
      query: z.object({
        level: said('minimum level: info, warn, error'),
        text: said('only lines that contain this text'),
      }),
      async read({ job = '', run = '', level, text }) {
        const path = await logFile(job, run);
        return path === undefined ? undefined : await readRunLog(path, level, text);
      },
    }),
    '/api/drops/{job}/{date}': route({
      summary: 'One drop: manifest, revisions, checks, audit',
      answer: dropDetailSchema,
      query: z.object({ rows: said('1: also the first rows, and sums by symbol') }),
      read: ({ job = '', date = '', rows }) => findDrop(job, date, rows === '1'),
      async draw(document, context, { job = '', date = '' }) {
        return renderDropPage(document, await listReports({ job, from: date, to: date }), context);
      },
    }),
    '/api/reports': route({
      summary: 'Archived reports, newest first',
      answer: reportsSchema,
      query: z.object({ job: said('only of this job'), from: said('first date'), to: said('last date') }),
      read: async (asked) => ({ reports: await listReports(asked) }),
      draw: (document, context, asked) => renderReportsPage(document, asked, context),
    }),
    '/api/actions': route({
      summary: 'What was done on the page, newest first',
      answer: actionLogSchema,
      read: async () => ({ actions: [...(await actionLog.list(USUAL_ACTIONS))] }),
      draw: renderActionsPage,
    }),
  };
  const files: Readonly<Record<string, (asked: Words) => Promise<PageAnswer | undefined>>> = {
    async '/runs/{job}/{run}/log'({ job = '', run = '' }) {
      const path = await logFile(job, run);
      return path === undefined
        ? undefined
        : answerFile('text/plain; charset=utf-8', `${run}.log`, createReadStream(path));
    },
    async '/drops/{job}/{date}/file'({ job = '', date = '' }) {
      const [file] = (await findDrop(job, date, false))?.drop.manifest?.files ?? [];
      if (!file) return undefined;
      const stream = commands.stream(['drop', daemon.pathOf(job), date, '--file']);
      // So that a part is never taken for the whole.
      const length = { 'content-length': String(file.size) };
      return answerFile('application/vnd.apache.parquet', `${date}-${file.filename}`, stream, length);
    },
  };
  return { answerApi, drawPage, readFile, readReport };

  /** @param path begins with `/api/` @throws Fault, Refusal */
  async function answerApi(path: string, query: URLSearchParams): Promise<PageAnswer> {
    if (path === '/api/openapi.json') return answerJson(200, describeApi(routes, (await look()).version));
    return answerJson(200, (await readRoute(path, query)).document);
  }

  /** @throws Fault, Refusal */
  async function drawPage(path: string, query: URLSearchParams): Promise<string> {
    const jobs = (await look()).jobs.map(({ name }) => name);
    const { draw, document, asked } = await readRoute(path === '/' ? '/api/jobs' : `/api${path}`, query);
    if (!draw) throw nothingHere();
    return await draw(document, { nowMs: clock.now(), calendar, jobs, canAct: mayAct }, asked);
  }

  /** `undefined` if the address is not that of a file. @throws Fault, Refusal */
  async function readFile(path: string): Promise<PageAnswer | undefined> {
    const found = findAddress(files, path);
    const file = await found?.row(found.parts);
    if (found && !file) throw nothingHere();
    return file;
  }

  /** @throws Fault, Refusal */
  async function readReport(path: string, query: URLSearchParams): Promise<PageAnswer> {
    // Compared with all listed reports, so that no other text, in any encoding, reaches the archive.
    const all = await listReports({});
    const named = all.find(({ href }) => href === path);
    if (!named) throw nothingHere();
    const { job, date, report, revision } = named;
    const which = ['--date', date, '--report', report, '--revision', String(revision)];
    const read = () => commands.read<{ readonly html: string }>(['report', daemon.pathOf(job), ...which, '--show']);
    const { html } = await reports(path, read);
    // Relative, so that they work behind a proxy that adds to the path. A preview is no place to go on from.
    const top = '../../../..';
    const ofJob = query.has('preview') ? [] : all.filter((other) => other.job === job);
    const status = query.has('preview') ? undefined : `${top}/`;
    return answerReport(linkReport(html, named, ofJob, ({ href }) => top + href, status));
  }

  async function readRoute(path: string, query: URLSearchParams) {
    const { row, parts } = findAddress(routes, path) ?? {};
    const asked = { ...Object.fromEntries([...query].filter(([, value]) => value !== '')), ...parts };
    const document = await row?.read(asked).catch(refuseParameter);
    if (document === undefined) throw nothingHere();
    return { draw: row?.draw, document, asked };
  }

  /** The daemon's view for whoever looks at a page: at most one a second. */
  async function look(): Promise<DaemonView> {
    return await views('', () => daemon.look().then(() => daemon.view()));
  }

  /** Runs of all jobs that the daemon knows, newest first. */
  async function listRuns({
    job,
    command,
    outcome,
    before,
    limit = USUAL_RUNS,
  }: z.infer<typeof runQuerySchema>): Promise<RunsDocument> {
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

  /** Path of a run's log; `undefined` if the run is unknown. */
  async function logFile(job: string, id: string): Promise<string | undefined> {
    const run = await findRun(job, id);
    return run && historyOf(job).files(run).log;
  }

  /** Archived reports, newest first. */
  async function listReports({ job, from = '', to = '9999' }: Words): Promise<ReportLink[]> {
    const some = (await look()).jobs.filter(({ name }) => job === undefined || name === job);
    const all = some.flatMap((each) => describeFacts(each, clock.now(), calendar).reports);
    return all.filter(({ date }) => date >= from && date <= to).sort((a, b) => (a.date < b.date ? 1 : -1));
  }

  /**
   * A drop of a known job; `undefined` if the job or the date is none.
   * @param withRows also the first rows and the sums by symbol
   * @throws Fault when it cannot be read
   */
  async function findDrop(job: string, date: string, withRows: boolean): Promise<DropDetail | undefined> {
    if (!dateSchema.safeParse(date).success || !(await isJob(job))) return undefined;
    return await drops(JSON.stringify([job, date, withRows]), () => readDrop(job, date, withRows));
  }

  function historyOf(job: string): RunHistory {
    return new RunHistory(stateDir, job);
  }

  async function isJob(job: string): Promise<boolean> {
    return (await look()).jobs.some(({ name }) => name === job);
  }

  async function findRun(job: string, id: string): Promise<RunRecord | undefined> {
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

export function nothingHere(): Refusal {
  const text = 'The status page is at /, beside /healthz and /metrics; /api/openapi.json lists the documents.';
  return new Refusal(404, ['NOT_FOUND', 'Nothing here', text]);
}

/** The row of an address, with the named parts of the address, decoded; `undefined` if there is none. */
function findAddress<Row>(rows: Readonly<Record<string, Row>>, path: string) {
  for (const [address, row] of Object.entries(rows)) {
    const match = new RegExp(`^${address.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`).exec(path);
    if (!match) continue;
    const parts = Object.entries(match.groups ?? {}).map(([name, part]) => [name, decode(part)]);
    return { row, parts: Object.fromEntries(parts) as Words };
  }
  return undefined;
}

/** Empty if it is not encoded as it must be: nothing has such a name. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}

/** A parameter of any text. */
function said(description: string) {
  return z.string().optional().describe(description);
}

function refuseParameter(error: unknown): never {
  if (!(error instanceof z.ZodError)) throw error;
  const [issue] = error.issues;
  throw new Refusal(400, ['PARAMETER_INVALID', 'Wrong parameter', `${issue?.path.join('.')}: ${issue?.message}`]);
}

function route<S extends z.ZodType>(row: Route<S>): Route {
  return row as unknown as Route;
}
