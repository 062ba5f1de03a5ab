/**
 * The daemon's HTTP server: the status page behind its access rules. `site.ts` has the pages, `core/http-listener.ts`
 * the limits on what a caller could hold.
 */
import { Fault } from '../../core/errors.ts';
import { type HttpListener, listenHttp } from '../../core/http-listener.ts';
import { formatListenAddress, isLoopback } from '../../core/listen-address.ts';
import { headersOf } from './answer.ts';
import { Access } from './page-access.ts';
import { Site } from './site.ts';
import type { WebOptions } from './web-options.ts';

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
