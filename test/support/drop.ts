/**
 * Reading drops back with readers that are not ours: DuckDB, hyparquet, parquetjs-lite (whose codecs do not include ZSTD,
 * so it reads the footer). Values are normalised to what the API sends, so that they can be compared with the input.
 */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { createGunzip } from 'node:zlib';
import { DuckDBInstance } from '@duckdb/node-api';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { dropKeyOf } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Store } from '../../src/store/store.ts';

/** Rows and sum of the premium, by date. */
export type Sums = Readonly<Record<string, readonly [rows: number, premium: number]>>;

export type ApiRow = Readonly<Record<string, string | number>>;

/** Rows of a gzipped NDJSON file, by id. */
export async function readInput(path: string): Promise<ReadonlyMap<string, ApiRow>> {
  const rows = new Map<string, ApiRow>();
  for await (const line of createInterface({ input: createReadStream(path).pipe(createGunzip()) })) {
    if (line.trim() === '') continue;
    const row = JSON.parse(line) as ApiRow;
    rows.set(String(row['id']), row);
  }
  return rows;
}

/** Every row of a drop as the API would send it, read by DuckDB, in file order. */
export async function readWithDuckDb(path: string): Promise<readonly ApiRow[]> {
  const rows = await queryDuckDb(
    `SELECT * FROM read_parquet('${path}', file_row_number = true, hive_partitioning = false) ORDER BY file_row_number`,
  );
  return rows.map(({ file_row_number: _, ...row }) =>
    normalise(row, {
      date: (value) => String(value),
      wall: (value) => String(value),
      instant: (value) => String(Date.parse(`${String(value).replace(' ', 'T').replace(/\+00$/, '')}Z`)),
    }),
  );
}

/** One for the process: to start one takes longer than to read a small drop. Of files it keeps nothing. */
let duckDb: Promise<DuckDBInstance> | undefined;

/** A connection for many queries, whose results are JSON-able rows. */
export async function openDuckDb() {
  duckDb ??= DuckDBInstance.create(':memory:', { enable_external_file_cache: 'false' });
  const connection = await (await duckDb).connect();
  await connection.run("SET TimeZone = 'UTC'");
  return {
    query: async (sql: string) =>
      (await connection.runAndReadAll(sql)).getRowObjectsJson() as readonly Record<string, unknown>[],
    close: () => connection.closeSync(),
  };
}

/** Rows of any DuckDB query, JSON-able. */
export async function queryDuckDb(sql: string): Promise<readonly Record<string, unknown>[]> {
  const connection = await openDuckDb();
  try {
    return await connection.query(sql);
  } finally {
    connection.close();
  }
}

/** What the sealed files of a dataset say, each read by itself. @param scratch local path of one file */
export async function sumSealed(store: Store, dataset: string, scratch: string): Promise<Sums> {
  const ledger = new Ledger(store, dataset);
  const sums: Record<string, readonly [number, number]> = {};
  for (const date of await ledger.dates()) {
    const manifest = await ledger.manifest(date);
    if (!manifest || !(await store.download(dropKeyOf(manifest), scratch))) throw new Error(`${date} is not sealed`);
    const [row] = await queryDuckDb(
      `SELECT count(*)::INTEGER AS n, round(sum(premium), 2) AS p FROM read_parquet('${scratch}')`,
    );
    sums[date] = [Number(row?.['n']), Number(row?.['p'])];
    if (manifest.rows !== sums[date]?.[0]) throw new Error(`${date} has ${row?.['n']} rows, not ${manifest.rows}`);
  }
  return sums;
}

/** Every row of a drop as the API would send it, read by hyparquet, in file order. */
export async function readWithHyparquet(path: string): Promise<readonly ApiRow[]> {
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors });
  return rows.map((row) =>
    normalise(row, {
      date: (value) => (value as Date).toISOString().slice(0, 10),
      wall: (value) => (value as Date).toISOString().slice(0, 19).replace('T', ' '),
      instant: (value) => String((value as Date).getTime()),
    }),
  );
}

/** Rows that the footer promises, read by parquetjs-lite (whose decoder of time statistics fails on 64-bit values). */
export async function countWithParquetJs(path: string): Promise<number> {
  const { ParquetReader } = await import('parquetjs-lite');
  const reader = await ParquetReader.openFile(path, { rawStatistics: true });
  try {
    return Number(reader.getRowCount());
  } finally {
    await reader.close();
  }
}

interface Formats {
  readonly date: (value: unknown) => string;
  readonly wall: (value: unknown) => string;
  readonly instant: (value: unknown) => string;
}

function normalise(row: Readonly<Record<string, unknown>>, formats: Formats): ApiRow {
  const out: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(row)) out[name] = normaliseValue(name, value, formats);
  return out;
}

function normaliseValue(name: string, value: unknown, formats: Formats): string | number {
  if (value === null || value === undefined) return '';
  if (name === 'market_cap') return String(value);
  if (name === 'date' || name === 'expiration_date' || name === 'earning_date') return formats.date(value);
  if (name === 'time') return formats.wall(value);
  if (name === 'updated_timestamp') return formats.instant(value);
  return typeof value === 'bigint' ? Number(value) : (value as string | number);
}
