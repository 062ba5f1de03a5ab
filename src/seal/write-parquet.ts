/**
 * The engine writes the stage as one sorted Parquet file, in the stage's order, so that memory stays flat. If a trade
 * came more than once, the row with the newest `updated_timestamp` wins. Before it is published it is read back twice: the
 * engine compares every value with the stage by checksum, and an independent reader (hyparquet) must find the same rows and
 * schema, which detects a bug of the writer that the engine's own reader tolerates.
 */

import { rm } from 'node:fs/promises';
import type { DropType } from '../api-contract/trade.ts';
import { Fault } from '../core/errors.ts';
import { sideBySide } from '../core/side-by-side.ts';
import { COLUMN_TYPES, isNullMark } from '../engine/column-types.ts';
import type { Engine, StatementOptions } from '../engine/engine.ts';
import { type EngineSettings, formatSettings, parquetFile, quoteIdentifier, quoteString } from '../engine/literal.ts';
import { HAS_ID, versionKeySql, withRepeatedIds } from '../engine/repeated-ids.ts';
import type { Job, JobColumn } from '../job/job.ts';
import { type FileFacts, readParquet } from './parquet-reader.ts';

/**
 * DuckDB, hyparquet and by default ClickHouse read a whole row group for a single contract: with 131,072 rows a point
 * query read more than 2% of a session of 7 million. Scans want large groups; DuckDB's have 122,880 rows. Must be a multiple of 48 (`STAGE_BLOCK_ROWS`).
 */
export const ROW_GROUP_ROWS = 49_152;
/** Of our own small files. */
export const COMPRESSION = 'zstd';
/**
 * Above this size a column has no dictionary. Dictionaries of nearly distinct numbers make the file larger. So does
 * another limit: 1% with 64 KiB, 2% with 192 KiB.
 */
const MAX_DICTIONARY_BYTES = 131_072;

/** Small pages, so that readers can skip some by the page index: the engine's 1 MiB makes a column chunk one page. */
const PAGE_BYTES = 131_072;

const PARQUET_SETTINGS: EngineSettings = {
  output_format_parquet_row_group_size: ROW_GROUP_ROWS,
  output_format_parquet_max_dictionary_size: MAX_DICTIONARY_BYTES,
  output_format_parquet_data_page_size: PAGE_BYTES,
  output_format_parquet_write_page_index: 1,
  output_format_parquet_write_bloom_filter: 1,
  // All filters after the last page: footer.ts removes most of them.
  output_format_parquet_bloom_filter_flush_threshold_bytes: Number.MAX_SAFE_INTEGER,
  // Blocks must divide a row group, so that groups get the intended size.
  max_block_size: ROW_GROUP_ROWS / 2,
};

/** Encoding of a drop, on every engine. */
export function encodingOf(compression: Job['drop']['compression']): EngineSettings {
  // Readers without Zstandard are old: the oldest read no dictionaries either.
  const dictionaries = compression === 'zstd' ? {} : { output_format_parquet_max_dictionary_size: 0 };
  return { ...PARQUET_SETTINGS, ...dictionaries, output_format_parquet_compression_method: compression };
}

/** Rows of a block of the stage: a divisor of a row group, which consists of whole blocks. */
const STAGE_BLOCK_ROWS = ROW_GROUP_ROWS / 48;

/** Settings to read a stage in its own order. */
const READ_SETTINGS: Readonly<Record<string, number>> = {
  optimize_read_in_order: 1,
  // Off: otherwise each part of the stage prefetches blocks, and memory grows with the parts.
  read_in_order_use_buffering: 0,
  // Every step between a part and the file holds a block of each part.
  max_block_size: STAGE_BLOCK_ROWS,
  // Blocks limited by bytes would give different row groups, and so different files, for two exports of the same rows.
  preferred_block_size_bytes: 0,
};

/** To read a stage while another statement writes it: one core is left, and memory is for the file. */
const CHECK_SETTINGS: Readonly<Record<string, number>> = { max_threads: 1, max_block_size: 8192 };

interface StageTable {
  /** Quoted name of the stage's table. */
  readonly table: string;
  /** Rows in it beyond one per trade. */
  readonly duplicates: number;
}

export interface DropChecksum {
  readonly rows: number;
  /** Sum of a hash of every row, modulo 2^64, as decimal text: depends on the content, not on the order. */
  readonly hash: string;
}

/** Writes the file and returns its expected checksum. @throws EngineFault if a text does not fit its column's type */
export async function writeParquet(
  engine: Engine,
  job: Job,
  stage: StageTable,
  columns: readonly DropColumn[],
  path: string,
  signal?: AbortSignal,
): Promise<DropChecksum> {
  await rm(path, { force: true });
  const sort = job.drop.sort.map((name) => sortExpression(name, columns)).join(', ');
  const write = async (select: string, options: StatementOptions = {}) =>
    await engine.command(
      `${select} ORDER BY ${sort} INTO OUTFILE ${quoteString(path)} FORMAT Parquet ${formatSettings({ ...encodingOf(job.drop.compression), ...READ_SETTINGS })}`,
      { signal, ...options },
    );
  const check = async (select: string) =>
    await readChecksum(engine, `${select} ${formatSettings(CHECK_SETTINGS)}`, columns, { signal });
  const select = `SELECT ${columns.map(typeColumn).join(', ')} FROM ${stage.table} AS s`;
  if (stage.duplicates === 0 || job.source.kind !== 'rows') {
    // One core writes a file, whatever it is allowed.
    const [, checksum] = await sideBySide(write(select, { beside: true }), check(select));
    return checksum;
  }
  const names = job.source.columns.map(({ name }) => name);
  return await withRepeatedIds(engine, stage.table, names, async (repeated) => {
    const newest = `${select} WHERE ${isNewest(names, stage.table, repeated)}`;
    await write(newest);
    return await check(newest);
  });
}

/** Settings to read a file back: by default the engine decodes many row groups ahead. */
export const READ_BACK_SETTINGS: Readonly<Record<string, number>> = {
  input_format_parquet_memory_high_watermark: 32 * 1024 * 1024,
  input_format_parquet_max_block_size: 8192,
};

/** Checksum of a written file, read back through the engine, and its rows with a text or a number that is none for others. */
export async function checksumParquet(engine: Engine, path: string, columns: readonly DropColumn[]) {
  const list = (type: DropColumn['type']) =>
    columns.filter((column) => column.type === type).map(({ name }) => `assumeNotNull(${quoteIdentifier(name)})`);
  const texts = list('string').map((value) => `NOT isValidUTF8(${value})`);
  const numbers = list('double').map((value) => `NOT isFinite(${value})`);
  const bad = [...texts, ...numbers, 'false'].join(' OR ');
  const select = `SELECT * FROM ${parquetFile(path)} ${formatSettings(READ_BACK_SETTINGS)}`;
  return await readChecksum(engine, select, columns, {}, bad);
}

/**
 * Checksum of a query's result. Stage and file have the same types, so values can be hashed directly: half the work of
 * hashing text.
 * @param bad condition of rows that are counted
 */
export async function readChecksum(
  engine: Pick<Engine, 'rows'>,
  select: string,
  columns: readonly DropColumn[],
  options: StatementOptions = {},
  bad = 'false',
): Promise<DropChecksum & { readonly bad: number }> {
  const [sum] = await engine.rows<{ rows: number; hash: string; bad: number }>(
    `SELECT count() AS rows, toString(sum(cityHash64(${columns.map(hashedValue).join(', ')}))) AS hash, countIf(${bad}) AS bad FROM (${select})`,
    options,
  );
  return { rows: Number(sum?.rows ?? 0), hash: sum?.hash ?? '', bad: Number(sum?.bad ?? 0) };
}

/** A null has no hash: a flag marks it, beside a constant value. */
function hashedValue({ name, type, nullable }: DropColumn): string {
  const value = quoteIdentifier(name);
  return nullable ? `isNull(${value}), ifNull(${value}, ${COLUMN_TYPES[type].some})` : value;
}

/** Condition for a row of the stage `s`. @param repeated table of the ids that more than one row has */
function isNewest(columns: readonly string[], table: string, repeated: string): string {
  const newest = columns.includes('updated_timestamp') ? 'updated_timestamp DESC, ' : '';
  const key = versionKeySql(columns, `SELECT id FROM ${repeated} WHERE shared`);
  const ranked = `SELECT _part, _part_offset, row_number() OVER (PARTITION BY ${key} ORDER BY ${newest}_part DESC, _part_offset DESC) AS place FROM ${table} WHERE ${HAS_ID} AND id IN (SELECT id FROM ${repeated})`;
  return `(s._part, s._part_offset) NOT IN (SELECT _part, _part_offset FROM (${ranked}) WHERE place > 1)`;
}

/**
 * The staged value if it sorts like the drop's type, so that the stage is read in order. Instants and long integers,
 * which are staged as text, and nulls (last, as the footer declares) are sorted by their typed value.
 */
function sortExpression(name: string, columns: readonly DropColumn[]): string {
  const column = columns.find((candidate) => candidate.name === name);
  const isSorted = column && !column.nullable && column.type !== 'int64' && column.type !== 'instant';
  return isSorted || !column ? `s.${quoteIdentifier(name)}` : `${convertColumn(column)} ASC NULLS LAST`;
}

/** A column of the drop. */
export interface DropColumn {
  readonly name: string;
  readonly type: DropType;
  readonly nullable: boolean;
  /** Whether staged values may be null; testing every value costs time. */
  readonly hasNulls: boolean;
  readonly emptyIsNull: boolean;
  readonly description: string;
}

/**
 * The columns of a drop: the job's, then every extra field of the answers, kept as text.
 * @param withNulls columns that are rarely null, but have a null here
 */
export function listDropColumns(
  columns: readonly JobColumn[],
  extraFields: readonly string[],
  withNulls: readonly string[] = [],
): readonly DropColumn[] {
  return [
    ...columns.map(({ name, type, nullable, oftenNull, description }) => ({
      ...{ name, type, nullable, description },
      hasNulls: oftenNull || withNulls.includes(name),
      emptyIsNull: oftenNull,
    })),
    ...extraFields.map((name) => ({
      ...{ name, type: 'string' as const, nullable: false, hasNulls: false, emptyIsNull: false },
      description: 'Not in the contract; kept as received.',
    })),
  ];
}

/** A column of a SELECT list. */
export function typeColumn(column: DropColumn): string {
  return `${convertColumn(column)} AS ${quoteIdentifier(column.name)}`;
}

/** The typed value of a staged value. Column names are qualified with the alias `s`. */
function convertColumn({ name, type, nullable, hasNulls, emptyIsNull }: DropColumn): string {
  const value = `s.${quoteIdentifier(name)}`;
  const typed = COLUMN_TYPES[type].seal(value);
  if (!nullable) return typed;
  return hasNulls ? `if(${isNullMark(type, emptyIsNull, value)}, NULL, ${typed})` : `toNullable(${typed})`;
}

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
