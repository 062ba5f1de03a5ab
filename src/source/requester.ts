/**
 * Sending requests to the options data API, whatever the endpoint. Invariant: every request passes the pacer; an answer is
 * either read whole or judged, with bounded, jittered retries; the API's clock is taken from answers that were read.
 */
import type { Clock } from '../core/clock.ts';
import { assertNotAborted, describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { createRedactor } from '../core/redact.ts';
import { judgeMalformed, judgeNetwork, parseRetryAfter, type Verdict } from './failure.ts';
import { isUndecodable, sendRequest } from './http.ts';
import { MAX_RETRY_AFTER_MS, type Pacer } from './pacer.ts';
import type { SourceStats } from './source.ts';

/** Tries of one request in all, the first included. */
const MAX_TRIES = 5;
/** First back-off; doubles with each try, capped, and jittered downwards so that it never exceeds the cap. */
const BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
/** A 10,000-row answer takes seconds; the server's own time-out is shorter than this. */
const REQUEST_TIMEOUT_MS = 120_000;
/** A million rows have about 700 MB. An answer without end would otherwise fill the memory until the time-out. */
const MAX_ANSWER_BYTES = 1024 ** 3;

/** Weight of the newest answer in the mean of their times. */
const ANSWER_WEIGHT = 0.2;

export interface RequesterOptions {
  /** Masked in every message, because some servers echo the request in their errors. */
  readonly apiKey: string;
  /** The server's clock minus ours, as of an earlier run; the first answer corrects it. */
  readonly clockOffsetMs: number;
  /** Longest answer that is read, after decompression; a longer one is no answer. Default: 1 GiB. */
  readonly maxAnswerBytes?: number;
}

export interface RequesterDeps {
  readonly clock: Clock;
  readonly pacer: Pacer;
  readonly log: Log;
}

/** One request, and what its answers mean. */
export interface Call<Answer> {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal | undefined;
  /** Whether it goes before what can wait, where processes share the budget. */
  readonly urgent?: boolean | undefined;
  /** What is asked for, for the log. */
  readonly about: Readonly<Record<string, string>>;
  /** Reads an answer; `undefined` when it is a failure, which `judge` is then asked about. @throws anything when it is malformed */
  read(status: number, body: Uint8Array): Answer | undefined;
  judge(status: number, body: Uint8Array, retryAfterMs: number | undefined): Verdict;
}

export interface Requester {
  readonly stats: Readonly<SourceStats>;
  /** Sends at the pace, with retries. @throws SourceFault */
  send<Answer extends { readonly rows: number }>(call: Call<Answer>): Promise<Answer>;
  /** The server's clock: its last `Date` header, run on by this machine's clock. */
  serverNow(): number;
  /** Milliseconds between two request starts at present. */
  intervalMs(): number;
}

type Outcome<Answer> =
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'failure'; readonly verdict: Verdict };

export function createRequester(options: RequesterOptions, deps: RequesterDeps): Requester {
  const { clock, pacer, log } = deps;
  const stats: SourceStats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 };
  let serverOffsetMs = options.clockOffsetMs;
  const redact = createRedactor([options.apiKey]);
  /** The head of an answer goes into messages. */
  const maskKey = (body: Uint8Array) => Buffer.from(redact(Buffer.from(body).toString('utf8')));

  const exchange = async <Answer>(call: Call<Answer>): Promise<Outcome<Answer>> => {
    stats.requests += 1;
    const startedAtMs = clock.now();
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout;
    let status: number | undefined;
    let answeredOffsetMs = serverOffsetMs;
    let retryAfter: string | undefined;
    let body: Uint8Array;
    try {
      // A redirect is not followed: it would carry the key to wherever it points.
      const { method, headers } = call;
      const response = await sendRequest(call.url, { method, headers: { ...headers }, body: call.body, signal });
      status = response.status;
      retryAfter = response.headers['retry-after'];
      const date = Date.parse(response.headers.date ?? '');
      // The header has whole seconds: half a second is its expected error.
      if (!Number.isNaN(date)) answeredOffsetMs = date + 500 - clock.now();
      body = await readBody(response.body, options.maxAnswerBytes ?? MAX_ANSWER_BYTES);
    } catch (cause) {
      assertNotAborted(call.signal);
      if (cause instanceof RangeError || isUndecodable(cause)) return failed(judgeMalformed(Buffer.alloc(0), cause));
      return failed(judgeNetwork(call.url, cause, status !== undefined));
    }
    stats.bytes += body.byteLength;
    const tookMs = clock.now() - startedAtMs;
    stats.answerMs = stats.answerMs === 0 ? tookMs : stats.answerMs + (tookMs - stats.answerMs) * ANSWER_WEIGHT;
    try {
      const answer = call.read(status, body);
      if (answer !== undefined) {
        // Only what was read is surely the API's: a gateway in between has a clock of its own.
        serverOffsetMs = answeredOffsetMs;
        return { kind: 'answer', answer };
      }
    } catch (cause) {
      return failed(judgeMalformed(maskKey(body), new SyntaxError(redact(describeError(cause)))));
    }
    const retryAfterMs = parseRetryAfter(retryAfter ?? null, clock.now() + answeredOffsetMs);
    return failed(call.judge(status, maskKey(body), retryAfterMs));
  };

  const send = async <Answer extends { readonly rows: number }>(call: Call<Answer>): Promise<Answer> => {
    for (let attempt = 1; ; attempt += 1) {
      await pacer.acquire({ signal: call.signal, urgent: call.urgent }).catch((cause: unknown) => {
        assertNotAborted(call.signal);
        throw cause;
      });
      const started = clock.now();
      const outcome = await exchange(call);
      if (outcome.kind === 'answer') {
        const { answer } = outcome;
        log.debug(
          { event: 'answer', rows: answer.rows, durationMs: Math.round(clock.now() - started), ...call.about },
          'answered',
        );
        return answer;
      }
      const { verdict } = outcome;
      const triesLeft = verdict.kind === 'retry' ? attempt < MAX_TRIES : verdict.kind === 'once' && attempt === 1;
      if (!triesLeft) throw verdict.fault;
      stats.retries += 1;
      log.warn(
        { event: 'retry', attempt, code: verdict.fault.code, reason: verdict.fault.message },
        `tried again after try ${attempt} of ${MAX_TRIES}: ${verdict.fault.message}`,
      );
      await waitBeforeRetry(verdict, attempt, started, call.signal);
    }
  };

  const waitBeforeRetry = async (verdict: Verdict, attempt: number, startedAtMs: number, signal?: AbortSignal) => {
    const backoffMs = Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
    if (verdict.kind === 'retry' && verdict.rateLimited) {
      stats.rateLimited += 1;
      await pacer.slowDown(verdict.retryAfterMs ?? backoffMs, startedAtMs);
      return;
    }
    const askedMs = verdict.kind === 'retry' ? Math.min(verdict.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS) : 0;
    await clock.sleep(Math.max(backoffMs, askedMs), signal).catch((cause: unknown) => {
      assertNotAborted(signal);
      throw cause;
    });
  };

  return { stats, send, serverNow: () => clock.now() + serverOffsetMs, intervalMs: () => pacer.intervalMs() };
}

function failed(verdict: Verdict): { readonly kind: 'failure'; readonly verdict: Verdict } {
  return { kind: 'failure', verdict };
}

/** @throws RangeError when the body is longer than allowed, anything else when the connection breaks */
async function readBody(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.byteLength;
    // Leaving the loop closes the connection.
    if (sizeBytes > maxBytes) throw new RangeError(`it has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, sizeBytes);
}
