/**
 * Finds where strings and rows end in JSON bytes, without parsing values. Invariant: it reads only
 * structure, and in rows the signs of a fraction or exponent, so texts keep their original bytes. The consumer of a
 * value checks its content. Offsets are buffer offsets; an end is the offset after the last byte.
 */

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const DOT = 0x2e;
const UPPER_E = 0x45;
const LOWER_E = 0x65;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** What the rows of an array have in common. */
export interface RowShape {
  /** Indexes (from 0) of the members in which any row has a fraction or an exponent; `true` and `false` count too. */
  readonly fractions: ReadonlySet<number>;
  /** By index: whether the member is a string in any row. */
  readonly texts: readonly (boolean | undefined)[];
  /** Whether any member of a row is an object or an array. */
  readonly hasNested: boolean;
}

/** The rows of an answer. */
export interface JsonRows {
  /** A JSON array, brackets included, as the server sent it. */
  readonly data: Uint8Array;
  readonly rows: number;
  /** What the rows have in common; `undefined` if not examined yet. */
  readonly shape?: RowShape | undefined;
  /** Parsed; `undefined` if there is none or it is not valid JSON. */
  readonly firstRow: Readonly<Record<string, unknown>> | undefined;
}

/** The bytes of one row; `end` is exclusive. */
export interface RowBytes {
  readonly start: number;
  readonly end: number;
}

export interface WalkedRows {
  /** Offset after the closing bracket. */
  readonly end: number;
  readonly rows: number;
  readonly shape: RowShape;
}

/** No table has so many columns; more would fill the memory. */
const MAX_MEMBERS = 10_000;

/**
 * Walks an array of objects that begins at `start`.
 * @param onRow called for each row
 * @throws SyntaxError when it is not an array of objects
 */
export function walkRows(bytes: Buffer, start: number, onRow?: (row: RowBytes) => void): WalkedRows {
  let rows = 0;
  const seen: SeenShape = { fractions: new Set(), texts: [], hasNested: false };
  let at = skipSpace(bytes, start + 1);
  while (bytes[at] !== CLOSE_ARRAY) {
    if (bytes[at] !== OPEN_OBJECT) throw malformed('a row, which begins with "{"', at, bytes);
    const end = skipRow(bytes, at, seen);
    onRow?.({ start: at, end });
    at = skipSpace(bytes, end);
    rows += 1;
    if (bytes[at] === COMMA) {
      at = skipSpace(bytes, at + 1);
      if (bytes[at] === CLOSE_ARRAY) throw malformed('a row after ","', at, bytes);
    } else if (bytes[at] !== CLOSE_ARRAY) throw malformed('"," or "]"', at, bytes);
  }
  return { end: at + 1, rows, shape: seen };
}

interface SeenShape {
  readonly fractions: Set<number>;
  readonly texts: boolean[];
  hasNested: boolean;
}

/** End of a row; also records the row's shape in `seen`. Digits are tested first because most bytes are digits. */
function skipRow(bytes: Buffer, start: number, seen: SeenShape): number {
  let depth = 0;
  let place = 0;
  for (let at = start; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte >= DIGIT_0 && byte <= DIGIT_9) continue;
    if (byte === QUOTE) {
      at = skipString(bytes, at) - 1;
      if (bytes[at + 1] !== COLON) seen.texts[place] = true;
    } else if (byte === COMMA) {
      place += depth === 1 ? 1 : 0;
      if (place === MAX_MEMBERS) throw malformed(`at most ${MAX_MEMBERS} members of a row`, at, bytes);
    } else if (byte === DOT || byte === LOWER_E || byte === UPPER_E) seen.fractions.add(place);
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      depth += 1;
      seen.hasNested ||= depth > 1;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  throw malformed('more bytes: the answer is cut short', bytes.length, bytes);
}

export function skipString(bytes: Buffer, start: number): number {
  if (bytes[start] !== QUOTE) throw malformed('a string', start, bytes);
  for (let at = start + 1; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) at += 1;
  }
  throw malformed('more bytes: the answer is cut short', bytes.length, bytes);
}

export function skipSpace(bytes: Buffer, start: number): number {
  let at = start;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at += 1;
  return at;
}

export function malformed(expected: string, at: number, bytes: Buffer): SyntaxError {
  const came = at < bytes.length ? JSON.stringify(bytes.toString('utf8', at, at + 20)) : 'the end';
  return new SyntaxError(`expected ${expected} at byte ${at} of ${bytes.length}, found ${came}`);
}
