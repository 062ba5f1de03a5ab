/**
 * Client of the historical SQL API, both entry points. Invariant: every request passes the pacer; an answer is either a
 * whole page or leads to what `failure.ts` says, with bounded, jittered retries. The key travels only in the body.
 */
import type { Clock } from '../core/clock.ts';
import { assertNotAborted, describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { createRedactor } from '../core/redact.ts';
import { metaSchema } from '../wire/historical.ts';
import { readEnvelope } from './envelope.ts';
import { judgeFailure, judgeMalformed, judgeNetwork, parseRetryAfter, type Verdict } from './failure.ts';
import { MAX_RETRY_AFTER_MS, type Pacer } from './pacer.ts';
import type { AskOptions, Page, Source, SourceStats } from './source.ts';

export interface HistoricalOptions {
  /** Full address of the entry point, path included. */
  readonly url: string;
  readonly apiKey: string;
  /** The portal sends no `meta`; the main entry point must. */
  readonly expectsMeta: boolean;
  /** The server's clock minus ours, as of an earlier run; the first answer corrects it. */
  readonly clockOffsetMs: number;
  /** Longest answer that is read, after decompression; a longer one is no page. Default: 1 GiB. */
  readonly maxAnswerBytes?: number;
}

/** Tries of one query in all, the first included. */
const MAX_TRIES = 5;
/** First back-off; doubles with each try, capped, and jittered downwards so that it never exceeds the cap. */
const BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
/** A 10,000-row answer takes seconds; the server's own time-out is shorter than this. */
const REQUEST_TIMEOUT_MS = 120_000;
/** A million rows have about 700 MB. An answer without end would otherwise fill the memory until the time-out. */
const MAX_ANSWER_BYTES = 1024 ** 3;

export interface HistoricalDeps {
  readonly clock: Clock;
  readonly pacer: Pacer;
  readonly log: Log;
}

export function createHistoricalSource(options: HistoricalOptions, deps: HistoricalDeps): Source {
  const { clock, pacer, log } = deps;
  const stats: SourceStats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0 };
  let serverOffsetMs = options.clockOffsetMs;
  const redact = createRedactor([options.apiKey]);
  /** Some servers echo the request in their errors; the head of an answer goes into messages. */
  const maskKey = (body: Uint8Array) => Buffer.from(redact(Buffer.from(body).toString('utf8')));

  const post = async (sql: string, ask: AskOptions): Promise<Page | Verdict> => {
    stats.requests += 1;
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const signal = ask.signal ? AbortSignal.any([ask.signal, timeout]) : timeout;
    let status: number | undefined;
    let answeredOffsetMs = serverOffsetMs;
    let retryAfter: string | null;
    let body: Uint8Array;
    try {
      const response = await fetch(options.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify({ api_key: options.apiKey, sql, ...(ask.testMode ? { test_mode: true } : {}) }),
        signal,
        // A redirect would carry the key to wherever it points.
        redirect: 'manual',
      });
      status = response.status;
      retryAfter = response.headers.get('retry-after');
      const date = Date.parse(response.headers.get('date') ?? '');
      // The header has whole seconds: half a second is its expected error.
      if (!Number.isNaN(date)) answeredOffsetMs = date + 500 - clock.now();
      body = await readBody(response, options.maxAnswerBytes ?? MAX_ANSWER_BYTES);
    } catch (cause) {
      assertNotAborted(ask.signal);
      if (cause instanceof RangeError) return judgeMalformed(Buffer.alloc(0), cause);
      return judgeNetwork(options.url, cause, status !== undefined);
    }
    stats.bytes += body.byteLength;
    if (status < 200 || status > 299) {
      const retryAfterMs = parseRetryAfter(retryAfter, clock.now() + answeredOffsetMs);
      return judgeFailure(status, maskKey(body), retryAfterMs, sql);
    }
    try {
      const page = readPage(body, options.expectsMeta);
      // Only a page is surely the API's: a gateway in between has a clock of its own.
      serverOffsetMs = answeredOffsetMs;
      return page;
    } catch (cause) {
      return judgeMalformed(maskKey(body), new SyntaxError(redact(describeError(cause))));
    }
  };

  const ask = async (sql: string, askOptions: AskOptions = {}): Promise<Page> => {
    for (let attempt = 1; ; attempt += 1) {
      await pacer.acquire(askOptions.signal).catch((cause: unknown) => {
        assertNotAborted(askOptions.signal);
        throw cause;
      });
      const started = clock.now();
      const outcome = await post(sql, askOptions);
      if ('data' in outcome) {
        log.debug({ event: 'answer', rows: outcome.rows, ms: Math.round(clock.now() - started), sql });
        return outcome;
      }
      const { fault } = outcome;
      const triesLeft = outcome.kind === 'retry' ? attempt < MAX_TRIES : outcome.kind === 'once' && attempt === 1;
      if (!triesLeft) throw fault;
      stats.retries += 1;
      log.warn({ event: 'retry', attempt, code: fault.code, reason: fault.message });
      await waitBeforeRetry(outcome, attempt, askOptions.signal);
    }
  };

  const waitBeforeRetry = async (verdict: Verdict, attempt: number, signal?: AbortSignal) => {
    const backoffMs = Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
    if (verdict.kind === 'retry' && verdict.rateLimited) {
      stats.rateLimited += 1;
      pacer.slowDown(verdict.retryAfterMs ?? backoffMs);
      return;
    }
    const askedMs = verdict.kind === 'retry' ? Math.min(verdict.retryAfterMs ?? 0, MAX_RETRY_AFTER_MS) : 0;
    await clock.sleep(Math.max(backoffMs, askedMs), signal).catch((cause: unknown) => {
      assertNotAborted(signal);
      throw cause;
    });
  };

  return {
    url: options.url,
    stats,
    ask,
    serverNow: () => clock.now() + serverOffsetMs,
    intervalMs: () => pacer.intervalMs(),
  };
}

/** @throws RangeError when the body is longer than allowed, anything else when the connection breaks */
async function readBody(response: Response, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of response.body ?? []) {
    sizeBytes += chunk.byteLength;
    // Leaving the loop cancels the rest.
    if (sizeBytes > maxBytes) throw new RangeError(`it has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, sizeBytes);
}

/** @throws SyntaxError or ZodError when the body is not a page */
function readPage(body: Uint8Array, expectsMeta: boolean): Page {
  const { data, rows, firstRow, members } = readEnvelope(body);
  if (members['status'] !== 'SUCCESS')
    throw new SyntaxError(`"status" is ${JSON.stringify(members['status'])}, not "SUCCESS"`);
  // What the portal may send as `meta` is not specified: it is used when it is one, and never required.
  const meta = expectsMeta ? metaSchema.parse(members['meta']) : metaSchema.safeParse(members['meta']).data;
  return { data, rows, firstRow, meta };
}
