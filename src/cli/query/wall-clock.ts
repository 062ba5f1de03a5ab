/**
 * Declares times without a zone in an answer's file as the exchange's wall clock, which the engine's binary formats do not
 * know: it marks timestamps as UTC, and readers would shift them to their own zone. Invariant: values and their order stay
 * the same; of Parquet only the footer is rewritten, of Arrow a few batches are in memory at a time.
 */
import { createWriteStream } from 'node:fs';
import { appendFile, open, rename, rm, truncate } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Data, Field, RecordBatch, RecordBatchReader, Schema } from 'apache-arrow';
import type { FileMetaData, SchemaTree } from 'hyparquet';
import type { AnswerColumn, OutputFormat } from '../../archive/output-format.ts';
import { Fault } from '../../core/errors.ts';

/** @throws Fault `OUT_FAILED` */
export async function declareTimes(
  format: OutputFormat,
  path: string,
  columns: readonly AnswerColumn[],
  signal: AbortSignal,
): Promise<void> {
  const isWall = columns.map(({ type }) => {
    const times = type.match(/\bDateTime(64)?\b(\([^)]*\))?/g) ?? [];
    return times.length > 0 && times.every((time) => !time.includes("'"));
  });
  if (!isWall.includes(true)) return;
  if (format === 'parquet') await declareInParquet(path, isWall);
  if (format === 'arrow') await declareInArrow(path, isWall, signal);
}

type Arrow = typeof import('apache-arrow');

async function declareInArrow(path: string, isWall: readonly boolean[], signal: AbortSignal): Promise<void> {
  const arrow = await import('apache-arrow');
  const rewritten = `${path}.times`;
  const file = await open(path);
  try {
    const reader = await arrow.RecordBatchReader.from(file);
    await reader.open();
    const batches = Readable.from(retypeBatches(arrow, reader, isWall));
    await pipeline(batches, arrow.RecordBatchFileWriter.throughNode(), createWriteStream(rewritten), { signal });
    await rename(rewritten, path);
  } finally {
    await file.close();
    await rm(rewritten, { force: true });
  }
}

async function* retypeBatches(arrow: Arrow, reader: RecordBatchReader, isWall: readonly boolean[]) {
  const fields = reader.schema.fields.map((field, index) => (isWall[index] ? retypeField(arrow, field) : field));
  const schema = new arrow.Schema(fields, reader.schema.metadata);
  let isEmpty = true;
  for await (const batch of reader) {
    isEmpty = false;
    yield retypeBatch(arrow, schema, batch);
  }
  // The writer learns the schema from a batch.
  if (isEmpty) yield new arrow.RecordBatch(schema);
}

/** The engine writes times of whole seconds as plain numbers. */
function retypeField(arrow: Arrow, field: Field): Field {
  const { type } = field;
  if (arrow.DataType.isTimestamp(type)) return field.clone({ type: new arrow.Timestamp(type.unit, null) });
  return arrow.DataType.isInt(type) ? field.clone({ type: new arrow.TimestampSecond() }) : field;
}

function retypeBatch(arrow: Arrow, schema: Schema, { data }: RecordBatch): RecordBatch {
  const children = data.children.map((child, index) => {
    const type = schema.fields[index]?.type ?? child.type;
    if (arrow.DataType.isInt(child.type) && arrow.DataType.isTimestamp(type)) return widenSeconds(arrow, child);
    return child.clone(type);
  });
  const type = new arrow.Struct(schema.fields);
  return new arrow.RecordBatch(schema, arrow.makeData({ type, length: data.length, nullCount: 0, children }));
}

/** Seconds as the engine writes them, 32 bits wide, as Arrow's, 64 bits wide. */
function widenSeconds(arrow: Arrow, { values, length, nullCount, nullBitmap, offset }: Data): Data {
  return arrow.makeData({
    ...{ type: new arrow.TimestampSecond(), length, nullCount, nullBitmap, offset: 0 },
    data: BigInt64Array.from(values.subarray(offset, offset + length) as Uint32Array, BigInt),
  });
}

/** The footer's length and the closing magic bytes. */
const TAIL_BYTES = 8;
const MAGIC = Buffer.from('PAR1');

async function declareInParquet(path: string, isWall: readonly boolean[]): Promise<void> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetSchema } = await import('hyparquet');
  const { ByteWriter } = await import('hyparquet-writer/src/bytewriter.js');
  const { writeMetadata } = await import('hyparquet-writer/src/metadata.js');
  const file = await asyncBufferFromFile(path).catch(broken);
  const metadata = await parquetMetadataAsync(file).catch(broken);
  const columns = parquetSchema(metadata).children.filter((_, index) => isWall[index]);
  const writer = new ByteWriter();
  const { key_value_metadata: pairs = [], ...rest } = metadata;
  // An empty list has no element type, and readers refuse it.
  const described = pairs.length > 0 ? metadata : rest;
  writeMetadata(writer, { ...described, ...retype(metadata, new Set(columns.flatMap(listElements))) });
  await truncate(path, file.byteLength - TAIL_BYTES - metadata.metadata_length);
  await appendFile(path, Buffer.concat([writer.getBytes(), MAGIC]));
}

function listElements({ element, children }: SchemaTree): readonly FileMetaData['schema'][number][] {
  return [element, ...children.flatMap(listElements)];
}

/**
 * No converted type, which would mean UTC to readers that know only these. Bounds are left out: those of decimals and
 * binary text do not survive the library that reads and writes the footer, and wrong ones would hide rows.
 */
function retype({ schema, row_groups }: FileMetaData, wall: ReadonlySet<FileMetaData['schema'][number]>) {
  return {
    schema: schema.map((element) => {
      const { converted_type, logical_type: type, ...kept } = element;
      // The library writes the width of an integer wrongly; the converted type has it, too.
      if (type?.type === 'INTEGER' && converted_type !== undefined) return { ...kept, converted_type };
      if (!wall.has(element) || type?.type !== 'TIMESTAMP') return element;
      return { ...kept, logical_type: { ...type, isAdjustedToUTC: false } };
    }),
    row_groups: row_groups.map((group) => ({
      ...group,
      columns: group.columns.map((column) => {
        if (column.meta_data === undefined) return column;
        const { statistics: _, size_statistics: __, ...kept } = column.meta_data;
        return { ...column, meta_data: kept };
      }),
    })),
  };
}

function broken(cause: unknown): never {
  throw new Fault('OUT_FAILED', 'the answer was not written completely', {
    cause,
    hint: 'Check whether the disk is full, then run the query again.',
  });
}
