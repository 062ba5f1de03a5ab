/**
 * Stage -> one sorted Parquet file, written by the engine in stage order, so that memory stays flat. Where an id came
 * more than once, the row with the newest `updated_timestamp` wins. The file is local; `publish.ts` puts it in the store.
 */
import { rm } from 'node:fs/promises';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import { convertColumn, type DropColumn, typeColumn } from './columns.ts';

/** Readers parallelise and prune by row group; DuckDB and Spark like 100 K to 1 M rows. */
export const ROW_GROUP_ROWS = 131_072;
export const COMPRESSION = 'zstd';
/**
 * Above this a column of nearly distinct values is written plain. At the engine's default of 1 MiB a dictionary of all
 * 131,072 numbers of a row group just fits, and made the file 5 % larger.
 */
const MAX_DICTIONARY_BYTES = 524_288;

export interface StageTable {
  /** Quoted name of the stage's table. */
  readonly table: string;
  /** Rows in it beyond one for each id. */
  readonly duplicates: number;
}

export interface DropChecksum {
  readonly rows: number;
  /** Sum of a hash of every row, modulo 2^64, as decimal text: independent of order, not of content. */
  readonly hash: string;
}

/** Writes the file and returns the checksum of what it should hold. @throws EngineFault when a text is not of its column's type */
export async function writeParquet(
  engine: Engine,
  job: Job,
  stage: StageTable,
  columns: readonly DropColumn[],
  path: string,
): Promise<DropChecksum> {
  await rm(path, { force: true });
  const sort = job.drop.sort.map((name) => sortExpression(name, columns)).join(', ');
  const select = selectTyped(job, stage, columns);
  await engine.command(
    `${select} ORDER BY ${sort} INTO OUTFILE ${quoteString(path)} FORMAT Parquet SETTINGS ${[
      `output_format_parquet_row_group_size = ${ROW_GROUP_ROWS}`,
      `output_format_parquet_compression_method = '${COMPRESSION}'`,
      `output_format_parquet_max_dictionary_size = ${MAX_DICTIONARY_BYTES}`,
      'output_format_parquet_write_page_index = 1',
      'output_format_parquet_write_bloom_filter = 1',
      // All filters after the last page, whatever their size: footer.ts leaves most of them out.
      `output_format_parquet_bloom_filter_flush_threshold_bytes = ${Number.MAX_SAFE_INTEGER}`,
      'optimize_read_in_order = 1',
      // Blocks that divide a row group make groups of the size asked for.
      `max_block_size = ${ROW_GROUP_ROWS / 2}`,
    ].join(', ')}`,
  );
  return await readChecksum(engine, select, columns);
}

/** Checksum of a written file, read back through the engine. */
export async function checksumParquet(
  engine: Engine,
  path: string,
  columns: readonly DropColumn[],
): Promise<DropChecksum> {
  return await readChecksum(engine, `SELECT * FROM file(${quoteString(path)}, Parquet)`, columns);
}

async function readChecksum(engine: Engine, select: string, columns: readonly DropColumn[]): Promise<DropChecksum> {
  const values = columns.map(({ name }) => `ifNull(toString(${quoteIdentifier(name)}), '\\0')`).join(', ');
  const [sum] = await engine.rows<{ rows: number; hash: string }>(
    `SELECT count() AS rows, toString(sum(cityHash64(${values}))) AS hash FROM (${select})`,
  );
  return { rows: Number(sum?.rows ?? 0), hash: sum?.hash ?? '' };
}

function selectTyped(job: Job, stage: StageTable, columns: readonly DropColumn[]): string {
  const select = `SELECT ${columns.map(typeColumn).join(', ')} FROM ${stage.table} AS s`;
  if (stage.duplicates === 0 || job.source.kind !== 'rows') return select;
  const newest = job.source.columns.some(({ name }) => name === 'updated_timestamp') ? 'updated_timestamp DESC, ' : '';
  const ranked = `SELECT _part, _part_offset, row_number() OVER (PARTITION BY id ORDER BY ${newest}_part DESC, _part_offset DESC) AS place FROM ${stage.table} WHERE id IN (SELECT id FROM ${stage.table} GROUP BY id HAVING count() > 1)`;
  return `${select} WHERE (s._part, s._part_offset) NOT IN (SELECT _part, _part_offset FROM (${ranked}) WHERE place > 1)`;
}

/**
 * The stage's own order where it is that of the drop's type, so that the stage is read in order. Numbers and instants
 * staged as text, and texts that become null (last, as the footer declares), are sorted as what they become.
 */
function sortExpression(name: string, columns: readonly DropColumn[]): string {
  const column = columns.find((candidate) => candidate.name === name);
  const asText = column && !column.nullable && column.type !== 'int64' && column.type !== 'instant';
  return asText || !column ? `s.${quoteIdentifier(name)}` : `${convertColumn(column)} ASC NULLS LAST`;
}
