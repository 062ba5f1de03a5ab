/**
 * Declares wall-clock times in an answer's Arrow file as such. The engine marks timestamps as UTC, and writes times of
 * whole seconds as plain numbers. Invariant: values and their order stay the same; a few batches are in memory at a time.
 */
import { createWriteStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Data, Field, RecordBatch, RecordBatchReader, Schema } from 'apache-arrow';

type Arrow = typeof import('apache-arrow');

/** @param isWall whether the column at this place has wall-clock times */
export async function declareArrowWallClock(
  path: string,
  isWall: readonly boolean[],
  signal: AbortSignal,
): Promise<void> {
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

async function* retypeBatches(
  arrow: Arrow,
  reader: RecordBatchReader,
  isWall: readonly boolean[],
): AsyncIterable<RecordBatch> {
  const fields = reader.schema.fields.map((field, index) =>
    isWall[index] === true ? retypeField(arrow, field) : field,
  );
  const schema = new arrow.Schema(fields, reader.schema.metadata);
  let isEmpty = true;
  for await (const batch of reader) {
    isEmpty = false;
    yield retypeBatch(arrow, schema, batch);
  }
  // The writer learns the schema from a batch.
  if (isEmpty) yield new arrow.RecordBatch(schema);
}

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
