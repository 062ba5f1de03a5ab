/**
 * Reads a drop's file back before it is published, twice: the engine compares every value with the stage by checksum,
 * and an independent reader (hyparquet) must find the same rows and schema. This detects a bug of the writer that the
 * engine's own reader tolerates.
 */
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import type { DropColumn } from './drop-columns.ts';
import { type FileFacts, readParquet } from './parquet-reader.ts';
import { checksumParquet, type DropChecksum } from './write-parquet.ts';

/** @throws Fault `SEAL_UNVERIFIED` if either reader disagrees; then nothing may be published */
export async function verifyParquet(
  engine: Engine,
  path: string,
  columns: readonly DropColumn[],
  expected: DropChecksum,
): Promise<FileFacts> {
  // In parallel: the engine has its own threads. Its finding is reported first.
  const reading = readIndependently(path);
  reading.catch(() => undefined);
  const found = await checksumParquet(engine, path, columns);
  if (found.rows !== expected.rows || found.hash !== expected.hash) {
    throw unverified(
      path,
      `it holds ${found.rows} rows with checksum ${found.hash}, the stage ${expected.rows} with ${expected.hash}`,
    );
  }
  if (found.bad > 0) {
    throw unverified(path, `${found.bad} of its rows have a text that is not UTF-8, or a number that is not finite`);
  }
  const file = await reading;
  if (file.rows !== expected.rows)
    throw unverified(path, `the independent reader finds ${file.rows} rows, not ${expected.rows}`);
  const names = file.schema.map((column) => column.name).join(', ');
  const wanted = columns.map((column) => column.name).join(', ');
  if (names !== wanted) throw unverified(path, `its columns are ${names}, not ${wanted}`);
  return file;
}

/** Decodes some columns of each row group. @throws Fault `SEAL_UNVERIFIED` if the file cannot be read, or has bad values */
export async function readIndependently(path: string): Promise<FileFacts> {
  const file = await readParquet(path).catch((cause: unknown) => {
    throw unverified(path, 'the independent reader cannot read it', cause);
  });
  const [first] = file.bad;
  if (first) throw unverified(path, `"${first.column}" has ${first.rows} values that are not UTF-8 or not finite`);
  return file;
}

function unverified(path: string, reason: string, cause?: unknown): Fault {
  return new Fault('SEAL_UNVERIFIED', `the Parquet file ${path} failed verification: ${reason}`, {
    cause,
    hint: 'Nothing was published; the staged rows are kept. Run again, and report it if it happens again.',
  });
}
