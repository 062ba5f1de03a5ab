/** Reports every answer after it was sent: one log line, and figures for the metrics. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Log } from '../../core/log.ts';
import type { ApiFailure } from './api-failure.ts';
import type { Endpoint, EndpointAnswer } from './endpoint.ts';

/** Facts about a request whose answer has been sent. */
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
  readonly answer: EndpointAnswer;
  readonly failure: ApiFailure | undefined;
}

export class AnswerLog {
  readonly #log: Log;
  readonly #onServed: ((served: Served) => void) | undefined;
  readonly #accounts = new WeakMap<FastifyRequest, Account>();

  constructor(log: Log, onServed?: (served: Served) => void) {
    this.#log = log;
    this.#onServed = onServed;
  }

  /** Remembers an answer before it is sent. */
  begin(request: FastifyRequest, endpoint: Endpoint, answer: EndpointAnswer, failure?: ApiFailure): void {
    this.#accounts.set(request, { endpoint, answer, failure });
  }

  /** Logs an answer after it was sent. */
  end(request: FastifyRequest, reply: FastifyReply): void {
    const account = this.#accounts.get(request);
    if (!account) return;
    const { endpoint, failure, answer } = account;
    const { body } = answer;
    const { rows, bytes } = body instanceof Uint8Array ? { rows: answer.rows ?? 0, bytes: body.length } : body;
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
