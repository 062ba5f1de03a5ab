CREATE SETTINGS PROFILE IF NOT EXISTS flowdrop_reader SETTINGS
  readonly = 2,
  allow_ddl = 0 CONST,
  allow_introspection_functions = 0 CONST,
  max_rows_to_read = 20000000 MIN 1 MAX 20000000,
  read_overflow_mode = 'throw' CONST,
  max_execution_time = 60 MIN 1 MAX 60,
  timeout_overflow_mode = 'throw' CONST,
  max_memory_usage = 4000000000 MIN 1 MAX 4000000000,
  max_memory_usage_for_user = 16000000000 CONST,
  max_result_rows = 1000001 MIN 1 MAX 1000001,
  max_result_bytes = 256000000 MIN 1 MAX 256000000,
  result_overflow_mode = 'throw' CONST,
  max_temporary_data_on_disk_size_for_query = 10000000000 CONST,
  max_concurrent_queries_for_user = 32 CONST,
  max_threads = 4 MIN 1 MAX 4;

CREATE QUOTA IF NOT EXISTS flowdrop_reader
  FOR INTERVAL 1 HOUR MAX queries = 40000, read_rows = 100000000000, execution_time = 14400;

CREATE ROLE IF NOT EXISTS flowdrop_reader SETTINGS PROFILE 'flowdrop_reader';

GRANT SELECT ON flowdrop.* TO flowdrop_reader;

GRANT SELECT ON system.processes TO flowdrop_reader;

CREATE USER IF NOT EXISTS flowdrop IDENTIFIED WITH sha256_password BY 'change-me'
  SETTINGS PROFILE 'flowdrop_reader';

GRANT flowdrop_reader TO flowdrop;

ALTER QUOTA flowdrop_reader TO flowdrop;
