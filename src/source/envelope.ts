/**
 * The envelope of a success answer, read without touching its rows: `{"status":..., "data":[...], "meta":{...}}` in any
 * order of keys, with unknown members. Invariant: the body is walked to its last byte, so an answer that is cut short,
 * doubled or followed by anything is a fault, never data. Rows stay bytes; their insides are checked by the engine.
 */

export interface Envelope {
  /** The `data` array, brackets included, as it came. */
  readonly data: Uint8Array;
  /** Elements of `data`. */
  readonly rows: number;
  /** The first element of `data`, parsed. */
  readonly firstRow: Readonly<Record<string, unknown>> | undefined;
  /** All other members, parsed. */
  readonly members: Readonly<Record<string, unknown>>;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** Not allowed in front of JSON, and sent by some gateways all the same (RFC 8259, section 8.1). */
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** @throws SyntaxError when the body is not one JSON object with an array `data`; the message names the byte */
export function readEnvelope(body: Uint8Array): Envelope {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const members: Record<string, unknown> = {};
  let data: { start: number; end: number; rows: number } | undefined;
  let at = skipSpace(bytes, bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0);
  if (bytes[at] !== OPEN_OBJECT) throw malformed('an object', at, bytes);
  at = skipSpace(bytes, at + 1);
  while (bytes[at] !== CLOSE_OBJECT) {
    const keyEnd = skipString(bytes, at);
    const key = JSON.parse(bytes.toString('utf8', at, keyEnd)) as string;
    at = skipSpace(bytes, keyEnd);
    if (bytes[at] !== COLON) throw malformed('":"', at, bytes);
    at = skipSpace(bytes, at + 1);
    if (key === 'data') {
      if (data) throw malformed('one "data" member only', at, bytes);
      if (bytes[at] !== OPEN_ARRAY) throw malformed('"data" to be an array', at, bytes);
      data = skipRows(bytes, at);
      at = data.end;
    } else {
      const end = skipValue(bytes, at);
      members[key] = JSON.parse(bytes.toString('utf8', at, end)) as unknown;
      at = end;
    }
    at = skipSpace(bytes, at);
    if (bytes[at] === COMMA) {
      at = skipSpace(bytes, at + 1);
      if (bytes[at] === CLOSE_OBJECT) throw malformed('a member after ","', at, bytes);
    } else if (bytes[at] !== CLOSE_OBJECT) throw malformed('"," or "}"', at, bytes);
  }
  const end = skipSpace(bytes, at + 1);
  if (end !== bytes.length) throw malformed('the end of the answer', end, bytes);
  if (!data) throw malformed('a member "data" with an array', bytes.length, bytes);
  return {
    data: bytes.subarray(data.start, data.end),
    rows: data.rows,
    firstRow: data.rows > 0 ? readFirstRow(bytes, data.start) : undefined,
    members,
  };
}

function readFirstRow(bytes: Buffer, start: number): Record<string, unknown> {
  const from = skipSpace(bytes, start + 1);
  return JSON.parse(bytes.toString('utf8', from, skipValue(bytes, from))) as Record<string, unknown>;
}

/** Walks an array of objects and counts them. */
function skipRows(bytes: Buffer, start: number): { start: number; end: number; rows: number } {
  let rows = 0;
  let at = skipSpace(bytes, start + 1);
  while (bytes[at] !== CLOSE_ARRAY) {
    if (bytes[at] !== OPEN_OBJECT) throw malformed('a row, which begins with "{"', at, bytes);
    at = skipSpace(bytes, skipNested(bytes, at));
    rows += 1;
    if (bytes[at] === COMMA) {
      at = skipSpace(bytes, at + 1);
      if (bytes[at] === CLOSE_ARRAY) throw malformed('a row after ","', at, bytes);
    } else if (bytes[at] !== CLOSE_ARRAY) throw malformed('"," or "]"', at, bytes);
  }
  return { start, end: at + 1, rows };
}

function skipValue(bytes: Buffer, at: number): number {
  const byte = bytes[at];
  if (byte === QUOTE) return skipString(bytes, at);
  if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) return skipNested(bytes, at);
  let end = at;
  while (end < bytes.length && !isDelimiter(bytes[end])) end += 1;
  if (end === at) throw malformed('a value', at, bytes);
  return end;
}

/** End of the object or array that begins at `start`. Brackets are only counted: the engine checks what is inside. */
function skipNested(bytes: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) at = skipString(bytes, at) - 1;
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  throw malformed('more bytes: the answer is cut short', bytes.length, bytes);
}

function skipString(bytes: Buffer, start: number): number {
  if (bytes[start] !== QUOTE) throw malformed('a string', start, bytes);
  for (let at = start + 1; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) at += 1;
  }
  throw malformed('more bytes: the answer is cut short', bytes.length, bytes);
}

function skipSpace(bytes: Buffer, start: number): number {
  let at = start;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at += 1;
  return at;
}

function isDelimiter(byte: number | undefined): boolean {
  return (
    byte === COMMA ||
    byte === CLOSE_OBJECT ||
    byte === CLOSE_ARRAY ||
    byte === 0x20 ||
    byte === 0x0a ||
    byte === 0x0d ||
    byte === 0x09
  );
}

function malformed(expected: string, at: number, bytes: Buffer): SyntaxError {
  const came = at < bytes.length ? JSON.stringify(bytes.toString('utf8', at, at + 20)) : 'the end';
  return new SyntaxError(`expected ${expected} at byte ${at} of ${bytes.length}, found ${came}`);
}
