/**
 * Sending requests to the options data API, whatever the endpoint. Invariant: every request passes the pacer; an answer is
 * either read whole or judged, with bounded, jittered retries; the API's clock is taken from answers that were read.
 */
import type { Readable } from 'node:stream';
import type { Clock } from '../core/clock.ts';
import { assertNotAborted, describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { readMemoryBytes } from '../core/machine.ts';
import { createRedactor } from '../core/redact.ts';
import { formatBytes } from '../core/units.ts';
import { isUndecodable, sendRequest } from './http.ts';
import { MAX_RETRY_AFTER_MS, type Pacer } from './pacer.ts';
import { createServerClock, readTime, type TimeOffer } from './server-clock.ts';
import type { SourceStats } from './source.ts';
import { type AnswerVerdict, judgeMalformed, judgeNetwork, parseRetryAfter } from './source-failure.ts';

/** Tries of one request in all, the first included. */
const MAX_TRIES = 5;
/** First back-off; doubles with each try, capped, and jittered downwards so that it never exceeds the cap. */
const BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
/** A 10,000-row answer takes seconds; the server's own time-out is shorter than this. */
const REQUEST_TIMEOUT_MS = 120_000;
/**
 * Seven times the largest page that is asked for (`MAX_PAGE_ROWS` of the contract's rows have 36 MB), and half of what the
 * runtime can hold as one text. A longer answer is none: it would fill the memory, with several of them in flight.
 */
export const MAX_ANSWER_BYTES = 256_000_000;
/** Four answers are in flight, and while one is put together it is in memory twice. */
const MEMORY_PARTS = 8;
/** Of an answer that is not a success, or not in shape, more is of no use: its code and its first words decide. */
const MAX_FAILURE_BYTES = 64 * 1024;

/** Weight of the newest answer in the mean of their times. */
const ANSWER_WEIGHT = 0.2;

export interface RequesterOptions {
  /** Masked in every message, because some servers echo the request in their errors. */
  readonly apiKey: string;
  /** The server's clock minus ours, as of an earlier run; the first answer corrects it. */
  readonly clockOffsetMs: number;
  /** Longest answer that is read, after decompression; a longer one is no answer. Default: `MAX_ANSWER_BYTES`, less in little memory. */
  readonly maxAnswerBytes?: number | undefined;
}

export interface RequesterDeps {
  readonly clock: Clock;
  readonly pacer: Pacer;
  readonly log: Log;
}

/** One request, and what its answers mean. */
export interface SourceCall<Answer> {
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
  judge(status: number, body: Uint8Array, retryAfterMs: number | undefined): AnswerVerdict;
}

export interface Requester {
  readonly stats: Readonly<SourceStats>;
  /** Sends at the pace, with retries. @throws SourceFault */
  send<Answer extends { readonly rows: number }>(call: SourceCall<Answer>): Promise<Answer>;
  /** The server's clock, as `server-clock.ts` has it from the `Date` headers. */
  serverNow(): number;
  /** Whether an answer has told the server's time. */
  tellsTime(): boolean;
  /** Milliseconds between two request starts at present. */
  intervalMs(): number;
}

type Outcome<Answer> =
  | { readonly kind: 'answer'; readonly answer: Answer }
  | { readonly kind: 'failure'; readonly verdict: AnswerVerdict };

export function createRequester(options: RequesterOptions, deps: RequesterDeps): Requester {
  const { clock, pacer, log } = deps;
  const stats: SourceStats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 };
  const serverClock = createServerClock(clock, options.clockOffsetMs);
  const { maxAnswerBytes = Math.min(MAX_ANSWER_BYTES, readMemoryBytes() / MEMORY_PARTS) } = options;
  const redact = createRedactor([options.apiKey]);
  /** The head of an answer goes into messages. */
  const maskKey = (body: Uint8Array) =>
    Buffer.from(redact(Buffer.from(body.subarray(0, MAX_FAILURE_BYTES)).toString('utf8')));

  const exchange = async <Answer>(call: SourceCall<Answer>): Promise<Outcome<Answer>> => {
    stats.requests += 1;
    const startedAtMs = clock.now();
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout;
    let status: number | undefined;
    let time: TimeOffer | undefined;
    let retryAfter: string | undefined;
    let body: Uint8Array;
    try {
      // A redirect is not followed: it would carry the key to wherever it points.
      const { method, headers } = call;
      const response = await sendRequest(call.url, { method, headers: { ...headers }, body: call.body, signal });
      status = response.status;
      retryAfter = response.headers['retry-after'];
      time = readTime(clock, response.headers.date, response.headers.age);
      const isSuccess = status >= 200 && status <= 299;
      body = isSuccess
        ? await readBody(response.body, maxAnswerBytes)
        : await readHead(response.body, MAX_FAILURE_BYTES);
    } catch (cause) {
      assertNotAborted(call.signal);
      if (cause instanceof TooLong) return failed(judgeMalformed(maskKey(cause.head), cause));
      if (isUndecodable(cause)) return failed(judgeMalformed(Buffer.alloc(0), cause));
      return failed(judgeNetwork(call.url, cause, status !== undefined));
    }
    stats.bytes += body.byteLength;
    const tookMs = clock.now() - startedAtMs;
    stats.answerMs = stats.answerMs === 0 ? tookMs : stats.answerMs + (tookMs - stats.answerMs) * ANSWER_WEIGHT;
    try {
      const answer = call.read(status, body);
      if (answer !== undefined) {
        // Only what was read is surely the API's: a gateway in between has a clock of its own.
        serverClock.note(time);
        return { kind: 'answer', answer };
      }
    } catch (cause) {
      return failed(judgeMalformed(maskKey(body), new SyntaxError(redact(describeError(cause)))));
    }
    const retryAfterMs = parseRetryAfter(retryAfter ?? null, time?.serverMs ?? serverClock.now());
    return failed(call.judge(status, maskKey(body), retryAfterMs));
  };

  const send = async <Answer extends { readonly rows: number }>(call: SourceCall<Answer>): Promise<Answer> => {
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

  const waitBeforeRetry = async (
    verdict: AnswerVerdict,
    attempt: number,
    startedAtMs: number,
    signal?: AbortSignal,
  ) => {
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

  const { now: serverNow, isTold: tellsTime } = serverClock;
  return { stats, send, serverNow, tellsTime, intervalMs: () => pacer.intervalMs() };
}

function failed(verdict: AnswerVerdict): { readonly kind: 'failure'; readonly verdict: AnswerVerdict } {
  return { kind: 'failure', verdict };
}

/** An answer that is longer than any that was asked for. */
class TooLong extends RangeError {
  readonly head: Uint8Array;

  constructor(maxBytes: number, head: Uint8Array) {
    super(`it has more than ${formatBytes(maxBytes)}`);
    this.head = head;
  }
}

/** @throws TooLong when the body is longer than allowed, anything else when the connection breaks */
async function readBody(body: Readable, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    sizeBytes += chunk.byteLength;
    // Leaving the loop closes the connection.
    if (sizeBytes > maxBytes) throw new TooLong(maxBytes, chunks[0] ?? chunk);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, sizeBytes);
}

/** What comes after `maxBytes` is not waited for. */
async function readHead(body: Readable, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    sizeBytes += chunk.byteLength;
    chunks.push(chunk);
    if (sizeBytes >= maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}
