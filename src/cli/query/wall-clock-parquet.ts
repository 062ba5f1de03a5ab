/**
 * Declares wall-clock times in an answer's Parquet file as such. The engine marks every timestamp as UTC, and readers
 * would shift the exchange's times to their own zone. Invariant: nothing but the types of these columns changes, because
 * all other bytes of the footer are copied. Sources: `parquet.thrift`, Thrift's compact protocol.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { Fault } from '../../core/errors.ts';

/** The footer's length and the closing `PAR1`. */
const TAIL_BYTES = 8;
const MAGIC = 'PAR1';

/** Types of the compact protocol. */
const STOP = 0;
const TRUE = 1;
const FALSE = 2;
const BYTE = 3;
const DOUBLE = 7;
const BINARY = 8;
const LIST = 9;
const SET = 10;
const STRUCT = 12;

/** Numbers of fields, as `parquet.thrift` gives them. */
const SCHEMA_FIELD = 2;
const CHILDREN_FIELD = 5;
const CONVERTED_TYPE_FIELD = 6;
const LOGICAL_TYPE_FIELD = 10;
const TIMESTAMP_FIELD = 8;
const ADJUSTED_FIELD = 1;

interface Field {
  readonly id: number;
  readonly type: number;
  /** Where its header and its value begin, and where it ends, in the footer. */
  readonly start: number;
  readonly value: number;
  readonly end: number;
}

/** @param isWall whether the column at this place has wall-clock times @throws Fault `OUT_FAILED` */
export async function declareParquetWallClock(path: string, isWall: readonly boolean[]): Promise<void> {
  const file = await open(path, 'r+');
  try {
    const { size } = await file.stat();
    const tail = await readBytes(file, path, size - TAIL_BYTES, TAIL_BYTES);
    const length = tail.readUInt32LE(0);
    if (tail.toString('latin1', 4) !== MAGIC || length > size - TAIL_BYTES) throw broken(path);
    const start = size - TAIL_BYTES - length;
    const footer = rewriteSchema(await readBytes(file, path, start, length), isWall);
    tail.writeUInt32LE(footer.length, 0);
    await file.write(Buffer.concat([footer, tail]), 0, footer.length + TAIL_BYTES, start);
    await file.truncate(start + footer.length + TAIL_BYTES);
  } finally {
    await file.close();
  }
}

function rewriteSchema(footer: Buffer, isWall: readonly boolean[]): Buffer {
  const schema = listFields(footer, 0).find(({ id }) => id === SCHEMA_FIELD);
  if (schema === undefined) return footer;
  const elements = listElements(footer, schema.value).map((start) => listFields(footer, start));
  const pieces: Buffer[] = [];
  let copied = 0;
  // Element 0 is the root; a column's own elements follow it in order.
  let [next, column] = [1, -1];
  for (const [index, fields] of elements.entries()) {
    if (index === 0) continue;
    if (index === next) {
      column += 1;
      next = index + countElements(footer, elements, index);
    }
    const patch = isWall[column] === true ? describeLocalTime(footer, fields) : undefined;
    if (patch === undefined) continue;
    pieces.push(footer.subarray(copied, patch.from), patch.bytes);
    copied = patch.to;
  }
  return Buffer.concat([...pieces, footer.subarray(copied)]);
}

/** Elements of a column: itself and those below it. */
function countElements(footer: Buffer, elements: readonly (readonly Field[])[], index: number): number {
  const children = elements[index]?.find(({ id }) => id === CHILDREN_FIELD);
  const count = children === undefined ? 0 : readVarint(footer, children.value).value / 2;
  let total = 1;
  for (let child = 0; child < count; child += 1) total += countElements(footer, elements, index + total);
  return total;
}

/**
 * The bytes that replace the types of a timestamp: not adjusted to UTC, and no converted type, which would mean UTC to
 * readers that know only these. `undefined` if the element is no timestamp.
 */
function describeLocalTime(
  footer: Buffer,
  fields: readonly Field[],
): { readonly from: number; readonly to: number; readonly bytes: Buffer } | undefined {
  const logical = fields.find(({ id }) => id === LOGICAL_TYPE_FIELD);
  const timestamp = logical && listFields(footer, logical.value).find(({ id }) => id === TIMESTAMP_FIELD);
  const adjusted = timestamp && listFields(footer, timestamp.value).find(({ id }) => id === ADJUSTED_FIELD);
  if (logical === undefined || adjusted?.type !== TRUE) return undefined;
  const bytes = Buffer.from(footer.subarray(logical.start, logical.end));
  bytes[adjusted.start - logical.start] = ((bytes[adjusted.start - logical.start] ?? 0) & 0xf0) | FALSE;
  const converted = fields.find(({ id }) => id === CONVERTED_TYPE_FIELD);
  const kept = fields.filter(({ id }) => id > CONVERTED_TYPE_FIELD && id < LOGICAL_TYPE_FIELD);
  if (converted === undefined || kept.length > 0) return { from: logical.start, to: logical.end, bytes };
  const before = fields.filter(({ id }) => id < CONVERTED_TYPE_FIELD).at(-1)?.id ?? 0;
  bytes[0] = ((LOGICAL_TYPE_FIELD - before) << 4) | STRUCT;
  return { from: converted.start, to: logical.end, bytes };
}

/** The fields of the struct at `start`. */
function listFields(bytes: Buffer, start: number): readonly Field[] {
  const fields: Field[] = [];
  let [at, id] = [start, 0];
  for (;;) {
    const header = bytes[at] ?? STOP;
    const type = header & 0x0f;
    if (type === STOP) return fields;
    const delta = header >> 4;
    const long = delta === 0 ? readVarint(bytes, at + 1) : undefined;
    id = long === undefined ? id + delta : (long.value >>> 1) ^ -(long.value & 1);
    const value = long?.end ?? at + 1;
    const end = skipValue(bytes, value, type);
    fields.push({ id, type, start: at, value, end });
    at = end;
  }
}

/** Where the elements of the list at `start` begin. */
function listElements(bytes: Buffer, start: number): readonly number[] {
  const { count, type, first } = readListHeader(bytes, start);
  const starts: number[] = [];
  for (let at = first; starts.length < count; at = skipValue(bytes, at, type)) starts.push(at);
  return starts;
}

function readListHeader(bytes: Buffer, start: number) {
  const header = bytes[start] ?? 0;
  const short = header >> 4;
  const long = short === 15 ? readVarint(bytes, start + 1) : undefined;
  return { count: long?.value ?? short, type: header & 0x0f, first: long?.end ?? start + 1 };
}

/** @returns where the value at `start` ends */
function skipValue(bytes: Buffer, start: number, type: number): number {
  if (type === TRUE || type === FALSE) return start;
  if (type === BYTE) return start + 1;
  if (type === DOUBLE) return start + 8;
  if (type === BINARY) {
    const length = readVarint(bytes, start);
    return length.end + length.value;
  }
  if (type === LIST || type === SET) {
    const list = readListHeader(bytes, start);
    let at = list.first;
    for (let index = 0; index < list.count; index += 1) at = skipElement(bytes, at, list.type);
    return at;
  }
  if (type === STRUCT) return (listFields(bytes, start).at(-1)?.end ?? start) + 1;
  return readVarint(bytes, start).end;
}

/** In a list a boolean has a byte of its own. */
function skipElement(bytes: Buffer, start: number, type: number): number {
  return type === TRUE || type === FALSE ? start + 1 : skipValue(bytes, start, type);
}

/** Exact below 2^53; larger ones are only skipped. */
function readVarint(bytes: Buffer, start: number): { readonly value: number; readonly end: number } {
  let [at, value, factor] = [start, 0, 1];
  for (;;) {
    const byte = bytes[at] ?? 0;
    at += 1;
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return { value, end: at };
    factor *= 128;
  }
}

async function readBytes(file: FileHandle, path: string, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  const { bytesRead } = position < 0 ? { bytesRead: 0 } : await file.read(bytes, 0, length, position);
  if (bytesRead !== length) throw broken(path);
  return bytes;
}

function broken(path: string): Fault {
  return new Fault('OUT_FAILED', `${path} was not written completely`, {
    hint: 'Check whether the disk is full, then run the query again.',
  });
}
