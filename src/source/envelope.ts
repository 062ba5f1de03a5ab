/**
 * The envelope of a success answer, read without parsing its rows: `{"status":..., "data":[...], "meta":{...}}` with
 * keys in any order and with unknown members. Invariant: the body is walked to its last byte, so an answer that is
 * truncated, doubled or followed by more bytes is a fault, never data. Rows stay bytes; the engine checks their
 * contents.
 */

import { tryParseJson } from '../core/atomic-file.ts';
import {
  type JsonRows,
  malformed,
  type RowBytes,
  skipSpace,
  skipString,
  skipValue,
  type WalkedRows,
  walkRows,
} from '../core/json-bytes.ts';
import { MAX_PAGE_ROWS } from './source.ts';

interface Envelope extends JsonRows {
  /** All other members, parsed. */
  readonly members: Readonly<Record<string, unknown>>;
}

const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** Not allowed in front of JSON, but some gateways send it (RFC 8259, section 8.1). */
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Largest value that is parsed into JavaScript values, which take many times as much memory. The answer to a count is
 * one row; fifteen dates with rows in every second have a quarter of this size.
 */
const MAX_PARSED_BYTES = 64 * 1024 ** 2;
/** Of all other members together: there may be millions of them. */
const MAX_OTHER_BYTES = 1024 ** 2;

/** A window may have grown since it was counted, and is split then; twice as many rows are no page of it. */
const MAX_WALKED_ROWS = 2 * MAX_PAGE_ROWS;

/** @throws SyntaxError if the body is not one JSON object with an array `data`; the message names the byte */
export function readEnvelope(body: Uint8Array): Envelope {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const members: Record<string, unknown> = {};
  let otherBytes = 0;
  let rows = 0;
  const countRow = ({ start }: RowBytes) => {
    rows += 1;
    if (rows > MAX_WALKED_ROWS) throw malformed(`at most ${MAX_PAGE_ROWS} rows`, start, bytes);
  };
  let data: (WalkedRows & { readonly start: number }) | undefined;
  let at = skipSpace(bytes, bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0);
  if (bytes[at] !== OPEN_OBJECT) throw malformed('an object', at, bytes);
  at = skipSpace(bytes, at + 1);
  while (bytes[at] !== CLOSE_OBJECT) {
    const keyEnd = skipString(bytes, at);
    const key = parse(bytes, at, keyEnd) as string;
    at = skipSpace(bytes, keyEnd);
    if (bytes[at] !== COLON) throw malformed('":"', at, bytes);
    at = skipSpace(bytes, at + 1);
    if (key === 'data') {
      if (data) throw malformed('one "data" member only', at, bytes);
      if (bytes[at] !== OPEN_ARRAY) throw malformed('"data" to be an array', at, bytes);
      data = { start: at, ...walkRows(bytes, at, countRow) };
      at = data.end;
    } else {
      const end = skipValue(bytes, at);
      otherBytes += key.length + end - at;
      if (otherBytes > MAX_OTHER_BYTES) throw malformed(`at most ${MAX_OTHER_BYTES} bytes beside "data"`, at, bytes);
      members[key] = parse(bytes, at, end);
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
    shape: data.shape,
    firstRow: data.rows > 0 ? readFirstRow(bytes, data.start) : undefined,
    members,
  };
}

function readFirstRow(bytes: Buffer, start: number): Record<string, unknown> | undefined {
  const from = skipSpace(bytes, start + 1);
  return tryParseJson(readText(bytes, from, skipValue(bytes, from))) as Record<string, unknown> | undefined;
}

function parse(bytes: Buffer, start: number, end: number): unknown {
  return JSON.parse(readText(bytes, start, end)) as unknown;
}

function readText(bytes: Buffer, start: number, end: number): string {
  if (end - start > MAX_PARSED_BYTES)
    throw new SyntaxError(`a value at byte ${start} has ${end - start} bytes, ${MAX_PARSED_BYTES} at most`);
  return bytes.toString('utf8', start, end);
}
