/**
 * Decides how to handle a failed answer: the table of the design, by error code and HTTP class. Pure: the client does
 * the retrying.
 */

import { type ErrorBody, errorBodySchema } from '../api-contract/historical.ts';
import { findSqlPlaces } from '../core/errors.ts';
import { SourceFault, type SourceFaultOptions } from './source.ts';

/** What a failed answer means for its request. */
export interface AnswerVerdict {
  /** `retry` may succeed unchanged; `once` is retried once, then it is a split; `final` is not retried. */
  readonly kind: 'retry' | 'once' | 'final';
  readonly fault: SourceFault;
  readonly retryAfterMs?: number;
  readonly rateLimited?: boolean;
}

/** Bytes of an unexpected body shown in an error. */
const BODY_HEAD_BYTES = 200;

/**
 * Milliseconds of a `Retry-After` header, which holds seconds or an HTTP date (RFC 9110, section 10.2.3); `undefined`
 * if it holds neither. @param serverNowMs now by the server's clock, to which a date is relative
 */
export function parseRetryAfter(header: string | null, serverNowMs: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = /[A-Za-z]/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - serverNowMs);
}

/**
 * @param retryAfterMs the result of `parseRetryAfter`
 * @remarks The HTTP status of RATE_LIMITED, QUERY_TIMEOUT and INTERNAL_ERROR is not specified, so the code or the
 * status decides.
 */
export function judgeFailure(
  status: number,
  body: Uint8Array,
  retryAfterMs: number | undefined,
  sql: string,
): AnswerVerdict {
  const error = readErrorBody(body);
  const code = error?.errorCode;
  const said = error?.errorMsg ?? error?.message ?? headOf(body);
  const label = [`HTTP ${status}`, code, error?.reason].filter(Boolean).join(' ');
  const fault = (faultCode: string, action: SourceFault['action'], more: Partial<SourceFaultOptions> = {}) =>
    new SourceFault(faultCode, `the API answered ${label}: ${said}`, { action, ...more });
  if (code === 'QUERY_TOO_BROAD' || error?.reason === 'SCAN_LIMIT_EXCEEDED') {
    return { kind: 'final', fault: fault('QUERY_TOO_BROAD', 'split') };
  }
  if (status === 401 || status === 403) {
    const hint = status === 401 ? KEY_HINT : SUBSCRIPTION_HINT;
    const fallback = status === 401 ? 'UNAUTHORIZED' : 'SUBSCRIPTION_REQUIRED';
    return { kind: 'final', fault: fault(code ?? fallback, 'denied', { kind: 'usage', hint }) };
  }
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  if (status === 429 || code === 'RATE_LIMITED') {
    return { kind: 'retry', rateLimited: true, fault: fault('RATE_LIMITED', 'fail', { hint: RATE_HINT }), ...wait };
  }
  if (status === 504 || code === 'QUERY_TIMEOUT') {
    return { kind: 'once', fault: fault(code ?? 'QUERY_TIMEOUT', 'split') };
  }
  if (status >= 500 || status === 408 || code === 'INTERNAL_ERROR') {
    return { kind: 'retry', fault: fault(code ?? 'SERVER_ERROR', 'fail', { hint: LATER_HINT }), ...wait };
  }
  const places = findSqlPlaces(sql, said);
  const isAddressWrong = ADDRESS_STATUSES.has(status) || status < 400;
  const advice = REASON_HINTS.get(error?.reason ?? '');
  const hint = isAddressWrong ? ADDRESS_HINT : `${advice === undefined ? '' : `${advice} `}${QUERY_HINT}`;
  const action = isAddressWrong ? 'denied' : 'stop';
  return { kind: 'final', fault: fault(code ?? 'REQUEST_REFUSED', action, { kind: 'usage', hint, places }) };
}

/** The fault for an answer that was read but is not a whole, well-formed page. */
export function judgeMalformed(body: Uint8Array, cause: unknown): AnswerVerdict {
  const why = cause instanceof Error ? cause.message : String(cause);
  return {
    kind: 'retry',
    fault: new SourceFault('ANSWER_MALFORMED', `the API's answer is not a page: ${why}; it begins ${headOf(body)}`, {
      action: 'fail',
      hint: LATER_HINT,
      cause,
    }),
  };
}

/**
 * The fault for a failed connection, or for an answer that did not arrive in time.
 * @param hasBegun whether an answer had begun
 */
export function judgeNetwork(url: string, cause: unknown, hasBegun: boolean): AnswerVerdict {
  const what = hasBegun ? `the answer of the API at ${url} broke off` : `the API at ${url} cannot be reached`;
  const hint = hasBegun ? 'Check the network, and any proxy or firewall on the way to the API.' : hintNetwork(cause);
  const message = `${what}: ${describeNetwork(cause)}`;
  return { kind: 'retry', fault: new SourceFault('API_UNREACHABLE', message, { action: 'fail', hint, cause }) };
}

/** Statuses that suggest a wrong address. A redirect does too; it is not followed, because the key would go along. */
const ADDRESS_STATUSES: ReadonlySet<number> = new Set([404, 405, 410]);

const KEY_HINT =
  'Check the key in FLOWDROP_API_KEY (for the portal FLOWDROP_PORTAL_KEY, for `source.key` FLOWDROP_KEY_...): it is missing, mistyped or revoked. It is not retried.';
const SUBSCRIPTION_HINT = 'The key has no subscription for historical SQL; ask the provider. It is not retried.';
const ADDRESS_HINT = 'Check FLOWDROP_API_URL (or FLOWDROP_PORTAL_URL): this is not the entry point of the API.';
const QUERY_HINT =
  'Check `source.where`, `columns` or `sql` of the job, then `flowdrop check --live JOB`; with --debug the log has the query.';
const RATE_HINT =
  'Something else uses this key. Stop it, share the pace (one FLOWDROP_STATE_DIR on a machine, FLOWDROP_REDIS_URL across machines), or lower FLOWDROP_REQUESTS_PER_SECOND.';
/** The usual cause of a refusal, by its reason. */
const REASON_HINTS: ReadonlyMap<string, string> = new Map([
  [
    'TYPE_MISMATCH',
    "`date` and `time` are text at the API: for hours, write substring(time, 1, 13) || ':00' instead of toStartOfHour(time).",
  ],
  [
    'INVALID_AGGREGATION',
    'An output column hides an input column of the same name: write sum(premium) AS total_premium, not AS premium.',
  ],
]);
const NETWORK_HINT = 'Check FLOWDROP_API_URL (or FLOWDROP_PORTAL_URL) and the network.';
const LATER_HINT = 'Run the same command again later: it continues from what is already staged.';

/** Parses the API's own error format. */
export function readErrorBody(body: Uint8Array): ErrorBody | undefined {
  try {
    return errorBodySchema.parse(JSON.parse(Buffer.from(body).toString('utf8')));
  } catch {
    // Gateways answer with HTML or nothing: then only the status and the body's head are known.
    return undefined;
  }
}

function headOf(body: Uint8Array): string {
  return JSON.stringify(Buffer.from(body.subarray(0, BODY_HEAD_BYTES)).toString('utf8'));
}

/** Some errors keep the original error in `cause`. */
function describeNetwork(cause: unknown): string {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  if (!(inner instanceof Error)) return String(inner);
  const code = 'code' in inner ? String(inner.code) : '';
  return inner.message || code || inner.name;
}

/** Error texts of Node and OpenSSL, with what the operator should check. */
const NETWORK_HINTS: readonly (readonly [RegExp, string])[] = [
  [/ENOTFOUND|EAI_AGAIN/, 'Unknown host: check the address for a typo, and the DNS of this machine.'],
  [
    /EPROTO|wrong version number|ERR_SSL_/,
    'The server speaks no TLS, or no version that this machine supports: check whether the address should be https, and the port.',
  ],
  [
    /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS_/,
    'Its certificate is not trusted on this machine, or belongs to another host. For your own CA, set NODE_EXTRA_CA_CERTS to its file.',
  ],
  [/ECONNREFUSED/, 'Connection refused: check host and port, and whether the service is running.'],
  [
    /ETIMEDOUT|TimeoutError|no connection within|EHOSTUNREACH|ENETUNREACH/,
    'No answer: a firewall may block the connection. Proxy settings of the environment are not used.',
  ],
];

function hintNetwork(cause: unknown): string {
  const said = `${describeNetwork(cause)} ${String((cause as { code?: unknown } | undefined)?.code ?? '')}`;
  const near = NETWORK_HINTS.find(([pattern]) => pattern.test(said))?.[1];
  return near === undefined ? NETWORK_HINT : `${near} ${NETWORK_HINT}`;
}
