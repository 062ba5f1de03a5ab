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

const STRUCTURE =
  'symbol Nullable(String), second Int32, rows Int64, ids Int64, mark String, id_hash Nullable(String), value_hash Nullable(String)';

interface CountsRow {
  readonly symbol: string | null;
  readonly second: number;
  readonly rows: number;
  readonly ids: number;
  readonly mark: string;
  readonly id_hash: string | null;
  readonly value_hash: string | null;
}

/** @throws EngineFault; Fault `SEAL_UNVERIFIED` if the file does not have these counts */
export async function writeCounts(engine: Engine, path: string, counts: DayCounts): Promise<void> {
  const lines = `${path}.ndjson`;
  await rm(path, { force: true });
  try {
    await writeFile(lines, counts.map((cell) => `${JSON.stringify(toRow(cell))}\n`).join(''));
    await engine.command(
      `SELECT * FROM ${localFile(lines, 'JSONEachRow', STRUCTURE)} ORDER BY symbol, second INTO OUTFILE ${quoteString(path)} FORMAT Parquet SETTINGS output_format_parquet_compression_method = '${COMPRESSION}', max_threads = 1`,
    );
  } finally {
    await rm(lines, { force: true });
  }
  await writeFooter(path, { columns: [], sort: ['symbol', 'second'], keyValues: {} });
  if (
    isDeepStrictEqual(
      await readCounts(engine, path),
      counts.map((cell) => toCell(toRow(cell))),
    )
  )
    return;
  throw new Fault('SEAL_UNVERIFIED', `the counts file ${path} does not have the counts that flowdrop wrote`, {
    hint: 'Nothing was published; the staged rows are kept. Run again, and report it if it happens again.',
  });
}

/** @throws EngineFault if it is no Parquet file of this form; ZodError if its values cannot be counts */
export async function readCounts(engine: Engine, path: string): Promise<DayCounts> {
  const found = await engine.rows<CountsRow>(
    `SELECT symbol, second, rows, ids, mark, id_hash, value_hash FROM ${parquetFile(path, STRUCTURE)} ORDER BY symbol, second`,
  );
  return dayCountsSchema.parse(found.map(toCell));
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

function toRow({ symbol, second, rows, ids, mark, idHash, valueHash }: DayCounts[number]): CountsRow {
  return { symbol: symbol ?? null, second, rows, ids, mark, id_hash: idHash ?? null, value_hash: valueHash ?? null };
}

function toCell({ symbol, second, rows, ids, mark, id_hash: idHash, value_hash: valueHash }: CountsRow) {
  const cell = { second: Number(second), rows: Number(rows), ids: Number(ids), mark };
  return withoutGaps({
    ...(symbol === null ? cell : { symbol, ...cell }),
    idHash: idHash ?? undefined,
    valueHash: valueHash ?? undefined,
  });
}

/** Without members that are `undefined`, as they are after JSON. */
function withoutGaps(cell: DayCounts[number]): DayCounts[number] {
  return JSON.parse(JSON.stringify(cell)) as DayCounts[number]; // It has the same members.
}
