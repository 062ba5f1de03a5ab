/**
 * The daemon's HTTP server: routes requests to answers behind the access rules; `core/http-listener.ts` has the limits on
 * what a caller could hold. Invariant: a request without access gets no data except health, and work is bounded: a
 * page is drawn at most once a second, and only a few reports are read in parallel, each once for all requests.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { describeError, Fault, isFault } from '../../core/errors.ts';
import { type HeardRequest, type HttpListener, listenHttp } from '../../core/http-listener.ts';
import { formatListenAddress, isLoopback } from '../../core/listen-address.ts';
import { REPORT_PREFIX } from '../../core/report-page.ts';
import type { DaemonView } from '../daemon.ts';
import { ACTIONS } from '../shapes.ts';
import { createActions } from './actions.ts';
import { createMetrics } from './metrics.ts';
import { createAccess } from './page-access.ts';
import {
  answer,
  answerJson,
  answerPage,
  answerRefusal,
  type PageAnswer,
  Refusal,
  renderNotice,
  TOKEN_FORM,
} from './page-frame.ts';
import { createRoutes, keep, nothingHere, type WebOptions } from './routes.ts';

/** A page younger than this is sent again. */
const PAGE_LIFETIME_MS = 1_000;
/** Pages drawn in parallel: more than connections. */
const MAX_DRAWN = 100;
/** The loop beats every 15 seconds; without a beat for this long it is stuck. */
const STALL_MS = 5 * 60_000;

/** @throws Fault `SETTING_MISSING` (kind `usage`) if the address needs a token and there is none; `LISTEN_FAILED` */
export async function startWeb(options: WebOptions): Promise<HttpListener> {
  const { address, token, clock, log } = options;
  if (token === undefined && !isLoopback(address.host)) {
    throw new Fault('SETTING_MISSING', `the status page on ${formatListenAddress(address)} needs a token`, {
      kind: 'usage',
      hint: 'Set FLOWDROP_STATUS_TOKEN, or listen on 127.0.0.1.',
    });
  }
  const hint = 'Choose another FLOWDROP_STATUS_ADDRESS, or `off`.';
  const web = await listenHttp({ address, answer: createSite(options), hint, clock });
  log.info({ event: 'status-page', url: web.url }, `status page on ${web.url}`);
  return web;
}

/** @returns the answer to a request; never rejects */
function createSite(options: WebOptions) {
  const { token, address, calendar, stateDir, clock, daemon, log } = options;
  const access = createAccess(token, ['localhost', '127.0.0.1', '::1', address.host]);
  const routes = createRoutes(options);
  const metrics = createMetrics(calendar, stateDir);
  daemon.countRuns(metrics.count);
  const actions = createActions(options, access);
  const pages = keep<string>(clock, PAGE_LIFETIME_MS, MAX_DRAWN);

  return async (request: HeardRequest): Promise<PageAnswer> => {
    const [, path = '/', query = ''] = /^([^?]*)\??(.*)$/s.exec(request.target) ?? [];
    try {
      return await route(request, path, new URLSearchParams(query));
    } catch (error) {
      return answerRefusal(error instanceof Refusal ? error : refuseFault(error, path), path);
    }
  };

  function refuseFault(error: unknown, path: string): Refusal {
    const reason = describeError(error);
    if (!isFault(error)) {
      log.error({ event: 'page-failed', reason }, `a page failed: ${reason}`);
      const text = 'See page-failed in the log of the daemon.';
      return new Refusal(500, ['PAGE_FAILED', 'Something went wrong', text]);
    }
    if (error.code === 'BUSY') return new Refusal(503, ['BUSY', 'Busy', reason], { headers: { 'retry-after': '5' } });
    // Only this code means that a report does not exist. An unreadable store or a broken job file proves nothing.
    if (error.code === 'REPORT_NOT_ARCHIVED') return nothingHere();
    // A child command could not read the store: whoever looks may know why.
    log.warn({ event: 'page-unread', path, code: error.code, reason }, `${path} could not be read: ${reason}`);
    const text = `${error.code}: see page-unread in the log of the daemon.`;
    return new Refusal(502, [error.code, 'It cannot be read', text]);
  }

  async function route(request: HeardRequest, path: string, query: URLSearchParams): Promise<PageAnswer> {
    const { method, headers } = request;
    const isRead = method === 'GET' || method === 'HEAD';
    const action = ACTIONS.find((each) => method === 'POST' && path === `/actions/${each}`);
    const isDocument = method === 'POST' && path === '/api/actions';
    if (!isRead && action === undefined && !isDocument) {
      const allow = { allow: 'GET, HEAD', connection: 'close' };
      throw new Refusal(405, ['READ_ONLY', 'Read-only', 'Only GET and HEAD are allowed.'], { headers: allow });
    }
    const nowMs = clock.now();
    if (/^\/healthz(\/live|\/ready)?$/.test(path)) return answerHealth(path, daemon.view(), nowMs);
    if (!access.isKnownHost(headers)) {
      const ways = 'Open it as http://localhost or by its listen address; for other names set FLOWDROP_STATUS_TOKEN.';
      throw new Refusal(421, ['HOST_NOT_ALLOWED', 'Host name not allowed', ways]);
    }
    const shown = isRead && path === '/' ? query.get('token') : null;
    if (shown !== null && !access.isAllowed({}, nowMs)) return login(shown, headers, nowMs);
    if (!access.isAllowed(headers, nowMs)) throw refuseStranger('Token required');
    if (action !== undefined) return await actions.answerForm(action, query, request);
    if (isDocument) return await actions.answerDocument(request);
    if (path === '/metrics') {
      return answer(200, metrics.contentType, await metrics.text(daemon.view(), nowMs));
    }
    if (path.startsWith(REPORT_PREFIX)) return await routes.readReport(path, query);
    if (path.startsWith('/api/')) return await routes.answerApi(path, query);
    const file = await routes.readFile(path);
    if (file) return file;
    const page = await pages(request.target, () => routes.drawPage(path, query));
    // A drawn page may be that of another login; its forms are bound to this one.
    return answerPage(200, actions.fill(page, headers, nowMs));
  }

  function login(shown: string, headers: IncomingHttpHeaders, nowMs: number): PageAnswer {
    const cookie = access.login(shown, headers, nowMs);
    if (cookie === undefined) throw refuseStranger('Wrong token');
    // The address has the token.
    const login = { 'set-cookie': cookie, 'referrer-policy': 'no-referrer' };
    return answerPage(303, renderNotice('Logged in', 'This browser may see the status page now.'), {
      ...login,
      location: '/',
    });
  }
}

function refuseStranger(title: string): Refusal {
  const ways =
    'This page needs the token in FLOWDROP_STATUS_TOKEN. In a browser, enter it once here or open /?token=...; a program sends it with every request as "Authorization: Bearer ...".';
  const headers = { 'www-authenticate': 'Bearer realm="flowdrop"' };
  return new Refusal(401, ['TOKEN_REQUIRED', title, ways], { headers, more: TOKEN_FORM });
}

/** Health for orchestrators. Needs no token, so it has counts and reasons, but no names. */
function answerHealth(path: string, { isStopping, beatAtMs, jobs }: DaemonView, nowMs: number): PageAnswer {
  // The process answers and its schedules advance. A changed clock looks the same until the next beat, which comes before
  // orchestrators lose patience.
  const isStalled = !isStopping && nowMs - beatAtMs > STALL_MS;
  const live = toHealth(isStalled && `the schedule was not checked for ${STALL_MS / 60_000} minutes`);
  // It starts runs, and has at least one job to run. A job with a broken file continues unchanged; one that was never
  // valid has no schedule.
  const canRun = jobs.some(({ schedule }) => schedule !== null);
  const ready = toHealth(isStopping && 'the daemon is stopping', !canRun && 'no job can be run');
  const whole = { ok: live.ok && ready.ok, live, ready };
  const asked = path === '/healthz' ? whole : path === '/healthz/live' ? live : ready;
  return answerJson(asked.ok ? 200 : 503, asked);
}

function toHealth(...faults: readonly (string | false)[]) {
  const reasons = faults.filter((fault) => fault !== false);
  return { ok: reasons.length === 0, reasons };
}
