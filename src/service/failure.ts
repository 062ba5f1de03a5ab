/**
 * What went wrong with a request, in the API's terms. Invariant: the text of an `ApiFailure` is written here or built
 * from the caller's own words: the engine's messages can hold hidden rows and paths, and are never passed on.
 */
import { Fault } from '../core/errors.ts';
import { EngineFault } from '../engine/fault.ts';
import { type ErrorCode, type Reason, TOO_BROAD_HINTS } from '../wire/historical.ts';

export interface FailureDetails {
  readonly reason?: Reason;
  readonly hints?: readonly string[];
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

export class ApiFailure extends Fault {
  override readonly name = 'ApiFailure';
  readonly status: number;
  readonly errorCode: ErrorCode;
  readonly details: FailureDetails;

  constructor(status: number, errorCode: ErrorCode, message: string, details: FailureDetails = {}) {
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

/** ClickHouse's error numbers by what they mean to the caller; names as in `ErrorCodes.cpp`. */
const REASONS: Readonly<Record<Exclude<Reason, 'SCAN_LIMIT_EXCEEDED'>, readonly number[]>> = {
  // UNKNOWN_IDENTIFIER, NOT_FOUND_COLUMN_IN_BLOCK, NO_SUCH_COLUMN_IN_TABLE, THERE_IS_NO_COLUMN, UNKNOWN_TABLE, AMBIGUOUS_*
  UNKNOWN_IDENTIFIER: [47, 10, 16, 8, 60, 207, 352, 361],
  // UNKNOWN_FUNCTION, UNKNOWN_AGGREGATE_FUNCTION
  UNKNOWN_FUNCTION: [46, 63],
  // ILLEGAL_TYPE_OF_ARGUMENT, TYPE_MISMATCH, NO_COMMON_TYPE, CANNOT_CONVERT_TYPE, CANNOT_PARSE_*, ILLEGAL_COLUMN, UNKNOWN_TYPE
  TYPE_MISMATCH: [43, 53, 386, 70, 6, 27, 26, 38, 41, 72, 44, 50, 130, 457],
  // DECIMAL_OVERFLOW, ILLEGAL_DIVISION, ARGUMENT_OUT_OF_BOUND, VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
  NUMERIC_OVERFLOW: [407, 153, 69, 321, 128],
  // SYNTAX_ERROR, TOO_DEEP_RECURSION, TOO_BIG_AST, TOO_DEEP_AST, TOO_SLOW_PARSING
  SYNTAX_ERROR: [62, 306, 168, 167, 718],
  // NOT_AN_AGGREGATE, ILLEGAL_AGGREGATION
  INVALID_AGGREGATION: [215, 184],
  // NUMBER_OF_ARGUMENTS_DOESNT_MATCH, BAD_ARGUMENTS, TOO_FEW/MANY_ARGUMENTS, UNKNOWN_QUERY_PARAMETER, WITH_TIES_*
  INVALID_ARGUMENTS: [42, 36, 34, 35, 456, 476, 133, 134],
  // INVALID_LIMIT_EXPRESSION, MULTIPLE_EXPRESSIONS_FOR_ALIAS, INCORRECT_QUERY, BAD_LAMBDA, UNSUPPORTED_METHOD, CYCLIC_ALIASES
  INVALID_EXPRESSION: [440, 179, 80, 1, 48, 174, 403, 344, 125, 182, 181, 190, 395, 52, 588, 475],
};

const MESSAGES: Readonly<Record<Exclude<Reason, 'SCAN_LIMIT_EXCEEDED'>, string>> = {
  UNKNOWN_IDENTIFIER: 'The query names a column or table that does not exist',
  UNKNOWN_FUNCTION: 'The query calls a function that does not exist',
  TYPE_MISMATCH: 'An expression has a type that does not fit',
  NUMERIC_OVERFLOW: 'A number is out of range',
  SYNTAX_ERROR: 'The SQL cannot be parsed',
  INVALID_AGGREGATION: 'A column is neither aggregated nor in GROUP BY, or aggregates are nested',
  INVALID_ARGUMENTS: 'A function has the wrong number or kind of arguments',
  INVALID_EXPRESSION: 'An expression is not valid here',
};

/** TOO_MANY_ROWS, TOO_MANY_BYTES, TOO_MANY_ROWS_OR_BYTES, SET_SIZE_LIMIT_EXCEEDED, MEMORY_LIMIT_EXCEEDED, TOO_LARGE_ARRAY_SIZE */
const TOO_BROAD_CODES: readonly number[] = [158, 307, 396, 191, 241, 131];
/** TIMEOUT_EXCEEDED, TOO_SLOW */
const TIMEOUT_CODES: readonly number[] = [159, 160];

/**
 * The API's failure for a failure of the engine.
 * @param sql the caller's statement; a name from the engine's message is repeated only when it is in there
 */
export function toApiFailure(error: unknown, sql: string): ApiFailure {
  if (error instanceof ApiFailure) return error;
  if (!(error instanceof EngineFault)) return internalError(error);
  const code = error.clickhouseCode;
  if (TOO_BROAD_CODES.includes(code)) return tooBroad('The query reads more than the service allows.', error);
  if (TIMEOUT_CODES.includes(code)) return queryTimeout(error);
  for (const [reason, codes] of Object.entries(REASONS) as [keyof typeof REASONS, readonly number[]][]) {
    if (codes.includes(code)) return invalidQuery(reason, describeReason(reason, error.message, sql), error);
  }
  return internalError(error);
}

export function internalError(cause: unknown): ApiFailure {
  return new ApiFailure(500, 'INTERNAL_ERROR', 'The service failed to answer; the same request may succeed later.', {
    cause,
  });
}

function describeReason(reason: keyof typeof REASONS, message: string, sql: string): string {
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
