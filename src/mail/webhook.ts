/**
 * Posts alerts and events to a chat tool or a program: one JSON document per POST, signed if a secret is set. Invariant: a 2xx
 * answer means that it was accepted; redirects are not followed, because they could send the document anywhere;
 * attempts are bounded. The address itself is a secret (anyone who knows it can post), so it is never shown.
 *
 * The receiver computes the HMAC-SHA256 of `<X-Flowdrop-Timestamp>.<body>` with the secret, in hexadecimal, compares it
 * with `X-Flowdrop-Signature: sha256=...` in constant time, and refuses timestamps that are minutes old.
 */
import { createHmac } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Clock } from '../core/clock.ts';
import { assertNotAborted, describeError, Fault } from '../core/errors.ts';
import { sendRequest } from '../core/http.ts';
import { createRedactor } from '../core/redact.ts';

/** What is posted. */
export type WebhookUse = 'alert' | 'event';

/** Media type, and what the names of its settings begin with. */
const USES = {
  alert: { type: 'application/json; charset=utf-8', setting: 'FLOWDROP_ALERT_WEBHOOK' },
  // CloudEvents 1.0, HTTP binding, structured mode.
  event: { type: 'application/cloudevents+json; charset=utf-8', setting: 'FLOWDROP_EVENTS' },
} as const satisfies Readonly<Record<WebhookUse, { readonly type: string; readonly setting: string }>>;

interface WebhookOptions {
  readonly use: WebhookUse;
  /** `http://` or `https://` address. */
  readonly url: string;
  /** Signs each document; absent: no signature header. */
  readonly secret?: string | undefined;
  /**
   * Timeout of one attempt, in ms; default 10,000. A longer one would let a slow chat tool delay the end of every run.
   */
  readonly timeoutMs?: number;
}

export interface Webhook {
  /** Scheme, host and port, for people. */
  readonly url: string;
  /**
   * Not idempotent; the `Idempotency-Key` header has the document's `id`, so that a receiver can drop a repetition.
   * @throws Fault `WEBHOOK_FAILED` if it was not accepted, `WEBHOOK_REFUSED` if the receiver does not want this document
   */
  post(document: { readonly id: string }, signal?: AbortSignal): Promise<void>;
}

const DEFAULT_TIMEOUT_MS = 10_000;
/** Attempts in total, including the first; after a longer outage, the next run sends the alert. */
const MAX_TRIES = 4;
/** First back-off; doubles with each attempt, jittered downwards so that it never exceeds the cap. */
const BACKOFF_MS = 1000;
const MAX_WAIT_MS = 30_000;
/** Bytes of an answer that an error shows. */
const BODY_HEAD_BYTES = 200;

const RETRIED_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);

/** Opens no connection before the first post. */
export function createWebhook(options: WebhookOptions, clock: Clock): Webhook {
  const { use, secret = '' } = options;
  const { origin, pathname, search } = new URL(options.url);
  const redact = createRedactor([options.url, `${pathname}${search}`, secret]);
  return {
    url: origin,
    async post(document, signal) {
      const body = JSON.stringify(document);
      for (let attempt = 1; ; attempt += 1) {
        assertNotAborted(signal);
        const refusal = await attemptPost(options, document.id, body, clock, signal);
        if (refusal === undefined) return;
        const { text, hint, isWorthRetry, waitMs } = refusal;
        if (!isWorthRetry || attempt === MAX_TRIES) {
          const tries = attempt === 1 ? '' : ` (${attempt} tries)`;
          throw new Fault(
            isWorthRetry ? 'WEBHOOK_FAILED' : 'WEBHOOK_REFUSED',
            redact(`webhook: ${origin} did not accept the ${use}${tries}: ${text}`),
            { hint },
          );
        }
        const backoffMs = BACKOFF_MS * 2 ** (attempt - 1) * (0.5 + Math.random() / 2);
        await clock.sleep(Math.min(waitMs ?? backoffMs, MAX_WAIT_MS), signal);
      }
    },
  };
}

/** @returns `undefined` if it was accepted */
async function attemptPost(
  { use, url, secret, timeoutMs = DEFAULT_TIMEOUT_MS }: WebhookOptions,
  id: string,
  body: string,
  clock: Clock,
  signal: AbortSignal | undefined,
) {
  const timeout = AbortSignal.timeout(timeoutMs);
  const timestamp = String(Math.floor(clock.now() / 1000));
  try {
    const answer = await sendRequest(url, {
      method: 'POST',
      headers: {
        'content-type': USES[use].type,
        'user-agent': 'flowdrop',
        'idempotency-key': id,
        connection: 'close',
        'x-flowdrop-timestamp': timestamp,
        ...(secret ? { 'x-flowdrop-signature': `sha256=${signWebhook(secret, timestamp, body)}` } : {}),
      },
      body,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const { status, headers } = answer;
    if (status < 200 || status >= 300) return judge(use, status, headers['retry-after'], await readHead(answer.body));
    answer.body.destroy();
    return undefined;
  } catch (error) {
    assertNotAborted(signal);
    const text = timeout.aborted ? 'no answer in time' : describeError(error);
    return {
      text,
      hint: `Check that ${USES[use].setting}_URL is reachable from here.`,
      isWorthRetry: true,
      waitMs: undefined,
    };
  }
}

/** Hexadecimal HMAC-SHA256 of `<timestamp>.<body>`. */
export function signWebhook(secret: string, timestamp: string, body: string): string {
  return createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex');
}

function judge(use: WebhookUse, status: number, retryAfter: string | undefined, head: string) {
  const text = `HTTP ${status}${head === '' ? '' : `: ${head}`}`;
  if (status >= 500 || RETRIED_STATUSES.has(status)) {
    const waitMs = /^\d+$/.test(retryAfter ?? '') ? Number(retryAfter) * 1000 : undefined;
    return { text, hint: `It may accept the ${use} later: the next run sends it again.`, isWorthRetry: true, waitMs };
  }
  const { setting } = USES[use];
  const hint =
    status >= 300 && status < 400
      ? `Redirects are not followed: set ${setting}_URL to the final address.`
      : `Check ${setting}_URL and ${setting}_SECRET; the next run sends the ${use} again.`;
  return { text, hint, isWorthRetry: false, waitMs: undefined };
}

/** The beginning of the answer's body, quoted; of a broken or endless answer, what arrived. */
async function readHead(body: Readable): Promise<string> {
  let head = Buffer.alloc(0);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      head = Buffer.concat([head, chunk]);
      // Leaving the loop closes the connection.
      if (head.length >= BODY_HEAD_BYTES) break;
    }
  } catch {
    // The status decides; the body only helps a person.
  }
  const text = head.subarray(0, BODY_HEAD_BYTES).toString('utf8').trim();
  return text === '' ? '' : JSON.stringify(text);
}
