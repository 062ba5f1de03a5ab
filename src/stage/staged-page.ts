/** A page before it is staged: chooses its path, and describes one that does not fit. Pure. */
import { isUtf8 } from 'node:buffer';
import { describeError, Fault } from '../core/errors.ts';
import { type RowShape, walkRows } from '../core/json-bytes.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/engine-fault.ts';
import type { Job } from '../job/job.ts';
import type { JudgedLine } from './bad-row.ts';

export interface StagedPage {
  /** A JSON array of rows. */
  readonly data: Uint8Array;
  readonly rows: number;
  /** What the rows have in common; `undefined` if not examined yet. */
  readonly shape?: RowShape | undefined;
  readonly firstRow: Readonly<Record<string, unknown>> | undefined;
}

/** Bytes of a row in a message. */
const SHOWN_BYTES = 200;
const BACKSLASH = 0x5c;
/** Escapes that the engine reads differently from JSON, or as half of a character. */
const STRANGE_ESCAPE = /\\(?:[^"\\/bfnrtu]|u(?![0-9a-fA-F]{4})|u[dD][89a-fA-F])/;

/**
 * Whether the engine can safely read the bytes of a page: they contain nothing that it would read as another value, and
 * lack no field that it would not miss. SQL checks the values, in the statement that stages them.
 */
export function isPlainPage({ source }: Pick<Job, 'source'>, page: StagedPage): boolean {
  const { data, shape, firstRow = {} } = page;
  if (!isUtf8(data)) return false;
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.includes(BACKSLASH) && STRANGE_ESCAPE.test(withoutPairs(bytes))) return false;
  const { fractions, texts, hasNested } = shape ?? tryReadShape(bytes);
  if (hasNested) return false;
  // A snapshot guarantees no fields: an absent one is null.
  if (source.kind === 'snapshots') return true;
  const places = new Map(Object.keys(firstRow).map((name, place) => [name, place]));
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

/** Rows that cannot be walked count as not plain. */
function tryReadShape(bytes: Buffer): RowShape {
  try {
    return walkRows(bytes, 0).shape;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { fractions: new Set(), texts: [], hasNested: true };
  }
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

export function refusePage(date: string, window: string, page: StagedPage, cause: unknown): Fault {
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

/** For jobs that accept no bad rows. */
export function refuseRow(date: string, window: string, row: JudgedLine, count: number): Fault {
  const others = count > 1 ? `, and ${count - 1} more of its rows are bad` : '';
  return new Fault('PAGE_REFUSED', `${date} ${window}: ${describeBadRow(row)}${others}`, {
    hint: 'This page was not kept, because the job has `rows.on_bad: fail`. With `quarantine` the other rows are sealed.',
  });
}

/** `"oi" is not a whole number: {"id":...`. */
export function describeBadRow({ column, reason, encoding, row = '' }: JudgedLine): string {
  const what = column === '' ? `a row ${reason}` : `"${column}" ${reason}`;
  const bytes = Buffer.from(row, encoding === 'base64' ? 'base64' : 'utf8');
  return `${what}: ${bytes.subarray(0, SHOWN_BYTES).toString('utf8')}`;
}

/** The engine's message without its stack of functions. */
function firstLine(error: unknown): string {
  return describeError(error).split(/: while executing|\n/)[0] ?? '';
}

/** A name that cannot be confused with the surrounding text, and needs no escapes. */
const PLAIN_NAME = /^[A-Za-z][\w.-]*$/;

/**
 * The field name in ClickHouse's "Unknown field found while parsing JSONEachRow format: x"; `undefined` for any other
 * error, and for a name that is not a plain word: rows with one are judged one by one.
 */
export function readUnknownField(error: unknown): string | undefined {
  if (!(error instanceof EngineFault) || error.clickhouseCode !== CLICKHOUSE_CODES.INCORRECT_DATA) return undefined;
  const [, name = ''] =
    /Unknown field found while parsing \w+ format: (.+?)(?:: \(at row \d+\)|\s*: While|$)/s.exec(error.message) ?? [];
  return PLAIN_NAME.test(name) ? name : undefined;
}
