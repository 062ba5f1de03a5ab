/**
 * Sends requests to the options data API, for all endpoints. Invariant: every request passes the pacer. An answer is
 * either read whole or judged as a failure, with bounded, jittered retries. Only read answers set the server clock. What
 * a status means is in `source-failure.ts`, how a 429 slows the pace in `pacer.ts`.
 */
import type { Readable } from 'node:stream';
import type { Clock } from '../core/clock.ts';
import { assertNotAborted, describeError } from '../core/errors.ts';
import { isUndecodable, sendRequest } from '../core/http.ts';
import type { Log } from '../core/log.ts';
import { readMemoryBytes } from '../core/machine.ts';
import { createRedactor } from '../core/redact.ts';
import { formatBytes, formatDuration } from '../core/units.ts';
import { MAX_RETRY_AFTER_MS, type Pacer } from './pacer.ts';
import { createServerClock, readTime, type TimeOffer } from './server-clock.ts';
import type { AskOptions, Source, SourceStats } from './source.ts';
import { type AnswerVerdict, judgeMalformed, judgeNetwork, parseRetryAfter } from './source-failure.ts';

/** Maximum tries of one request, including the first. */
const MAX_TRIES = 5;
/** First back-off; doubles with each try, capped, and jittered downwards so that it never exceeds the cap. */
const BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
/** A longer wait that the API asks for is logged. */
const TOLD_WAIT_MS = 5_000;
/** A 10,000-row answer takes seconds; the server's own timeout is shorter than this. */
const REQUEST_TIMEOUT_MS = 120_000;
/**
 * Seven times the largest page that is requested (`MAX_PAGE_ROWS` of the contract's rows have 36 MB), and half the
 * longest string that the runtime can hold. Longer answers are rejected: several in flight would fill the memory.
 */
const MAX_ANSWER_BYTES = 256_000_000;
/** Four answers are in flight, and each is in memory twice while its chunks are joined. */
const MEMORY_PARTS = 8;
/** Bytes kept of an answer that failed or is malformed: its code and its first words are enough. */
const MAX_FAILURE_BYTES = 64 * 1024;

/** Weight of the newest answer in the moving average of answer times. */
const ANSWER_WEIGHT = 0.2;

export interface RequesterOptions {
  /** Full address of the entry point, path included; for people, too. */
  readonly url: string;
  /** Masked in every message, because some servers echo the request in their errors. */
  readonly apiKey: string;
  /** The server's clock minus ours, from an earlier run; the first answer corrects it. */
  readonly clockOffsetMs: number;
  /**
   * Longest answer that is read, after decompression; a longer one is a failure. Default: `MAX_ANSWER_BYTES`, less on a
   * machine with little memory.
   */
  readonly maxAnswerBytes?: number | undefined;
}

/** What all clients share. */
export interface Surroundings {
  readonly clock: Clock;
  readonly pacer: Pacer;
  readonly log: Log;
}

/** One request, and how to read its answers. */
export interface SourceCall<Answer> extends Pick<AskOptions, 'signal'> {
  /** Default: the entry point's. */
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON by POST; without it, the request is a GET. */
  readonly body?: object;
  /** Description of the request, for the log. */
  readonly about: Readonly<Record<string, string>>;
  /**
   * Reads an answer; returns `undefined` for a failure, which then goes to `judge`. @throws anything if it is malformed
   */
  read(status: number, body: Uint8Array): Answer | undefined;
  judge(status: number, body: Uint8Array, retryAfterMs: number | undefined): AnswerVerdict;
}

export function createRequester(options: RequesterOptions, { clock, pacer, log }: Surroundings) {
  const { apiKey, maxAnswerBytes = Math.min(MAX_ANSWER_BYTES, readMemoryBytes() / MEMORY_PARTS) } = options;
  const stats: SourceStats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 };
  const serverClock = createServerClock(clock, options.clockOffsetMs);
  const redact = createRedactor([apiKey]);
  /** The head of an answer appears in messages. */
  const maskKey = (body: Uint8Array) =>
    Buffer.from(redact(Buffer.from(body.subarray(0, MAX_FAILURE_BYTES)).toString('utf8')));

  /** One try. @returns the answer, or what its failure means */
  const exchange = async <Answer extends object>(call: SourceCall<Answer>): Promise<Answer | AnswerVerdict> => {
    const { url = options.url, body: sent } = call;
    stats.requests += 1;
    const startedAtMs = clock.now();
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout;
    const typed = sent === undefined ? {} : { 'content-type': 'application/json' };
    let status: number | undefined;
    let time: TimeOffer | undefined;
    let retryAfter: string | undefined;
    let body: Uint8Array;
    try {
      // A redirect is not followed: it would send the key to another address.
      const response = await sendRequest(url, {
        method: sent === undefined ? 'GET' : 'POST',
        headers: { accept: 'application/json', ...typed, ...call.headers },
        body: sent && JSON.stringify(sent),
        signal,
      });
      status = response.status;
      retryAfter = response.headers['retry-after'];
      time = readTime(clock, response.headers.date, response.headers.age);
      const isSuccess = status >= 200 && status <= 299;
      body = await readBody(response.body, isSuccess ? maxAnswerBytes : MAX_FAILURE_BYTES, isSuccess);
    } catch (cause) {
      assertNotAborted(call.signal);
      if (cause instanceof TooLong) return judgeMalformed(maskKey(cause.head), cause);
      if (isUndecodable(cause)) return judgeMalformed(Buffer.alloc(0), cause);
      return judgeNetwork(url, cause, status !== undefined);
    }
    stats.bytes += body.byteLength;
    const tookMs = clock.now() - startedAtMs;
    stats.answerMs = stats.answerMs === 0 ? tookMs : stats.answerMs + (tookMs - stats.answerMs) * ANSWER_WEIGHT;
    try {
      const answer = call.read(status, body);
      if (answer !== undefined) {
        // Only an answer that could be read surely comes from the API: a gateway has its own clock.
        serverClock.note(time);
        return answer;
      }
    } catch (cause) {
      return judgeMalformed(maskKey(body), new SyntaxError(redact(describeError(cause))));
    }
    const retryAfterMs = parseRetryAfter(retryAfter ?? null, time?.serverMs ?? serverClock.now());
    return call.judge(status, maskKey(body), retryAfterMs);
  };

  /** Sends at the pace, with retries. @throws SourceFault */
  const send = async <Answer extends { readonly rows: number }>(call: SourceCall<Answer>): Promise<Answer> => {
    const { signal, about } = call;
    for (let attempt = 1; ; attempt += 1) {
      await orInterrupted(signal, pacer.acquire(signal));
      const started = clock.now();
      const answer = await exchange(call);
      if (!('fault' in answer)) {
        const durationMs = Math.round(clock.now() - started);
        log.debug({ event: 'answer', rows: answer.rows, durationMs, ...about }, 'answered');
        return answer;
      }
      const { kind, fault, rateLimited } = answer;
      const { code, message: reason } = fault;
      const triesLeft = kind === 'retry' ? attempt < MAX_TRIES : kind === 'once' && attempt === 1;
      if (!triesLeft) {
        log.debug({ event: 'answer-refused', code, ...about }, 'the request failed');
        throw fault;
      }
      stats.retries += 1;
      const { ms: waitMs, about: wait } = planWait(answer, attempt);
      log.warn(
        { event: 'retry', attempt, code, reason, waitMs },
        `retry after try ${attempt} of ${MAX_TRIES}${wait}: ${reason}`,
      );
      if (rateLimited) {
        stats.rateLimited += 1;
        await pacer.slowDown(waitMs, started);
      } else await orInterrupted(signal, clock.sleep(waitMs, signal));
    }
  };

  const { now: serverNow, isTold: tellsTime } = serverClock;
  const about: Pick<Source, 'url' | 'stats' | 'serverNow' | 'tellsTime' | 'intervalMs'> = {
    url: options.url,
    stats,
    serverNow,
    tellsTime,
    intervalMs: () => pacer.intervalMs(),
  };
  return { ...about, send };
}

/** @throws Fault of kind `interrupted` if the signal ended it */
async function orInterrupted(signal: AbortSignal | undefined, waiting: Promise<void>): Promise<void> {
  await waiting.catch((cause: unknown) => {
    assertNotAborted(signal);
    throw cause;
  });
}

/** How long to wait before the next try; `about` says so in words where a person would wonder. */
function planWait(
  { retryAfterMs, rateLimited }: AnswerVerdict,
  attempt: number,
): { readonly ms: number; readonly about: string } {
  const backoffMs = Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
  const askedMs = Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
  const ms = rateLimited && retryAfterMs !== undefined ? askedMs : Math.max(backoffMs, askedMs);
  if (retryAfterMs === undefined || retryAfterMs < TOLD_WAIT_MS) return { ms, about: '' };
  const asked =
    retryAfterMs > ms ? `, not the ${formatDuration(retryAfterMs)} that the API asks for` : ', as the API asks';
  return { ms, about: `, in ${formatDuration(ms)}${asked}` };
}

/** An answer longer than the limit. */
class TooLong extends RangeError {
  readonly head: Uint8Array;

  constructor(maxBytes: number, head: Uint8Array) {
    super(`it has more than ${formatBytes(maxBytes)}`);
    this.head = head;
  }
}

/**
 * Reads at most `maxBytes`, and does not wait for more.
 * @param isWhole whether all of the body is wanted @throws TooLong if it is longer then, anything else if the connection breaks
 */
async function readBody(body: Readable, maxBytes: number, isWhole: boolean): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    sizeBytes += chunk.byteLength;
    // Leaving the loop closes the connection.
    if (isWhole && sizeBytes > maxBytes) throw new TooLong(maxBytes, chunks[0] ?? chunk);
    chunks.push(chunk);
    if (!isWhole && sizeBytes >= maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}
