/** A page before it is staged: chooses its path, and describes one that does not fit. Pure. */
import { isUtf8 } from 'node:buffer';
import { describeError, Fault } from '../core/errors.ts';
import { type JsonRows, type RowShape, walkRows } from '../core/json-bytes.ts';
import type { Job } from '../job/job.ts';

/** Bytes of a row in a message. */
const SHOWN_BYTES = 200;
const BACKSLASH = 0x5c;
/** Escapes that the engine reads differently from JSON, or as half of a character. */
const STRANGE_ESCAPE = /\\(?:[^"\\/bfnrtu]|u(?![0-9a-fA-F]{4})|u[dD][89a-fA-F])/;

/** A name that needs no escapes, and that the engine has no column of its own for. */
const PLAIN_NAME = /^[A-Za-z][\w.-]*$/;

export function isPlainName(name: string): boolean {
  return PLAIN_NAME.test(name);
}

/** What the rows of a page have in common. @throws SyntaxError if it is not an array of objects */
export function readShape({ data, shape }: JsonRows): RowShape {
  if (shape !== undefined) return shape;
  const walked = walkRows(Buffer.from(data.buffer, data.byteOffset, data.byteLength), 0);
  if (walked.end === data.length) return walked.shape;
  throw new SyntaxError(`the rows end at byte ${walked.end} of ${data.length}`);
}

/**
 * Whether the engine can safely read the bytes of a page: they contain nothing that it would read as another value, and
 * lack no field that it would not miss. SQL checks the values, in the statement that stages them.
 */
export function isPlainPage({ source }: Pick<Job, 'source'>, page: JsonRows, shape: RowShape): boolean {
  const { data, firstRow = {} } = page;
  if (!isUtf8(data)) return false;
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.includes(BACKSLASH) && STRANGE_ESCAPE.test(withoutPairs(bytes))) return false;
  const { fractions, texts, hasNested } = shape;
  if (hasNested) return false;
  const names = Object.keys(firstRow);
  if (!names.every(isPlainName)) return false;
  // A snapshot guarantees no fields: an absent one is null.
  if (source.kind === 'snapshots') return true;
  const places = new Map(names.map((name, place) => [name, place]));
  // The engine reads 12.0 as 12, but does not count such values; and it rounds a number in quotes.
  return source.columns.every(({ name, type }) => {
    const place = places.get(name);
    return place !== undefined && !(type === 'int32' && (fractions.has(place) || texts[place]));
  });
}

/** Removes escaped backslashes, so that the second one does not look like the start of an escape. */
function withoutPairs(bytes: Buffer): string {
  return bytes.toString('latin1').replaceAll('\\\\', '');
}

/** Requires every column in the rows; the error lists missing and present fields. @throws Fault `PAGE_REFUSED` */
export function assertColumns(
  { source }: Pick<Job, 'source'>,
  date: string,
  window: string,
  present: readonly string[],
): void {
  // A snapshot guarantees no fields: an absent one is null, or known from the request.
  if (source.kind === 'snapshots') return;
  const missing = source.columns.filter(({ name }) => !present.includes(name));
  if (missing.length === 0) return;
  throw new Fault(
    'PAGE_REFUSED',
    `${date} ${window}: the answer has no field ${missing.map((column) => `"${column.name}"`).join(', ')}; it has ${present.join(', ')}`,
    { hint: 'For your own SQL, list its output columns under `types`, `time` and `split`.' },
  );
}

export function refusePage(date: string, window: string, page: JsonRows, cause: unknown): Fault {
  const head = Buffer.from(page.data.subarray(0, SHOWN_BYTES)).toString('utf8');
  return new Fault(
    'PAGE_REFUSED',
    `${date} ${window}: the answer's rows do not fit the columns: ${firstLine(cause)}; it begins ${head}`,
    {
      cause,
      hint: 'This page was not kept. If the API has changed a type, report it; otherwise run again.',
    },
  );
}

/** `"oi" is not a whole number: {"id":...`. @param column empty: the row itself */
export function describeBadRow(column: string, reason: string, row: string): string {
  const what = column === '' ? `a row ${reason}` : `"${column}" ${reason}`;
  return `${what}: ${Buffer.from(row).subarray(0, SHOWN_BYTES).toString('utf8')}`;
}

/** The engine's message without its stack of functions. */
function firstLine(error: unknown): string {
  return describeError(error).split(/: while executing|\n/)[0] ?? '';
}
