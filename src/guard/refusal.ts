/**
 * A refusal of a caller's SQL, in the API's terms. Invariant: the text of a refusal is written here or built from the
 * caller's own input. Engine messages may contain rows and paths, and are never passed on.
 */

import type { Reason } from '../api-contract/historical.ts';
import { Fault } from '../core/errors.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { REASON_CODES, TOO_BROAD_CODES } from './engine-codes.ts';

type RefusalCode = 'INVALID_SQL' | 'INVALID_QUERY' | 'QUERY_TOO_BROAD';

export class Refusal extends Fault {
  override readonly name = 'Refusal';
  readonly errorCode: RefusalCode;
  readonly reason: Reason | undefined;

  constructor(errorCode: RefusalCode, message: string, reason?: Reason, cause?: unknown) {
    super(errorCode, message, { kind: 'usage', ...(cause === undefined ? {} : { cause }) });
    this.errorCode = errorCode;
    this.reason = reason;
  }
}

/** The guardrails refuse the SQL. */
export function refuseSql(message: string): Refusal {
  return new Refusal('INVALID_SQL', message);
}

export function refuseTooBroad(message: string, cause?: unknown): Refusal {
  return new Refusal('QUERY_TOO_BROAD', message, 'SCAN_LIMIT_EXCEEDED', cause);
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

const ANALYSIS_REASONS = Object.keys(REASON_CODES) as AnalysisReason[]; // `Object.keys` loses the key type.

/**
 * Maps an engine failure to a refusal if the statement is at fault; returns any other error unchanged.
 * @param sql the caller's statement; a name from the engine's message is repeated only if the statement contains it
 */
export function toRefusal(error: unknown, sql: string): unknown {
  if (!(error instanceof EngineFault)) return error;
  const has = (codes: Readonly<Record<string, number>>) => Object.values(codes).includes(error.clickhouseCode);
  if (has(TOO_BROAD_CODES)) return refuseTooBroad('The query reads or holds more than the service allows.', error);
  if (findDamagedFile(error) !== undefined) return error;
  for (const reason of ANALYSIS_REASONS) {
    if (!has(REASON_CODES[reason])) continue;
    return new Refusal('INVALID_QUERY', describeReason(reason, error.message, sql), reason, error);
  }
  return error;
}

/** CANNOT_READ_ALL_DATA and INCORRECT_DATA: of a statement's values, or of a file's bytes. */
const UNREADABLE = new Set([33, 117]);

/** The file in which the engine found bytes that cannot be right; `undefined` if that is not why it failed. */
export function findDamagedFile({ message, clickhouseCode: code }: EngineFault): string | undefined {
  // Expressions of the statement are also computed, and its values converted, while a file is read.
  const isOfStatement = Object.values(REASON_CODES).some((codes) => Object.values(codes).includes(code));
  if (message.includes("while executing 'FUNCTION") || (isOfStatement && !UNREADABLE.has(code))) return undefined;
  return /\(in file\/uri ([^)]*)\)/.exec(message)?.[1];
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
