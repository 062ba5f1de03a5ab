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
  type WalkedRows,
  walkRows,
} from '../core/json-bytes.ts';
import { MAX_PAGE_ROWS } from './source.ts';

interface Envelope extends JsonRows {
  /** All other members, parsed. */
  readonly members: Readonly<Record<string, unknown>>;
}

const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** Not allowed in front of JSON, but some gateways send it (RFC 8259, section 8.1). */
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Largest row that is parsed into JavaScript values, which take many times as much memory. The answer to a count is
 * one row; fifteen dates with rows in every second have a quarter of this size.
 */
const MAX_PARSED_BYTES = 64 * 1024 ** 2;
/** Of all other members together: there may be millions of them. */
const MAX_OTHER_BYTES = 1024 ** 2;

/** A window may have grown since it was counted, and is split then; twice as many rows are no page of it. */
const MAX_WALKED_ROWS = 2 * MAX_PAGE_ROWS;

/** @throws SyntaxError if the body is not one JSON object with an array `data` */
export function readEnvelope(body: Uint8Array): Envelope {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const begin = bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  let data: FoundRows | undefined;
  let dataBytes = 0;
  let depth = 0;
  for (let at = begin; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      const end = skipString(bytes, at);
      const colon = skipSpace(bytes, end);
      if (depth === 1 && bytes[colon] === COLON && JSON.parse(bytes.toString('utf8', at, end)) === 'data') {
        if (data) throw malformed('one "data" member only', at, bytes);
        data = findRows(bytes, skipSpace(bytes, colon + 1));
        dataBytes = data.end - data.start;
        at = data.end - 1;
      } else at = end - 1;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth -= 1;
    if (at - begin - dataBytes > MAX_OTHER_BYTES)
      throw malformed(`at most ${MAX_OTHER_BYTES} bytes beside "data"`, at, bytes);
  }
  if (!data) throw malformed('a member "data" with an array', bytes.length, bytes);
  const { start, end, rows, shape, first } = data;
  // The parser judges what was only walked through: everything but the rows.
  const others = `${bytes.toString('utf8', begin, start)}[]${bytes.toString('utf8', end)}`;
  const { data: _, ...members } = JSON.parse(others) as Record<string, unknown>;
  return { data: bytes.subarray(start, end), rows, shape, firstRow: first && readRow(bytes, first), members };
}

interface FoundRows extends WalkedRows {
  readonly start: number;
  readonly first: RowBytes | undefined;
}

/** @param start of the value of `data` */
function findRows(bytes: Buffer, start: number): FoundRows {
  if (bytes[start] !== OPEN_ARRAY) throw malformed('"data" to be an array', start, bytes);
  let rows = 0;
  let first: RowBytes | undefined;
  const walked = walkRows(bytes, start, (row) => {
    rows += 1;
    if (rows > MAX_WALKED_ROWS) throw malformed(`at most ${MAX_PAGE_ROWS} rows`, row.start, bytes);
    first ??= row;
  });
  return { ...walked, start, first };
}

function readRow(bytes: Buffer, { start, end }: RowBytes): Record<string, unknown> | undefined {
  if (end - start > MAX_PARSED_BYTES)
    throw new SyntaxError(`a value at byte ${start} has ${end - start} bytes, ${MAX_PARSED_BYTES} at most`);
  return tryParseJson(bytes.toString('utf8', start, end)) as Record<string, unknown> | undefined;
}
