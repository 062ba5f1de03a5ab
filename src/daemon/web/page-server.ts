/**
 * The daemon's HTTP server: the status page behind its access rules. `site.ts` has the pages, `core/http-listener.ts`
 * the limits on what a caller could hold.
 */
import { type CalendarOverride, NO_OVERRIDE } from '../../calendar/session.ts';
import type { Clock } from '../../core/clock.ts';
import { Fault } from '../../core/errors.ts';
import { type HttpListener, listenHttp } from '../../core/http-listener.ts';
import { formatListenAddress, isLoopback, type ListenAddress } from '../../core/listen-address.ts';
import type { Log } from '../../core/log.ts';
import type { RunHistory } from '../../state/run-history.ts';
import type { DaemonView } from '../job-view.ts';
import type { Doer } from './actions.ts';
import { headersOf } from './answer.ts';
import type { DropSource } from './drop-reader.ts';
import { createAccess } from './page-access.ts';
import { Site } from './site.ts';

export interface WebOptions {
  readonly address: ListenAddress;
  /** Token that viewers need. Required unless the address is a loopback one. */
  readonly token: string | undefined;
  /** The data to show; pages call it at most once a second. */
  readonly view: () => DaemonView;
  /** Called when someone views the page, at most once a second. */
  readonly onLook?: (() => Promise<void>) | undefined;
  /** Folder whose disk the metrics measure. */
  readonly stateDir: string;
  /** Reads drops, by processes. */
  readonly drops: DropSource;
  /** Whether the page may act. */
  readonly mayAct: boolean;
  /** What it asks to act. */
  readonly doer: Doer;
  /** Path of the record of what was done on the page. */
  readonly actionLog: string;
  /** The remembered runs of a job. */
  readonly history: (job: string) => RunHistory;
  /** HTML of an archived report in the view; `undefined` when it no longer exists. */
  readonly readReport: (job: string, date: string, report: string, revision: number) => Promise<string | undefined>;
  /** Calendar overrides; absent: none. */
  readonly calendar?: CalendarOverride;
  readonly log: Log;
  readonly clock: Clock;
}

export type RunningWeb = HttpListener;

/** @throws Fault `SETTING_MISSING` (kind `usage`) if the address needs a token and there is none; `LISTEN_FAILED` */
export async function startWeb(options: WebOptions): Promise<RunningWeb> {
  const { address, token, clock, log } = options;
  if (token === undefined && !isLoopback(address.host)) {
    throw new Fault('SETTING_MISSING', `the status page on ${formatListenAddress(address)} needs a token`, {
      kind: 'usage',
      hint: 'Set FLOWDROP_STATUS_TOKEN, or listen on 127.0.0.1.',
    });
  }
  const access = createAccess(token, ['localhost', '127.0.0.1', '::1', address.host]);
  const site = new Site({ ...options, access, calendar: options.calendar ?? NO_OVERRIDE });
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
