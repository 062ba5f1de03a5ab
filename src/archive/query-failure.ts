/**
 * Explains why a statement over the archive failed. Invariant: the caller gets the engine's own message, because the
 * caller may see every row of the archive, but without our internal names, folders, addresses and credentials.
 */

import { Fault } from '../core/errors.ts';
import { findSqlPlaces } from '../core/place.ts';
import { createRedactor } from '../core/redact.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { TIMEOUT_CODES, TOO_BROAD_CODES } from '../guard/engine-codes.ts';
import { Refusal, toRefusal } from '../guard/refusal.ts';
import type { AnswerTypes } from './archive-column.ts';

/** ClickHouse's codes for file, network and S3 errors; names as in `ErrorCodes.cpp`. */
const READ_CODES: Readonly<Record<string, number>> = {
  CANNOT_READ_FROM_FILE_DESCRIPTOR: 74,
  CANNOT_OPEN_FILE: 76,
  FILE_DOESNT_EXIST: 107,
  SOCKET_TIMEOUT: 209,
  NETWORK_ERROR: 210,
  S3_ERROR: 499,
  RECEIVED_ERROR_FROM_REMOTE_IO_SERVER: 86,
  POCO_EXCEPTION: 1000,
};
/** ClickHouse's codes for failures to write the answer. */
const WRITE_CODES: Readonly<Record<string, number>> = {
  CANNOT_WRITE_TO_FILE_DESCRIPTOR: 75,
  CANNOT_FSYNC: 77,
  CANNOT_CLOSE_FILE: 78,
  NOT_ENOUGH_SPACE: 243,
};
/** The engine's codes, version and stack trace, which help only its developers. */
const ENGINE_FRAME =
  /: \(in file\/uri .*$|\bCode: \d+\. |\bDB::\w*Exception: |\s*\((?:version [^)]*|[A-Z0-9_]+)\)\s*\.?|Stack trace:.*$/gs;
const HIDDEN = /\b(?:archive|resolve)_[0-9a-f]{24}\./g;

interface FailureContext {
  readonly sql: string;
  /** Texts that must be hidden in messages. */
  readonly secrets: readonly string[];
  /** Names that a statement may read. */
  readonly tables: readonly string[];
  readonly types: AnswerTypes;
}

/** The fault of a failed statement; its kind is `usage` if the statement is wrong. */
export function describeQueryFailure(error: unknown, { sql, secrets, tables, types }: FailureContext): unknown {
  if (error instanceof Refusal && error.cause === undefined) return explainRefusal(error, tables);
  const cause = error instanceof Refusal ? error.cause : error;
  if (!(cause instanceof EngineFault)) return error;
  const words = cleanWords(cause.message, secrets);
  const has = (codes: Readonly<Record<string, number>>) => Object.values(codes).includes(cause.clickhouseCode);
  if (has(READ_CODES)) {
    return new Fault('ARCHIVE_UNREADABLE', `the drops cannot be read: ${words}`, {
      hint: 'Run `flowdrop verify JOB`; check whether the store is reachable.',
    });
  }
  if (has(WRITE_CODES)) {
    return new Fault('OUT_FAILED', `the answer cannot be written: ${words}`, {
      hint: 'Make room, or name another place with --out.',
    });
  }
  if (has(TOO_BROAD_CODES) || has(TIMEOUT_CODES)) {
    return new Fault('QUERY_TOO_BROAD', `the query needs more than this machine has: ${words}`, {
      hint: 'Ask for fewer dates, symbols or columns at a time.',
    });
  }
  const refusal = toRefusal(cause, sql);
  if (!(refusal instanceof Refusal)) return new Fault('ENGINE_FAILED', words);
  return new Fault(`${refusal.errorCode}`, `${refusal.message} ClickHouse says: ${words}`, {
    kind: 'usage',
    places: findSqlPlaces(sql, refusal.message),
    hint: `Reason ${refusal.reason ?? 'unknown'}. ${explainTypes(cause.message, types) ?? `Tables are ${joinWords(tables)}; the SQL is ClickHouse's.`}`,
  });
}

/** What to write where a statement takes a date or a time for a text. */
function explainTypes(message: string, types: AnswerTypes): string | undefined {
  if (types === 'api' || !/\b(Nullable\()?Date(Time|32|64)?\b/.test(message)) return undefined;
  return "Dates and times are typed: compare with '2026-11-19', use functions of dates, or toString(date) for text functions such as LIKE; --api-types gives the API's texts.";
}

function explainRefusal(refusal: Refusal, tables: readonly string[]): Fault {
  return new Fault(refusal.errorCode, refusal.message, {
    kind: 'usage',
    hint: `Allowed is one SELECT over ${joinWords(tables)}, in ClickHouse SQL, without settings, formats, files and addresses.`,
  });
}

function joinWords(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

function cleanWords(message: string, secrets: readonly string[]): string {
  const clean = message.replace(ENGINE_FRAME, '').replace(HIDDEN, '').trim();
  return createRedactor([...secrets])(clean);
}
