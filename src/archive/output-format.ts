/** How an answer is written: by the engine itself, into a file, so that its size is no matter. A table of data. */
import { quoteString } from '../engine/literal.ts';

const OUTPUT_FORMATS = ['table', 'json', 'csv', 'arrow', 'parquet'] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** Rows of a table for people; more are said to be there. */
export const MAX_TABLE_ROWS = 1_000;

interface EngineFormat {
  /** ClickHouse's name. */
  readonly name: string;
  readonly settings: Readonly<Record<string, string | number>>;
}

const ENGINE_FORMATS: Readonly<Record<OutputFormat, EngineFormat>> = {
  // One row more tells that there are more.
  table: { name: 'JSONCompact', settings: { limit: MAX_TABLE_ROWS + 1 } },
  // One array of objects, each as the API answers it.
  json: { name: 'JSONEachRow', settings: { output_format_json_array_of_rows: 1 } },
  csv: { name: 'CSVWithNames', settings: {} },
  // Not compressed: readers in JavaScript have no codec.
  arrow: {
    name: 'Arrow',
    settings: { output_format_arrow_string_as_string: 1, output_format_arrow_compression_method: "'none'" },
  },
  parquet: {
    name: 'Parquet',
    settings: { output_format_parquet_string_as_string: 1, output_format_parquet_compression_method: "'zstd'" },
  },
};

/** The same for every statement: what the service's answers depend on, and how the files are read. */
const SETTINGS: Readonly<Record<string, string | number>> = {
  output_format_json_validate_utf8: 1,
  output_format_json_quote_64bit_integers: 0,
  session_timezone: "'UTC'",
  // The path says the date only to our own views.
  use_hive_partitioning: 0,
  input_format_parquet_filter_push_down: 1,
  input_format_parquet_bloom_filter_push_down: 1,
  input_format_parquet_page_filter_push_down: 1,
  input_format_parquet_allow_missing_columns: 1,
  // Ranges nearer to each other are read as one. At the engine's 4 MiB a point query reads a third of a drop.
  remote_read_min_bytes_for_seek: 65_536,
  // What is read of a file for its footer alone; at 1 MiB more than all else that a point query needs.
  max_read_buffer_size_remote_fs: 65_536,
};

/**
 * The whole statement that writes the answer of `sql` (admitted by the guard) to `path`.
 * @param maxMemoryBytes above it the statement fails, rather than the machine
 */
export function describeStatement(sql: string, format: OutputFormat, path: string, maxMemoryBytes: number): string {
  const { name, settings } = ENGINE_FORMATS[format];
  const all = Object.entries({ ...SETTINGS, ...settings, max_memory_usage: maxMemoryBytes }).map(
    ([setting, value]) => `${setting} = ${value}`,
  );
  return `${sql} INTO OUTFILE ${quoteString(path)} FORMAT ${name} SETTINGS ${all.join(', ')}`;
}
