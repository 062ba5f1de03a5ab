/**
 * Declares wall-clock times in an answer's Parquet file as such. The engine marks every timestamp as UTC, and readers
 * would shift the exchange's times to their own zone. Invariant: only the footer is rewritten. Bounds are left out: those
 * of decimals and binary text do not survive the library that reads and writes it, and wrong ones would hide rows.
 */
import { appendFile, truncate } from 'node:fs/promises';
import type { FileMetaData, SchemaTree } from 'hyparquet';
import { Fault } from '../../core/errors.ts';

/** The footer's length and the closing magic bytes. */
const TAIL_BYTES = 8;
const MAGIC = Buffer.from('PAR1');

/** @param isWall whether the column at this place has wall-clock times @throws Fault `OUT_FAILED` */
export async function declareParquetWallClock(path: string, isWall: readonly boolean[]): Promise<void> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetSchema } = await import('hyparquet');
  const { ByteWriter } = await import('hyparquet-writer');
  const { writeMetadata } = await import('hyparquet-writer/src/metadata.js');
  const file = await asyncBufferFromFile(path).catch(broken);
  const metadata = await parquetMetadataAsync(file).catch(broken);
  const columns = parquetSchema(metadata).children.filter((_, index) => isWall[index]);
  const wall = new Set(columns.flatMap(listElements));
  const writer = new ByteWriter();
  const { key_value_metadata: pairs = [], ...rest } = metadata;
  // An empty list has no element type, and readers refuse it.
  const described = pairs.length > 0 ? metadata : rest;
  writeMetadata(writer, { ...described, ...retype(metadata, wall) });
  await truncate(path, file.byteLength - TAIL_BYTES - metadata.metadata_length);
  await appendFile(path, Buffer.concat([writer.getBytes(), MAGIC]));
}

function listElements({ element, children }: SchemaTree): readonly FileMetaData['schema'][number][] {
  return [element, ...children.flatMap(listElements)];
}

/** No converted type, which would mean UTC to readers that know only these. */
function retype(
  { schema, row_groups }: FileMetaData,
  wall: ReadonlySet<FileMetaData['schema'][number]>,
): Pick<FileMetaData, 'schema' | 'row_groups'> {
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
