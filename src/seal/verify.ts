/**
 * Reads a drop's file back before it is published, twice: the engine compares every value with the stage by checksum,
 * and an independent reader (hyparquet) must agree on rows, schema and order, so that a fault of the writer that its
 * own reader forgives is still found.
 */
import type { FileMetaData, SchemaElement } from 'hyparquet';
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import type { DropColumn } from './columns.ts';
import { checksumParquet, type DropChecksum } from './parquet.ts';

export interface VerifiedFile {
  readonly rows: number;
  readonly rowGroups: number;
  readonly schema: readonly { readonly name: string; readonly type: string; readonly nullable: boolean }[];
}

/** @throws Fault `SEAL_UNVERIFIED` when either reader disagrees; nothing may be published then */
export async function verifyParquet(
  engine: Engine,
  path: string,
  columns: readonly DropColumn[],
  expected: DropChecksum,
): Promise<VerifiedFile> {
  const found = await checksumParquet(engine, path, columns);
  if (found.rows !== expected.rows || found.hash !== expected.hash) {
    throw unverified(
      path,
      `it holds ${found.rows} rows with checksum ${found.hash}, the stage ${expected.rows} with ${expected.hash}`,
    );
  }
  const file = await readIndependently(path);
  if (file.rows !== expected.rows)
    throw unverified(path, `the independent reader finds ${file.rows} rows, not ${expected.rows}`);
  const names = file.schema.map((column) => column.name).join(', ');
  const wanted = columns.map((column) => column.name).join(', ');
  if (names !== wanted) throw unverified(path, `its columns are ${names}, not ${wanted}`);
  return file;
}

/** Footer, row groups and one column of every row group, decoded by hyparquet. @throws Fault `SEAL_UNVERIFIED` when it cannot read them */
export async function readIndependently(path: string): Promise<VerifiedFile> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
  const { compressors } = await import('hyparquet-compressors');
  const file = await asyncBufferFromFile(path);
  let metadata: FileMetaData;
  try {
    metadata = await parquetMetadataAsync(file);
    const first = metadata.schema[1]?.name;
    if (first !== undefined && metadata.num_rows > 0n) {
      let from = 0;
      for (const group of metadata.row_groups) {
        // One row of every group proves that its pages decompress and decode.
        await parquetReadObjects({ file, metadata, compressors, columns: [first], rowStart: from, rowEnd: from + 1 });
        from += Number(group.num_rows);
      }
    }
  } catch (cause) {
    throw unverified(path, 'the independent reader cannot read it', cause);
  }
  return {
    rows: Number(metadata.num_rows),
    rowGroups: metadata.row_groups.length,
    schema: describeSchema(metadata),
  };
}

/** The columns as a manifest has them. */
export function describeSchema(metadata: FileMetaData): VerifiedFile['schema'] {
  return metadata.schema.slice(1).map((element) => ({
    name: element.name,
    type: describeType(element),
    nullable: element.repetition_type === 'OPTIONAL',
  }));
}

/** Parquet's own words for a column's type: `BYTE_ARRAY/STRING`, `INT64/TIMESTAMP(MILLIS,utc=false)`. */
function describeType(element: SchemaElement): string {
  const logical = element.logical_type;
  if (logical?.type === 'TIMESTAMP') return `${element.type}/TIMESTAMP(${logical.unit},utc=${logical.isAdjustedToUTC})`;
  return [element.type, logical?.type].filter(Boolean).join('/');
}

function unverified(path: string, reason: string, cause?: unknown): Fault {
  return new Fault('SEAL_UNVERIFIED', `the Parquet file ${path} does not verify: ${reason}`, {
    cause,
    hint: 'Nothing was published; the staged rows are kept. Run again, and report it if it comes back.',
  });
}
