/**
 * `counts.parquet`: the source's counts of a date by cell, as its last recount proved them. Audits compare them with the
 * source's counts now, so no drop is downloaded for that. One row a cell: `symbol` (null along the time), `second`, `rows`,
 * `ids`, `mark`, `id_hash`, `value_hash` (null if the source hashed nothing). Hashes are text: they need 64 bits without a
 * sign. Invariant: what is written reads back equal.
 */
import { rm, writeFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { localFile, parquetFile, quoteString } from '../engine/literal.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { type DayCounts, dayCountsSchema, sumCounts, sumHashes } from '../plan/counts.ts';
import { writeFooter } from './footer.ts';
import { COMPRESSION } from './write-parquet.ts';

const CELL = 'symbol Nullable(String), second Int32, rows Int64, ids Int64, mark String';
const HASHES = 'id_hash Nullable(String), value_hash Nullable(String)';
const FIELDS = `${CELL}, idHash Nullable(String), valueHash Nullable(String)`;

/** @throws EngineFault; Fault `SEAL_UNVERIFIED` if the file does not have these counts */
export async function writeCounts(engine: Engine, path: string, counts: DayCounts): Promise<void> {
  const lines = `${path}.ndjson`;
  // Members that are `undefined` are absent in JSON.
  const cells = counts.map((cell) => JSON.stringify(cell));
  await rm(path, { force: true });
  try {
    await writeFile(lines, cells.map((cell) => `${cell}\n`).join(''));
    await engine.command(
      `SELECT symbol, second, rows, ids, mark, idHash AS id_hash, valueHash AS value_hash FROM ${localFile(lines, 'JSONEachRow', FIELDS)} ORDER BY symbol, second INTO OUTFILE ${quoteString(path)} FORMAT Parquet SETTINGS output_format_parquet_compression_method = '${COMPRESSION}', max_threads = 1`,
    );
  } finally {
    await rm(lines, { force: true });
  }
  await writeFooter(path, { columns: [], sort: ['symbol', 'second'], keyValues: {} });
  if (isDeepStrictEqual(await readCounts(engine, path), JSON.parse(`[${cells.join()}]`))) return;
  throw new Fault('SEAL_UNVERIFIED', `the counts file ${path} does not have the counts that flowdrop wrote`, {
    hint: 'Nothing was published; the staged rows are kept. Run again, and report it if it happens again.',
  });
}

/** @throws EngineFault if it is no Parquet file of this form; ZodError if its values cannot be counts */
export async function readCounts(engine: Engine, path: string): Promise<DayCounts> {
  const found = await engine.rows(
    `SELECT symbol, second, rows, ids, mark, id_hash AS idHash, value_hash AS valueHash FROM ${parquetFile(path, `${CELL}, ${HASHES}`)} ORDER BY symbol, second`,
  );
  return dayCountsSchema.parse(
    found.map((cell) => Object.fromEntries(Object.entries(cell).filter(([, value]) => value !== null))),
  );
}

/** What of the counts disagrees with the manifest, in words. */
export async function compareCounts(
  engine: Engine,
  path: string,
  { source_rows: sourceRows, recount }: Pick<Manifest, 'source_rows' | 'recount'>,
): Promise<readonly string[]> {
  const counts = await readCounts(engine, path);
  const { rows } = sumCounts(counts);
  const { idHash, valueHash } = sumHashes(counts);
  const facts: readonly (readonly [string, unknown, unknown])[] = [
    ['rows', rows, sourceRows],
    ['hash of ids', idHash, recount?.id_hash],
    ['hash of values', valueHash, recount?.value_hash],
  ];
  return facts
    .filter(([, has, says]) => has !== says)
    .map(([what, has, says]) => `the counts have ${String(has)} as the ${what}, the manifest ${String(says)}`);
}
