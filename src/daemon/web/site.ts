/**
 * Routes requests to answers. Invariant: a request without access gets no data except health, and work is bounded: the
 * page is rendered at most once a second, and only a few reports are read in parallel, each once for all requests.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { CalendarOverride } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import { describeError } from '../../core/errors.ts';
import type { HeardRequest } from '../../core/http-listener.ts';
import type { Log } from '../../core/log.ts';
import type { DaemonView } from '../job-view.ts';
import { answerPage, answerReport, answerReportNotice, answerText, type PageAnswer } from './answer.ts';
import { DaemonMetrics } from './daemon-metrics.ts';
import type { Access } from './page-access.ts';
import { findReport, isReportPath } from './report-path.ts';
import { renderNotice, renderPage, renderPassage, TOKEN_FORM } from './status-page.ts';

/** A page younger than this is sent again. */
const PAGE_LIFETIME_MS = 1_000;
/** Reports read in parallel; each reading is a process. */
const MAX_READING = 2;

/** The loop beats every 15 seconds; without a beat for this long it is stuck. */
const STALL_MS = 5 * 60_000;

const NOTHING_HERE = renderNotice('Nothing here', ['The status page is at /, beside /healthz and /metrics.']);

interface SiteOptions {
  readonly access: Access;
  readonly view: () => DaemonView;
  /** Someone views the page, so its data should be refreshed. Not called for probes and metrics. */
  readonly onLook?: () => void;
  readonly readReport: (job: string, date: string, report: string, revision: number) => Promise<string | undefined>;
  readonly calendar: CalendarOverride;
  readonly clock: Clock;
  readonly log: Log;
}

export class Site {
  readonly #options: SiteOptions;
  readonly #metrics: DaemonMetrics;
  readonly #reading = new Map<string, Promise<string | undefined>>();
  #page: { readonly body: string; readonly atMs: number } | undefined;

  constructor(options: SiteOptions) {
    this.#options = options;
    this.#metrics = new DaemonMetrics(options.calendar);
  }

  /** Never rejects. */
  async answer(request: HeardRequest): Promise<PageAnswer> {
    try {
      return await this.#route(request);
    } catch (error) {
      const reason = describeError(error);
      this.#options.log.error({ event: 'page-failed', reason }, `a page failed: ${reason}`);
      return answerPage(500, renderNotice('Something went wrong', ['See page-failed in the log of the daemon.']));
    }
  }

  async #route({ method, target, headers }: HeardRequest): Promise<PageAnswer> {
    const { access, clock, view } = this.#options;
    if (method !== 'GET' && method !== 'HEAD') {
      const text = renderNotice('Read-only', ['Only GET and HEAD are allowed.']);
      return answerPage(405, text, { allow: 'GET, HEAD', connection: 'close' });
    }
    const [path = '/', query = ''] = splitOnce(target, '?');
    const health = this.#answerHealth(path);
    if (health) return health;
    if (!access.isKnownHost(headers)) {
      const ways = 'Open it as http://localhost or by its listen address; for other names set FLOWDROP_STATUS_TOKEN.';
      return answerPage(421, renderNotice('Host name not allowed', [ways]));
    }
    const nowMs = clock.now();
    const shown = path === '/' ? new URLSearchParams(query).get('token') : null;
    if (shown !== null && !access.isAllowed({}, nowMs)) return this.#login(shown, headers, nowMs);
    if (!access.isAllowed(headers, nowMs)) return refuseStranger('Token required');
    if (path === '/') return answerPage(200, this.#renderPage(view, nowMs));
    if (path === '/metrics') return answerText(200, this.#metrics.contentType, await this.#metrics.text(view(), nowMs));
    if (isReportPath(path)) return await this.#answerReport(path);
    return answerPage(404, NOTHING_HERE);
  }

  #answerHealth(path: string): PageAnswer | undefined {
    if (!/^\/healthz(\/live|\/ready)?$/.test(path)) return undefined;
    const view = this.#options.view();
    const live = checkLive(view, this.#options.clock.now());
    const ready = checkReady(view);
    const asked = path === '/healthz' ? [live, ready] : [path === '/healthz/live' ? live : ready];
    const ok = asked.every((health) => health.ok);
    const body = path === '/healthz' ? { ok, live, ready } : { ok, reasons: asked.flatMap(({ reasons }) => reasons) };
    return answerText(ok ? 200 : 503, 'application/json; charset=utf-8', `${JSON.stringify(body)}\n`);
  }

  #login(shown: string, headers: IncomingHttpHeaders, nowMs: number): PageAnswer {
    const cookie = this.#options.access.login(shown, headers, nowMs);
    if (cookie === undefined) return refuseStranger('Wrong token');
    const login = { 'set-cookie': cookie };
    const site = headers['sec-fetch-site'];
    // A browser coming from another site does not send a strict cookie on a redirect, but does when our own page
    // navigates.
    if (site === 'cross-site' || site === 'same-site') return answerPage(200, renderPassage(), login);
    return answerPage(303, renderPassage(), { ...login, location: '/' });
  }

  #renderPage(read: () => DaemonView, nowMs: number): string {
    const page = this.#page;
    if (page && nowMs >= page.atMs && nowMs - page.atMs < PAGE_LIFETIME_MS) return page.body;
    this.#options.onLook?.();
    const view = read();
    this.#metrics.observe(view);
    const body = renderPage(view, nowMs, this.#options.calendar);
    this.#page = { body, atMs: nowMs };
    return body;
  }

  async #answerReport(path: string): Promise<PageAnswer> {
    const { log, readReport, view } = this.#options;
    const named = findReport(view(), path);
    if (!named) return answerReportNotice(404, NOTHING_HERE);
    let reading = this.#reading.get(path);
    if (!reading) {
      if (this.#reading.size >= MAX_READING) {
        const text = renderNotice('Busy', ['Other reports are being read; try again in a few seconds.']);
        return answerReportNotice(503, text, { 'retry-after': '5' });
      }
      reading = readReport(named.job, named.date, named.report, named.revision).finally(() =>
        this.#reading.delete(path),
      );
      this.#reading.set(path, reading);
    }
    try {
      const body = await reading;
      return body === undefined ? answerReportNotice(404, NOTHING_HERE) : answerReport(body);
    } catch (error) {
      const { job, date } = named;
      const reason = describeError(error);
      log.warn({ event: 'report-unread', job, date, reason }, `${job} ${date}: the report cannot be read: ${reason}`);
      const text = renderNotice('The report cannot be read', ['See report-unread in the log of the daemon.']);
      return answerReportNotice(502, text);
    }
  }
}

function refuseStranger(title: string): PageAnswer {
  const ways = [
    'This page needs the token in FLOWDROP_STATUS_TOKEN. In a browser, enter it once here or open /?token=...; a program sends it with every request as "Authorization: Bearer ...".',
  ];
  return answerPage(401, renderNotice(title, ways, TOKEN_FORM), { 'www-authenticate': 'Bearer realm="flowdrop"' });
}

function splitOnce(text: string, separator: string): readonly string[] {
  const index = text.indexOf(separator);
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + 1)];
}

/** For orchestrators. Needs no token, so it has counts and reasons, but no names. */
interface Health {
  readonly ok: boolean;
  /** Empty when healthy. */
  readonly reasons: readonly string[];
}

/** Live: the process answers and its schedules advance. */
function checkLive(view: DaemonView, nowMs: number): Health {
  // A changed clock looks the same until the next beat, which comes before orchestrators lose patience.
  const isStalled = !view.isStopping && nowMs - view.beatAtMs > STALL_MS;
  return toHealth(isStalled ? [`the schedule was not checked for ${STALL_MS / 60_000} minutes`] : []);
}

/** Ready: it starts runs, and has at least one job to run. */
function checkReady(view: DaemonView): Health {
  return toHealth([
    ...(view.isStopping ? ['the daemon is stopping'] : []),
    // A job with a broken file continues unchanged; one that was never valid has no schedule.
    ...(view.jobs.some(({ schedule }) => schedule !== undefined) ? [] : ['no job can be run']),
  ]);
}

function toHealth(reasons: readonly string[]): Health {
  return { ok: reasons.length === 0, reasons };
}
