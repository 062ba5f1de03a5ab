/**
 * Explains why a statement over the archive failed. Invariant: the caller gets the engine's own message, because the
 * caller may see every row of the archive, but without our internal names, folders, addresses and credentials.
 */
import { Fault, findSqlPlaces } from '../core/errors.ts';
import { createRedactor } from '../core/redact.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { findDamagedFile, meaningOf, Refusal, toRefusal } from '../guard/refusal.ts';
import type { AnswerTypes } from './archive-column.ts';
import { dropDamaged } from './sealed.ts';

/** The engine's codes, version and stack trace, which help only its developers. */
const ENGINE_FRAME =
  /: \(in file\/uri .*$|\bCode: \d+\. |\bDB::\w*Exception: |\s*\((?:version [^)]*|[A-Z0-9_]+)\)\s*\.?|Stack trace:.*$/gs;
const API_TYPES = 'With --api-types, values are text, as the API sends them.';
const HIDDEN = /\b(?:archive|resolve)_[0-9a-f]{24}\./g;

/**
 * The fault of a failed statement; its kind is `usage` if the statement is wrong.
 * @param tables names that a statement may read @param secrets texts that must be hidden in messages
 */
export function describeQueryFailure(
  error: unknown,
  sql: string,
  tables: readonly string[],
  types: AnswerTypes,
  secrets: readonly string[],
): unknown {
  if (error instanceof Refusal && error.cause === undefined) return explainRefusal(error, tables);
  const cause = error instanceof Refusal ? error.cause : error;
  if (!(cause instanceof EngineFault)) return error;
  const words = cleanWords(cause.message, secrets);
  const meaning = meaningOf(cause);
  if (meaning === 'UNREADABLE') {
    return new Fault('ARCHIVE_UNREADABLE', `the drops cannot be read: ${words}`, {
      hint: 'Run `flowdrop verify JOB`; check whether the store is reachable.',
    });
  }
  if (meaning === 'UNWRITABLE') {
    return new Fault('OUT_FAILED', `the answer cannot be written: ${words}`, {
      hint: 'Make room, or name another place with --out.',
    });
  }
  if (meaning === 'TOO_BROAD' || meaning === 'TIMEOUT') {
    return new Fault('QUERY_TOO_BROAD', `the query needs more than this machine has: ${words}`, {
      hint: 'Query fewer dates, symbols or columns at a time.',
    });
  }
  const damaged = findDamagedFile(cause);
  if (damaged !== undefined) {
    const date = /session=(\d{4}-\d{2}-\d{2})/.exec(damaged)?.[1] ?? '';
    return dropDamaged(date, `its file cannot be read: ${words}`);
  }
  const refusal = toRefusal(cause, sql);
  if (!(refusal instanceof Refusal)) return new Fault('ENGINE_FAILED', words);
  return new Fault(refusal.code, `${refusal.message} ClickHouse says: ${words}`, {
    kind: 'usage',
    places: findSqlPlaces(sql, refusal.message),
    hint: `Reason ${refusal.reason ?? 'unknown'}. ${explainTypes(cause.message, types) ?? `Tables are ${joinWords(tables)}; the SQL is ClickHouse's.`}`,
  });
}

/** What to write where a statement takes a date, a time or a null for a text. */
function explainTypes(message: string, types: AnswerTypes): string | undefined {
  if (types === 'api') return undefined;
  if (/converting '' to|after eof/i.test(message))
    return `Unknown values are null, not '': write column IS NULL instead of column = ''. ${API_TYPES}`;
  if (/Date32 and (Nullable\()?Date32.*function minus/.test(message))
    return "For the days between two dates, write dateDiff('day', date, expiration_date).";
  if (/Cannot (parse|read) (date|time|DateTime)/i.test(message))
    return `Write dates as '2026-11-19' and times as '2026-11-19 09:30:00'. ${API_TYPES}`;
  if (/OrZero|OrNull|OrDefault/.test(message))
    return `Number columns are already numbers: leave out the conversion. ${API_TYPES}`;
  if (/\bDate(32|Time(64)?)?\b/.test(message))
    return `Dates and times are typed: use date functions, or toString(date) for text functions such as LIKE. ${API_TYPES}`;
  return undefined;
}

function explainRefusal(refusal: Refusal, tables: readonly string[]): Fault {
  return new Fault(refusal.code, refusal.message, {
    kind: 'usage',
    hint: `Allowed is one SELECT over ${joinWords(tables)}, in ClickHouse SQL, without settings, formats, files and addresses.`,
  });
}

/** Names that need no quotes; each dataset has summaries besides, if it has single trades. */
function joinWords(tables: readonly string[]): string {
  const words = tables.filter((name) => /^\w+$/.test(name) && !name.endsWith('_summary'));
  return `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

function cleanWords(message: string, secrets: readonly string[]): string {
  const clean = message.replace(ENGINE_FRAME, '').replace(HIDDEN, '').trim();
  return createRedactor([...secrets])(clean);
}
