/**
 * Reads a drop's file back before it is published, twice: the engine compares every value with the stage by checksum,
 * and an independent reader (hyparquet) must find the same rows and schema. This detects a bug of the writer that the
 * engine's own reader tolerates.
 */

import type { FileMetaData, SchemaElement } from 'hyparquet';
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { DropColumn } from './drop-columns.ts';
import { describeStatistics, listRowGroupOffsets } from './file-statistics.ts';
import { decodeColumn, type OpenedFile, openParquet } from './second-reader.ts';
import { checksumParquet, type DropChecksum } from './write-parquet.ts';

export interface VerifiedFile {
  readonly rows: number;
  readonly rowGroups: number;
  readonly schema: Manifest['schema'];
  readonly rowGroupOffsets: readonly number[];
  readonly statistics: Manifest['statistics'];
}

/** @throws Fault `SEAL_UNVERIFIED` if either reader disagrees; then nothing may be published */
export async function verifyParquet(
  engine: Engine,
  path: string,
  columns: readonly DropColumn[],
  expected: DropChecksum,
): Promise<VerifiedFile> {
  // In parallel: the engine has its own threads. Its finding is reported first.
  const reading = readIndependently(path);
  reading.catch(() => undefined);
  assertChecksum(path, await checksumParquet(engine, path, columns), expected);
  const file = await reading;
  assertForm(path, file, columns, expected);
  return file;
}

/** @throws Fault `SEAL_UNVERIFIED` if the file, as SQL reads it, has other values than were to be written */
function assertChecksum(
  path: string,
  found: Awaited<ReturnType<typeof checksumParquet>>,
  expected: DropChecksum,
): void {
  if (found.rows !== expected.rows || found.hash !== expected.hash) {
    throw unverified(
      path,
      `it holds ${found.rows} rows with checksum ${found.hash}, the stage ${expected.rows} with ${expected.hash}`,
    );
  }
  if (found.bad > 0) {
    throw unverified(path, `${found.bad} of its rows have a text that is not UTF-8, or a number that is not finite`);
  }
}

/** @throws Fault `SEAL_UNVERIFIED` if the independent reader finds other rows or columns */
function assertForm(
  path: string,
  file: VerifiedFile,
  columns: readonly DropColumn[],
  expected: Pick<DropChecksum, 'rows'>,
): void {
  if (file.rows !== expected.rows)
    throw unverified(path, `the independent reader finds ${file.rows} rows, not ${expected.rows}`);
  const names = file.schema.map((column) => column.name).join(', ');
  const wanted = columns.map((column) => column.name).join(', ');
  if (names !== wanted) throw unverified(path, `its columns are ${names}, not ${wanted}`);
}

/**
 * Minimum number of columns decoded in each row group. Decoding all of them took a third of the time of everything
 * before it; `flowdrop verify` decodes all.
 */
const DECODED_COLUMNS = 2;

/**
 * Reads the file with hyparquet: the footer, and in each row group every value of some columns, in turn, so that each
 * column is decoded in at least one group. @throws Fault `SEAL_UNVERIFIED` if it cannot read them
 */
export async function readIndependently(path: string): Promise<VerifiedFile> {
  let opened: OpenedFile;
  try {
    opened = await openParquet(path);
  } catch (cause) {
    throw unverified(path, 'the independent reader cannot read it', cause);
  }
  const { metadata } = opened;
  const schema = describeSchema(metadata);
  const groups = metadata.row_groups.length;
  const atOnce = Math.max(DECODED_COLUMNS, Math.ceil(schema.length / Math.max(1, groups)));
  let from = 0;
  for (const [index, group] of metadata.row_groups.entries()) {
    const to = from + Number(group.num_rows);
    for (let turn = 0; turn < Math.min(atOnce, schema.length); turn += 1) {
      const { name = '' } = schema[(index * atOnce + turn) % schema.length] ?? {};
      const { bad } = await decodeColumn(opened, name, { from, to }, { keep: false }).catch((cause: unknown) => {
        throw unverified(path, 'the independent reader cannot read it', cause);
      });
      if (bad > 0) throw unverified(path, `"${name}" has ${bad} values that are not UTF-8 or not finite`);
    }
    from = to;
  }
  return {
    rows: Number(metadata.num_rows),
    rowGroups: groups,
    schema,
    rowGroupOffsets: listRowGroupOffsets(metadata),
    statistics: describeStatistics(metadata),
  };
}

/** The columns as written in a manifest; 0 where `writeFooter` has not given a field id yet. */
export function describeSchema(metadata: FileMetaData): Manifest['schema'] {
  return metadata.schema.slice(1).map((element) => ({
    name: element.name,
    type: describeType(element),
    nullable: element.repetition_type === 'OPTIONAL',
    field_id: element.field_id ?? 0,
  }));
}

/** A column's type in Parquet's terms: `BYTE_ARRAY/STRING`, `INT64/TIMESTAMP(MICROS,utc=false)`. */
function describeType(element: SchemaElement): string {
  const logical = element.logical_type;
  if (logical?.type === 'TIMESTAMP') return `${element.type}/TIMESTAMP(${logical.unit},utc=${logical.isAdjustedToUTC})`;
  return [element.type, logical?.type].filter(Boolean).join('/');
}

function unverified(path: string, reason: string, cause?: unknown): Fault {
  return new Fault('SEAL_UNVERIFIED', `the Parquet file ${path} failed verification: ${reason}`, {
    cause,
    hint: 'Nothing was published; the staged rows are kept. Run again, and report it if it happens again.',
  });
}
