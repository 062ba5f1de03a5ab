-- The tables of ../recipes.md as views of DuckDB: run it where `out/drops` is, or write `s3://...`.
CREATE VIEW trades AS
SELECT * FROM read_parquet('out/drops/trades/*/*.parquet', union_by_name = true, hive_partitioning = false);

CREATE VIEW trades_summary AS
SELECT CAST(regexp_extract(filename, 'session=([0-9-]+)', 1) AS DATE) AS date, * EXCLUDE (filename)
FROM read_parquet('out/drops/_flowdrop/trades/*/summary.parquet', union_by_name = true, filename = true, hive_partitioning = false)
WHERE symbol != '' AND segment = '';

-- Only with drops of the job option-chain
CREATE VIEW option_chain AS
SELECT * FROM read_parquet('out/drops/option-chain/*/*.parquet', union_by_name = true, hive_partitioning = false);
