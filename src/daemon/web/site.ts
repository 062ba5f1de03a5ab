/**
 * The daemon's HTTP server: routes requests to answers behind the access rules; `core/http-listener.ts` has the limits on
 * what a caller could hold. Invariant: a request without access gets no data except health, and work is bounded: a
 * page is drawn at most once a second, and only a few reports are read in parallel, each once for all requests.
 */
import { createReadStream } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { describeError, Fault, isFault } from '../../core/errors.ts';
import { type HeardRequest, type HttpListener, listenHttp } from '../../core/http-listener.ts';
import { formatListenAddress, isLoopback } from '../../core/listen-address.ts';
import { REPORT_PREFIX } from '../../core/report-page.ts';
import { readReport } from '../commands.ts';
import type { DaemonView } from '../job-view.ts';
import { ActionDesk } from './action-answer.ts';
import { renderActionsPage } from './action-form.ts';
import {
  answerFile,
  answerJson,
  answerNotice,
  answerPage,
  answerReport,
  answerReportNotice,
  headersOf,
  type PageAnswer,
} from './answer.ts';
import { answerApi, refuse } from './api-answer.ts';
import { ApiReader } from './api-reader.ts';
import { renderDropPage } from './drop-page.ts';
import { renderJobPage } from './job-page.ts';
import { DaemonMetrics } from './metrics.ts';
import { renderOverview } from './overview-page.ts';
import { Access } from './page-access.ts';
import { type PageContext, renderPassage, TOKEN_FORM } from './page-frame.ts';
import { ACTIONS, splitPath } from './page-path.ts';
import { renderReportsPage } from './reports-page.ts';
import { LOG_LEVELS, renderRunPage, renderRunsPage } from './run-page.ts';
import type { WebOptions } from './web-options.ts';

/** A page younger than this is sent again. */
const PAGE_LIFETIME_MS = 1_000;
/** Reports read in parallel; each reading is a process. */
const MAX_READING = 2;
/** The loop beats every 15 seconds; without a beat for this long it is stuck. */
const STALL_MS = 5 * 60_000;

const NOTHING_HERE = ['Nothing here', 'The status page is at /, beside /healthz and /metrics.'] as const;

/** @throws Fault `SETTING_MISSING` (kind `usage`) if the address needs a token and there is none; `LISTEN_FAILED` */
export async function startWeb(options: WebOptions): Promise<HttpListener> {
  const { address, token, clock, log } = options;
  if (token === undefined && !isLoopback(address.host)) {
    throw new Fault('SETTING_MISSING', `the status page on ${formatListenAddress(address)} needs a token`, {
      kind: 'usage',
      hint: 'Set FLOWDROP_STATUS_TOKEN, or listen on 127.0.0.1.',
    });
  }
  const site = new Site(options, new Access(token, ['localhost', '127.0.0.1', '::1', address.host]));
  const web = await listenHttp({
    address,
    answer: async (request) => {
      const answer = await site.answer(request);
      const head = { status: answer.status, headers: headersOf(answer) };
      return typeof answer.body === 'string' ? { ...head, body: answer.body } : { ...head, body: answer.body };
    },
    hint: 'Choose another FLOWDROP_STATUS_ADDRESS, or `off`.',
    clock,
  });
  log.info({ event: 'status-page', url: web.url }, `status page on ${web.url}`);
  return web;
}

const CHALLENGE = { 'www-authenticate': 'Bearer realm="flowdrop"' } as const;

class Site {
  readonly #options: WebOptions;
  readonly #access: Access;
  readonly #api: ApiReader;
  readonly #metrics: DaemonMetrics;
  readonly #desk: ActionDesk;
  readonly #reading = new Map<string, Promise<string | undefined>>();
  /** Drawn pages by address, all of one second. */
  #pages: { readonly atMs: number; readonly bodies: Map<string, Promise<string | undefined>> } = {
    atMs: Number.NEGATIVE_INFINITY,
    bodies: new Map(),
  };

  constructor(options: WebOptions, access: Access) {
    this.#options = options;
    this.#access = access;
    this.#api = new ApiReader(options);
    this.#metrics = new DaemonMetrics(options.calendar, options.stateDir);
    this.#desk = new ActionDesk(options, access);
  }

  /** Never rejects. */
  async answer(request: HeardRequest): Promise<PageAnswer> {
    try {
      return await this.#route(request);
    } catch (error) {
      const { log } = this.#options;
      const reason = describeError(error);
      if (!isFault(error)) {
        log.error({ event: 'page-failed', reason }, `a page failed: ${reason}`);
        return answerNotice(500, 'Something went wrong', 'See page-failed in the log of the daemon.');
      }
      // A child command could not read the store: whoever looks may know why.
      log.warn({ event: 'page-unread', code: error.code, reason }, `a page could not be read: ${reason}`);
      const [status, title] = error.code === 'BUSY' ? [503, 'Busy'] : [502, 'It cannot be read'];
      const where = 'see page-unread in the log of the daemon';
      return request.target.startsWith('/api/')
        ? refuse(status, error.code, where)
        : answerNotice(status, title, `${error.code}: ${where}.`);
    }
  }

  async #route(request: HeardRequest): Promise<PageAnswer> {
    const { target, headers } = request;
    const { clock, view } = this.#options;
    const access = this.#access;
    const [, path = '/', query = ''] = /^([^?]*)\??(.*)$/s.exec(target) ?? [];
    const parameters = new URLSearchParams(query);
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const action = ACTIONS.find((each) => request.method === 'POST' && path === `/actions/${each}`);
    const isDocument = request.method === 'POST' && path === '/api/actions';
    if (!isRead && action === undefined && !isDocument) {
      const headers = { allow: 'GET, HEAD', connection: 'close' };
      return answerNotice(405, 'Read-only', 'Only GET and HEAD are allowed.', headers);
    }
    const nowMs = clock.now();
    const health = answerHealth(path, view, nowMs);
    if (health) return health;
    if (!access.isKnownHost(headers)) {
      const ways = 'Open it as http://localhost or by its listen address; for other names set FLOWDROP_STATUS_TOKEN.';
      return answerNotice(421, 'Host name not allowed', ways);
    }
    const shown = isRead && path === '/' ? parameters.get('token') : null;
    if (shown !== null && !access.isAllowed({}, nowMs)) return this.#login(shown, headers, nowMs);
    if (!access.isAllowed(headers, nowMs)) {
      return path.startsWith('/api/') ? refuseProgram() : refuseStranger('Token required');
    }
    if (action !== undefined) return await this.#desk.answerForm(action, parameters, request, nowMs);
    if (isDocument) return await this.#desk.answerDocument(request);
    if (path === '/metrics') {
      return { status: 200, type: this.#metrics.contentType, body: await this.#metrics.text(view(), nowMs) };
    }
    if (path.startsWith(REPORT_PREFIX)) return await this.#answerReport(path);
    if (path.startsWith('/api/')) return await answerApi(this.#api, path, parameters);
    const answer = await this.#answerPage(path, parameters, target);
    // A drawn page may be that of another login; its forms are bound to this one.
    return typeof answer.body === 'string' ? { ...answer, body: this.#desk.fill(answer.body, headers, nowMs) } : answer;
  }

  async #answerPage(path: string, query: URLSearchParams, target: string): Promise<PageAnswer> {
    const parts = splitPath(path);
    if (parts.length === 4 && parts[0] === 'runs' && parts[3] === 'log') {
      const file = await this.#api.logFile(parts[1] ?? '', parts[2] ?? '');
      if (file === undefined) return answerNotice(404, ...NOTHING_HERE);
      return answerFile('text/plain; charset=utf-8', `${parts[2]}.log`, createReadStream(file));
    }
    if (parts.length === 4 && parts[0] === 'drops' && parts[3] === 'file') {
      const file = await this.#api.dropFile(parts[1] ?? '', parts[2] ?? '');
      if (!file) return answerNotice(404, ...NOTHING_HERE);
      // So that a part is never taken for the whole.
      const length = { 'content-length': String(file.sizeBytes) };
      return answerFile('application/vnd.apache.parquet', file.name, file.stream, length);
    }
    const nowMs = this.#options.clock.now();
    const isOld = nowMs < this.#pages.atMs || nowMs - this.#pages.atMs >= PAGE_LIFETIME_MS;
    if (isOld) this.#pages = { atMs: nowMs, bodies: new Map() };
    const drawn = this.#pages.bodies.get(target) ?? this.#draw(parts, query, nowMs);
    this.#pages.bodies.set(target, drawn);
    const body = await drawn;
    return body === undefined ? answerNotice(404, ...NOTHING_HERE) : answerPage(200, body);
  }

  /** `undefined` if there is no such page. */
  async #draw(parts: readonly string[], query: URLSearchParams, nowMs: number): Promise<string | undefined> {
    const api = this.#api;
    const view = await api.look();
    this.#metrics.observe(view);
    const context: PageContext = { nowMs, calendar: this.#options.calendar, canAct: this.#options.mayAct };
    const [first = '', name = '', id = ''] = parts;
    const words = Object.fromEntries([...query].filter(([, value]) => value !== ''));
    const names = view.jobs.map((job) => job.name);
    switch (`${first}/${parts.length}`) {
      case '/1':
        return renderOverview(await api.jobs(), context);
      case 'jobs/2': {
        const found = await api.job(name);
        return found && renderJobPage(found.job, found.document, context);
      }
      case 'runs/1':
        return renderRunsPage(await api.runs({ ...words, limit: undefined }), words, names, context);
      case 'runs/3': {
        const { text = '' } = words;
        const level = LOG_LEVELS.find((each) => each === words['level']) ?? 'all';
        const [run, log] = await Promise.all([api.run(name, id), api.log(name, id, { level, text })]);
        return run && log && renderRunPage(run, log, { level, text }, context);
      }
      case 'reports/1':
        return renderReportsPage(await api.reports(words), words, names, context);
      case 'drops/3': {
        const detail = await api.drop(name, id, words['rows'] === '1');
        const reports = detail && (await api.reports({ job: name, from: id, to: id }));
        return detail && renderDropPage(detail, reports ?? [], context);
      }
      case 'actions/1':
        return renderActionsPage(await api.actions(), context);
      default:
        return undefined;
    }
  }

  #login(shown: string, headers: IncomingHttpHeaders, nowMs: number): PageAnswer {
    const cookie = this.#access.login(shown, headers, nowMs);
    if (cookie === undefined) return refuseStranger('Wrong token');
    const login = { 'set-cookie': cookie };
    const site = headers['sec-fetch-site'];
    // A browser coming from another site does not send a strict cookie on a redirect, but does when our own page
    // navigates.
    if (site === 'cross-site' || site === 'same-site') return answerPage(200, renderPassage(), login);
    return answerPage(303, renderPassage(), { ...login, location: '/' });
  }

  async #answerReport(path: string): Promise<PageAnswer> {
    const { log, commands, pathOf } = this.#options;
    // Compared with all listed reports, so that no other text, in any encoding, reaches the archive.
    const named = (await this.#api.reports({})).find(({ href }) => href === path);
    if (!named) return answerReportNotice(404, ...NOTHING_HERE);
    let reading = this.#reading.get(path);
    if (!reading) {
      if (this.#reading.size >= MAX_READING) {
        const text = 'Other reports are being read; try again in a few seconds.';
        return answerReportNotice(503, 'Busy', text, { 'retry-after': '5' });
      }
      reading = readReport(commands, pathOf(named.job), named).finally(() => this.#reading.delete(path));
      this.#reading.set(path, reading);
    }
    try {
      const body = await reading;
      return body === undefined ? answerReportNotice(404, ...NOTHING_HERE) : answerReport(body);
    } catch (error) {
      const { job, date } = named;
      const reason = describeError(error);
      log.warn({ event: 'report-unread', job, date, reason }, `${job} ${date}: the report cannot be read: ${reason}`);
      return answerReportNotice(502, 'The report cannot be read', 'See report-unread in the log of the daemon.');
    }
  }
}

function refuseStranger(title: string): PageAnswer {
  const ways =
    'This page needs the token in FLOWDROP_STATUS_TOKEN. In a browser, enter it once here or open /?token=...; a program sends it with every request as "Authorization: Bearer ...".';
  return answerNotice(401, title, ways, CHALLENGE, TOKEN_FORM);
}

function refuseProgram(): PageAnswer {
  const refused = refuse(401, 'TOKEN_REQUIRED', 'send FLOWDROP_STATUS_TOKEN as "Authorization: Bearer ..."');
  return { ...refused, headers: CHALLENGE };
}

/** Health for orchestrators. Needs no token, so it has counts and reasons, but no names. `undefined` for other addresses. */
function answerHealth(path: string, read: () => DaemonView, nowMs: number): PageAnswer | undefined {
  if (!/^\/healthz(\/live|\/ready)?$/.test(path)) return undefined;
  const { isStopping, beatAtMs, jobs } = read();
  // The process answers and its schedules advance. A changed clock looks the same until the next beat, which comes before
  // orchestrators lose patience.
  const isStalled = !isStopping && nowMs - beatAtMs > STALL_MS;
  const live = toHealth(isStalled && `the schedule was not checked for ${STALL_MS / 60_000} minutes`);
  // It starts runs, and has at least one job to run. A job with a broken file continues unchanged; one that was never
  // valid has no schedule.
  const canRun = jobs.some(({ schedule }) => schedule !== undefined);
  const ready = toHealth(isStopping && 'the daemon is stopping', !canRun && 'no job can be run');
  if (path === '/healthz') {
    const ok = live.ok && ready.ok;
    return answerJson(ok ? 200 : 503, { ok, live, ready });
  }
  const asked = path === '/healthz/live' ? live : ready;
  return answerJson(asked.ok ? 200 : 503, asked);
}

function toHealth(...faults: readonly (string | false)[]) {
  const reasons = faults.filter((fault) => fault !== false);
  return { ok: reasons.length === 0, reasons };
}
