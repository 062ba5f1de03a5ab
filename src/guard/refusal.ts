/**
 * A refusal of a caller's SQL, in the API's terms. Invariant: the text of a refusal is written here or built from the
 * caller's own input. Engine messages may contain rows and paths, and are never passed on.
 */

import type { Reason } from '../api-contract/historical.ts';
import { Fault } from '../core/errors.ts';
import { EngineFault } from '../engine/engine-fault.ts';

/** The query cannot be analyzed, or a value in it cannot be computed. */
const MESSAGES = {
  UNKNOWN_IDENTIFIER: 'The query names a column or table that does not exist',
  UNKNOWN_FUNCTION: 'The query calls a function that does not exist',
  TYPE_MISMATCH: 'An expression has a type that does not fit',
  NUMERIC_OVERFLOW: 'A number is out of range',
  SYNTAX_ERROR: 'The SQL cannot be parsed',
  INVALID_AGGREGATION: 'A column is neither aggregated nor in GROUP BY, or aggregates are nested',
  INVALID_ARGUMENTS: 'A function has the wrong number or kind of arguments',
  INVALID_EXPRESSION: 'An expression is not valid here',
} satisfies Readonly<Record<Exclude<Reason, 'SCAN_LIMIT_EXCEEDED'>, string>>;

/** What a failure means for a caller: its reason in the API's terms, or that the files cannot be read or written. */
type Meaning = keyof typeof MESSAGES | 'TOO_BROAD' | 'TIMEOUT' | 'UNREADABLE' | 'UNWRITABLE';

/** ClickHouse's codes; the engine itself says their names (`SELECT errorCodeToName(47)`). All others are internal errors. */
export const MEANINGS: Readonly<Record<Meaning, readonly number[]>> = {
  UNKNOWN_IDENTIFIER: [8, 10, 16, 47, 60, 81, 207, 352, 703],
  UNKNOWN_FUNCTION: [46, 63],
  TYPE_MISMATCH: [
    6, 19, 20, 25, 26, 27, 32, 33, 38, 41, 43, 44, 50, 53, 59, 70, 72, 117, 124, 130, 169, 170, 346, 349, 376, 377, 378,
    386, 438, 441, 455, 467, 490, 563, 621, 632, 645, 675, 676, 691, 728, 760,
  ],
  NUMERIC_OVERFLOW: [11, 12, 69, 127, 128, 135, 153, 321, 407],
  SYNTAX_ERROR: [62, 162, 167, 168, 211, 229, 306, 406, 544, 545, 718],
  INVALID_AGGREGATION: [184, 215],
  INVALID_ARGUMENTS: [2, 34, 35, 36, 42, 133, 134, 186, 190, 262, 309, 360, 427, 446, 447, 456, 457, 527],
  INVALID_EXPRESSION: [
    1, 15, 37, 48, 51, 52, 80, 121, 123, 125, 141, 174, 179, 181, 182, 183, 206, 223, 264, 269, 344, 353, 403, 417, 440,
    475, 476, 498, 628, 721,
  ],
  // Memory too, because a narrower query needs less.
  TOO_BROAD: [131, 158, 161, 165, 166, 173, 191, 241, 290, 307, 396, 572, 776],
  TIMEOUT: [159, 160],
  UNREADABLE: [74, 76, 86, 107, 209, 210, 499, 1000],
  UNWRITABLE: [75, 77, 78, 243],
};

const BY_CODE = new Map(
  Object.entries(MEANINGS).flatMap(([meaning, codes]) => codes.map((code) => [code, meaning as Meaning] as const)),
);

export function meaningOf({ clickhouseCode }: EngineFault): Meaning | undefined {
  return BY_CODE.get(clickhouseCode);
}

type RefusalCode = 'INVALID_SQL' | 'INVALID_QUERY' | 'QUERY_TOO_BROAD';

export class Refusal extends Fault {
  override readonly name = 'Refusal';
  declare readonly code: RefusalCode;
  readonly reason: Reason | undefined;

  constructor(code: RefusalCode, message: string, reason?: Reason, cause?: unknown) {
    super(code, message, { kind: 'usage', cause });
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

/**
 * Maps an engine failure to a refusal if the statement is at fault; returns any other error unchanged.
 * @param sql the caller's statement; a name from the engine's message is repeated only if the statement contains it
 */
export function toRefusal(error: unknown, sql: string): unknown {
  if (!(error instanceof EngineFault)) return error;
  const meaning = meaningOf(error);
  if (meaning === 'TOO_BROAD') return refuseTooBroad('The query reads or holds more than the service allows.', error);
  if (!isReason(meaning) || findDamagedFile(error) !== undefined) return error;
  return new Refusal('INVALID_QUERY', describeReason(meaning, error.message, sql), meaning, error);
}

function isReason(meaning: Meaning | undefined): meaning is keyof typeof MESSAGES {
  return meaning !== undefined && meaning in MESSAGES;
}

/** CANNOT_READ_ALL_DATA and INCORRECT_DATA: of a statement's values, or of a file's bytes. */
const OF_VALUES_OR_BYTES = [33, 117];

/** The file in which the engine found bytes that cannot be right; `undefined` if that is not why it failed. */
export function findDamagedFile(fault: EngineFault): string | undefined {
  // Expressions of the statement are also computed, and its values converted, while a file is read.
  const isOfStatement = isReason(meaningOf(fault)) && !OF_VALUES_OR_BYTES.includes(fault.clickhouseCode);
  if (isOfStatement || fault.message.includes("while executing 'FUNCTION")) return undefined;
  return /\(in file\/uri ([^)]*)\)/.exec(fault.message)?.[1];
}

function describeReason(reason: keyof typeof MESSAGES, message: string, sql: string): string {
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
