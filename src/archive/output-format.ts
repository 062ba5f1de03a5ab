/** How an answer is written: the engine writes it to a file, so its size does not matter. A table of data. */
import type { Engine } from '../engine/engine.ts';
import { type EngineSettings, formatSettings, quoteString } from '../engine/literal.ts';

const OUTPUT_FORMATS = ['table', 'json', 'csv', 'arrow', 'parquet'] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** Rows shown of a table for people; a note says if there are more. */
export const MAX_TABLE_ROWS = 1_000;

/** What the engine writes as `table`. */
export type TableAnswer = Readonly<{
  meta: readonly { name: string; type: string }[];
  data: readonly (readonly unknown[])[];
}>;

interface EngineFormat {
  /** ClickHouse's name. */
  readonly name: string;
  readonly settings: EngineSettings;
}

const ENGINE_FORMATS: Readonly<Record<OutputFormat, EngineFormat>> = {
  // One extra row shows that there are more.
  table: { name: 'JSONCompact', settings: { limit: MAX_TABLE_ROWS + 1 } },
  // One array of objects, each formatted as in the API.
  json: { name: 'JSONEachRow', settings: { output_format_json_array_of_rows: 1 } },
  csv: { name: 'CSVWithNames', settings: {} },
  // Not compressed: JavaScript readers have no codec.
  arrow: {
    name: 'Arrow',
    settings: { output_format_arrow_string_as_string: 1, output_format_arrow_compression_method: 'none' },
  },
  parquet: {
    name: 'Parquet',
    settings: { output_format_parquet_string_as_string: 1, output_format_parquet_compression_method: 'zstd' },
  },
};

/** Settings of every statement: those that shape the service's answers too, and how the files are read. */
export const READ_SETTINGS: EngineSettings = {
  output_format_json_validate_utf8: 1,
  output_format_json_quote_64bit_integers: 0,
  session_timezone: 'UTC',
  // 09:30:00, not 09:30:00.000000: fractions only where there are some.
  date_time_64_output_format_cut_trailing_zeros_align_to_groups_of_thousands: 1,
  // Only our own views take the date from the path.
  use_hive_partitioning: 0,
  input_format_parquet_filter_push_down: 1,
  input_format_parquet_bloom_filter_push_down: 1,
  input_format_parquet_page_filter_push_down: 1,
  input_format_parquet_allow_missing_columns: 1,
  // Ranges closer than this are read as one. With the engine's default of 4 MiB, a point query reads a third of a drop.
  remote_read_min_bytes_for_seek: 65_536,
  // It would begin with the first bytes of every file, and give up that request when the footer is read.
  remote_filesystem_read_prefetch: 0,
  // Bytes read for a file's footer alone; 1 MiB would be more than everything else that a point query reads.
  max_read_buffer_size_remote_fs: 65_536,
};

/**
 * For statements over files that others may replace meanwhile. The caches know a file by its name and the second of its
 * change, which a restatement within that second would not alter.
 */
export const WITHOUT_CACHES: EngineSettings = {
  use_cache_for_count_from_files: 0,
  use_parquet_metadata_cache: 0,
  use_query_condition_cache: 0,
  use_query_cache: 0,
};

/** Where an answer is written, and how. */
export interface AnswerFile {
  readonly format: OutputFormat;
  /** It must not exist yet. */
  readonly path: string;
  /** Settings that depend on the machine and on the store; a server has limits of its own. */
  readonly limits: EngineSettings;
  readonly signal: AbortSignal;
}

/** Formats with types of their own, which no terminal shows. */
export function isBinary(format: OutputFormat): format is 'arrow' | 'parquet' {
  return format === 'arrow' || format === 'parquet';
}

/** A column of an answer, with the engine's name of its type. */
export interface AnswerColumn {
  readonly name: string;
  readonly type: string;
}

/** The columns of the answer of `sql` (admitted by the guard). @throws EngineFault if the statement is wrong */
export async function readAnswerColumns(engine: Pick<Engine, 'rows'>, sql: string): Promise<readonly AnswerColumn[]> {
  return await engine.rows<AnswerColumn>(`DESCRIBE TABLE (${sql})`);
}

/** The complete statement that writes the answer of `sql` (admitted by the guard). */
export function describeStatement(sql: string, { format, path, limits }: AnswerFile): string {
  const { name, settings } = describeFormat(format);
  return `${sql} INTO OUTFILE ${quoteString(path)} FORMAT ${name} ${formatSettings({ ...settings, ...limits })}`;
}

/** ClickHouse's name of a format, and all settings of a statement that answers in it. */
export function describeFormat(format: OutputFormat): EngineFormat {
  const { name, settings } = ENGINE_FORMATS[format];
  return { name, settings: { ...READ_SETTINGS, ...settings } };
}
