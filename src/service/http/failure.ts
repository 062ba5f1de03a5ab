/**
 * What went wrong with a request, in the API's terms. Invariant: the text of an `ApiFailure` is written here or built
 * from the caller's own words: the engine's messages can hold hidden rows and paths, and are never passed on.
 */
import { Fault } from '../../core/errors.ts';
import { EngineFault, PoolBusyFault } from '../../engine/fault.ts';
import { type Reason, TOO_BROAD_HINTS } from '../../wire/historical.ts';
import type { ApiErrorCode } from '../../wire/snapshot.ts';
import { REASON_CODES, TIMEOUT_CODES, TOO_BROAD_CODES } from '../sql/engine-codes.ts';

export interface FailureDetails {
  readonly reason?: Reason;
  readonly hints?: readonly string[];
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

export class ApiFailure extends Fault {
  override readonly name = 'ApiFailure';
  readonly status: number;
  readonly errorCode: ApiErrorCode;
  readonly details: FailureDetails;

  constructor(status: number, errorCode: ApiErrorCode, message: string, details: FailureDetails = {}) {
    super(errorCode, message, details.cause === undefined ? {} : { cause: details.cause });
    this.status = status;
    this.errorCode = errorCode;
    this.details = details;
  }
}

export function invalidRequest(message: string): ApiFailure {
  return new ApiFailure(400, 'INVALID_REQUEST', message);
}

/** The guardrails refuse the SQL. */
export function invalidSql(message: string): ApiFailure {
  return new ApiFailure(400, 'INVALID_SQL', message);
}

export function invalidQuery(reason: Reason, message: string, cause?: unknown): ApiFailure {
  return new ApiFailure(422, 'INVALID_QUERY', message, { reason, cause });
}

export function tooBroad(message: string, cause?: unknown): ApiFailure {
  return new ApiFailure(422, 'QUERY_TOO_BROAD', message, {
    reason: 'SCAN_LIMIT_EXCEEDED',
    hints: TOO_BROAD_HINTS,
    cause,
  });
}

export function queryTimeout(cause?: unknown): ApiFailure {
  return new ApiFailure(504, 'QUERY_TIMEOUT', 'The query took too long and was stopped.', { cause });
}

type AnalysisReason = keyof typeof REASON_CODES;

const MESSAGES: Readonly<Record<AnalysisReason, string>> = {
  UNKNOWN_IDENTIFIER: 'The query names a column or table that does not exist',
  UNKNOWN_FUNCTION: 'The query calls a function that does not exist',
  TYPE_MISMATCH: 'An expression has a type that does not fit',
  NUMERIC_OVERFLOW: 'A number is out of range',
  SYNTAX_ERROR: 'The SQL cannot be parsed',
  INVALID_AGGREGATION: 'A column is neither aggregated nor in GROUP BY, or aggregates are nested',
  INVALID_ARGUMENTS: 'A function has the wrong number or kind of arguments',
  INVALID_EXPRESSION: 'An expression is not valid here',
};

const ANALYSIS_REASONS = Object.keys(REASON_CODES) as AnalysisReason[]; // The type of `Object.keys` forgets them.

/**
 * The API's failure for a failure of the engine.
 * @param sql the caller's statement; a name from the engine's message is repeated only when it is in there
 */
export function toApiFailure(error: unknown, sql: string): ApiFailure {
  if (error instanceof ApiFailure) return error;
  if (error instanceof PoolBusyFault) return busy(error);
  if (!(error instanceof EngineFault)) return internalError(error);
  const has = (codes: Readonly<Record<string, number>>) => Object.values(codes).includes(error.clickhouseCode);
  if (has(TOO_BROAD_CODES)) return tooBroad('The query reads or holds more than the service allows.', error);
  if (has(TIMEOUT_CODES)) return queryTimeout(error);
  for (const reason of ANALYSIS_REASONS) {
    if (has(REASON_CODES[reason])) return invalidQuery(reason, describeReason(reason, error.message, sql), error);
  }
  return internalError(error);
}

/** When too many wait, a place may be free after this, seconds. */
export const BUSY_RETRY_SECONDS = 2;

function busy(cause: PoolBusyFault): ApiFailure {
  return new ApiFailure(429, 'RATE_LIMITED', 'Too many queries are waiting; try again in a moment.', {
    retryAfterSeconds: BUSY_RETRY_SECONDS,
    cause,
  });
}

export function internalError(cause: unknown): ApiFailure {
  return new ApiFailure(500, 'INTERNAL_ERROR', 'The service failed to answer; the same request may succeed later.', {
    cause,
  });
}

function describeReason(reason: AnalysisReason, message: string, sql: string): string {
  if (reason === 'SYNTAX_ERROR') {
    const position = /failed at position (\d+)/.exec(message)?.[1];
    return position ? `${MESSAGES.SYNTAX_ERROR}: see position ${position}.` : `${MESSAGES.SYNTAX_ERROR}.`;
  }
  if (reason === 'UNKNOWN_IDENTIFIER' || reason === 'UNKNOWN_FUNCTION') {
    const name = /(?:identifier|function|column)(?: with name)?:? [`'"]?([\w.]+)/i.exec(message)?.[1];
    if (name && sql.includes(name)) return `${MESSAGES[reason]}: ${name}.`;
  }
  return `${MESSAGES[reason]}.`;
}
