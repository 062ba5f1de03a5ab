/**
 * Failures of a request in the API's terms. Invariant: the text of an `ApiFailure` is written here or built from the
 * caller's own input. Engine messages may contain hidden rows and paths, and are never passed on.
 */

import { type Reason, TOO_BROAD_HINTS } from '../../api-contract/historical.ts';
import type { ApiErrorCode } from '../../api-contract/snapshot.ts';
import { Fault } from '../../core/errors.ts';
import { EngineFault, PoolBusyFault } from '../../engine/engine-fault.ts';
import { meaningOf, Refusal, toRefusal } from '../../guard/refusal.ts';

interface FailureDetails {
  readonly reason?: Reason | undefined;
  readonly hints?: string[] | undefined;
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
  /** Default: the specification's error body. */
  readonly body?: object;
}

export class ApiFailure extends Fault {
  override readonly name = 'ApiFailure';
  readonly status: number;
  readonly errorCode: ApiErrorCode;
  readonly details: FailureDetails;

  constructor(status: number, errorCode: ApiErrorCode, message: string, details: FailureDetails = {}) {
    super(errorCode, message, { cause: details.cause });
    this.status = status;
    this.errorCode = errorCode;
    this.details = details;
  }

  /** The specification's error body, with members in the specification's order. */
  get body(): object {
    const { reason, hints, body } = this.details;
    return body ?? { status: 'ERROR', errorCode: this.errorCode, reason, hints, errorMsg: this.message };
  }
}

export function invalidRequest(message: string): ApiFailure {
  return new ApiFailure(400, 'INVALID_REQUEST', message);
}

export function queryTimeout(cause?: unknown): ApiFailure {
  return new ApiFailure(504, 'QUERY_TIMEOUT', 'The query took too long and was stopped.', { cause });
}

/**
 * Maps an engine failure to a failure of the API.
 * @param sql the caller's statement; a name from the engine's message is repeated only if the statement contains it
 */
export function toApiFailure(error: unknown, sql: string): ApiFailure {
  if (error instanceof ApiFailure) return error;
  if (error instanceof PoolBusyFault) {
    return new ApiFailure(429, 'RATE_LIMITED', 'Too many queries are waiting; try again in a moment.', {
      retryAfterSeconds: BUSY_RETRY_SECONDS,
      cause: error,
    });
  }
  const refusal = toRefusal(error, sql);
  if (refusal instanceof Refusal) {
    const { code, message, reason, cause } = refusal;
    const hints = code === 'QUERY_TOO_BROAD' ? [...TOO_BROAD_HINTS] : undefined;
    return new ApiFailure(code === 'INVALID_SQL' ? 400 : 422, code, message, { reason, hints, cause });
  }
  if (error instanceof EngineFault && meaningOf(error) === 'TIMEOUT') return queryTimeout(error);
  return internalError(error);
}

/** Suggested wait when the queue is full, seconds. */
export const BUSY_RETRY_SECONDS = 2;

export function internalError(cause: unknown): ApiFailure {
  return new ApiFailure(500, 'INTERNAL_ERROR', 'The service failed to answer; the same request may succeed later.', {
    cause,
  });
}
