/** The same as archive-peer.py without Python, with DuckDB from npm. Plain JavaScript, so that it starts at once. */
import { createInterface } from 'node:readline';
import { DuckDBInstance, version } from '@duckdb/node-api';

const files = process.argv[3];
const connection = await (await DuckDBInstance.create(':memory:')).connect();
await connection.run(`CREATE VIEW trades AS SELECT * FROM read_parquet('${files}', hive_partitioning = true)`);
process.stdout.write(`${JSON.stringify({ version: version() })}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const started = performance.now();
  const result = await connection.runAndReadAll(JSON.parse(line).sql);
  const ms = performance.now() - started;
  process.stdout.write(`${JSON.stringify({ ms, rows: result.getRowsJS().map((row) => row.map(plain)) })}\n`);
}
// Engines' threads would keep the process alive.
process.exit(0);

function plain(value) {
  if (typeof value === 'bigint') return Number(value);
  return value instanceof Date ? value.toISOString().slice(0, 19).replace('T', ' ') : value;
}
