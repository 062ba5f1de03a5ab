/**
 * Entry of a process that runs one query with DuckDB and prints the bytes that it read, as the kernel counts them, and
 * its rows. It reads as it would from S3 (`prefetch_all_parquet_files`): its own S3 client is an extension that has to be
 * downloaded, and the bench runs without the internet.
 */
import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

const [sql = ''] = process.argv.slice(2);
const instance = await DuckDBInstance.create(':memory:');
const connection = await instance.connect();
await connection.run('SET prefetch_all_parquet_files = true');
// What the first query loads for itself is not the file's.
await connection.run('SELECT 1');
const before = readBytes();
const result = await connection.runAndReadAll(sql);
const bytes = readBytes() - before;
process.stdout.write(JSON.stringify({ bytes, rows: result.currentRowCount }), () => process.exit(0));

function readBytes(): number {
  return Number(/^rchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}
