/** What is told of every answer once it has been sent: one line in the log, and the figures for the metrics. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Log } from '../../core/log.ts';
import type { ApiFailure } from './api-failure.ts';
import type { Endpoint, EndpointAnswer } from './endpoint.ts';

/** What is known of a request when its answer has been sent. */
export interface Served {
  readonly endpoint: string;
  readonly status: number;
  readonly errorCode: string | undefined;
  readonly seconds: number;
  readonly rows: number;
  /** Bytes of the body before compression. */
  readonly bytes: number;
}

interface Account {
  readonly endpoint: Endpoint;
  readonly failure: ApiFailure | undefined;
  readonly rows: (() => number) | undefined;
  bytes: number;
}

export class AnswerLog {
  readonly #log: Log;
  readonly #onServed: ((served: Served) => void) | undefined;
  readonly #accounts = new WeakMap<FastifyRequest, Account>();

  constructor(log: Log, onServed?: (served: Served) => void) {
    this.#log = log;
    this.#onServed = onServed;
  }

  /** Notes an answer that is about to be sent. @returns its body, counted while it is read */
  begin(
    request: FastifyRequest,
    endpoint: Endpoint,
    answer: EndpointAnswer,
    failure?: ApiFailure,
  ): EndpointAnswer['body'] {
    const account: Account = { endpoint, failure, rows: answer.rows, bytes: 0 };
    this.#accounts.set(request, account);
    if (!(answer.body instanceof Uint8Array)) return countBytes(answer.body, account);
    account.bytes = answer.body.length;
    return answer.body;
  }

  /** Tells of an answer that has been sent. */
  end(request: FastifyRequest, reply: FastifyReply): void {
    const account = this.#accounts.get(request);
    if (!account) return;
    const { endpoint, failure, bytes } = account;
    const rows = account.rows?.() ?? 0;
    const errorCode = failure?.errorCode;
    this.#log.info({
      event: 'request',
      requestId: request.id,
      endpoint: endpoint.name,
      method: request.method,
      status: reply.statusCode,
      ...(failure ? { errorCode, reason: failure.details.reason } : {}),
      rows,
      bytes,
      durationMs: Math.round(reply.elapsedTime),
      ...(this.#log.isLevelEnabled('debug') ? { sql: (request.body as { sql?: unknown } | undefined)?.sql } : {}),
    });
    const seconds = reply.elapsedTime / 1_000;
    this.#onServed?.({ endpoint: endpoint.name, status: reply.statusCode, errorCode, seconds, rows, bytes });
  }
}

async function* countBytes(body: AsyncIterable<Uint8Array>, account: Account): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    account.bytes += piece.length;
    yield piece;
  }
}
