/**
 * The listener of a read-only catalog: who may ask, the log, and what a caller sees of a failure. Invariant: without keys
 * only programs on this machine are answered, and no page of another site that is open in a local browser (its requests
 * name another host). Every answer has one line in the log.
 */
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import { type HeardRequest, type HttpListener, listenHttp, type ReadyAnswer } from '../core/http-listener.ts';
import { formatListenAddress, isLoopback, type ListenAddress, parseHostHeader } from '../core/listen-address.ts';
import type { Log } from '../core/log.ts';
import type { Store } from '../store/store.ts';
import { answerCatalog, answerError, answerFailure } from './read-only-catalog.ts';

export interface CatalogListenerOptions {
  readonly store: Store;
  readonly address: ListenAddress;
  /** The name of the caller with this bearer token; `undefined` for a wrong one. Absent: callers need no token. */
  readonly identify?: ((token: string) => string | undefined) | undefined;
  /** Counts wrong tokens by address: whole seconds to wait, or 0. */
  readonly wrongKeys: { admit(address: string): number };
  /** Where clients find the store, in the words of Iceberg's clients; no credentials. */
  readonly clientDefaults: Readonly<Record<string, string>>;
  readonly log: Log;
  readonly clock: Clock;
}

/** @throws Fault `KEY_INVALID` (kind `usage`) if others can reach the address without a key; `LISTEN_FAILED` */
export async function startCatalog(options: CatalogListenerOptions): Promise<HttpListener> {
  const { address, identify, log, clock } = options;
  if (identify === undefined && !isLoopback(address.host)) {
    throw new Fault('KEY_INVALID', `a catalog on ${formatListenAddress(address)} needs a key`, {
      kind: 'usage',
      hint: '`flowdrop key --name NAME --file FILE` makes one for --key-file; or listen on 127.0.0.1.',
    });
  }
  const answer = async (request: HeardRequest): Promise<ReadyAnswer> => {
    const startedMs = clock.now();
    const { caller, refusal } = admit(options, request);
    const given = refusal ?? (await answerOrFail(options, request));
    const { method, target } = request;
    const durationMs = clock.now() - startedMs;
    log.info({ event: 'catalog-request', method, target, status: given.status, caller, durationMs }, 'answered');
    return given;
  };
  return await listenHttp({ address, answer, hint: 'Choose another --port; 0 picks a free one.', clock });
}

async function answerOrFail(options: CatalogListenerOptions, request: HeardRequest): Promise<ReadyAnswer> {
  try {
    return await answerCatalog(options, request);
  } catch (error) {
    const reason = describeError(error);
    options.log.error({ event: 'catalog-request-failed', target: request.target, reason }, `failed: ${reason}`);
    return answerFailure(error);
  }
}

function admit(
  { identify, address, wrongKeys }: CatalogListenerOptions,
  { headers, remote }: HeardRequest,
): { readonly caller?: string | undefined; readonly refusal?: ReadyAnswer } {
  if (identify === undefined) {
    const known = ['localhost', '127.0.0.1', '::1', address.host.toLowerCase()];
    if (known.includes(parseHostHeader(headers.host))) return {};
    const message = 'Without keys this catalog answers only to localhost; start it with --key-file for other names.';
    return { refusal: answerError({ code: 421, type: 'ForbiddenException', message }) };
  }
  const token = /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const caller = token === undefined ? undefined : identify(token);
  if (caller !== undefined) return { caller };
  const waitSeconds = token === undefined ? 0 : wrongKeys.admit(remote);
  if (waitSeconds > 0) {
    const slow = `Too many wrong keys from this address; try again in ${waitSeconds} s.`;
    const late = answerError({ code: 429, type: 'TooManyRequestsException', message: slow });
    return { refusal: { ...late, headers: { ...late.headers, 'retry-after': String(waitSeconds) } } };
  }
  const message = 'This catalog needs a flowdrop key as bearer token: set `token` in the client.';
  const answer = answerError({ code: 401, type: 'NotAuthorizedException', message });
  return { refusal: { ...answer, headers: { ...answer.headers, 'www-authenticate': 'Bearer' } } };
}
