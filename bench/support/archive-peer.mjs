/** The same as archive-peer.py without Python: DuckDB and Polars from npm. Plain JavaScript, so that it starts at once. */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [engine, setupText] = process.argv.slice(2);
const setup = JSON.parse(setupText);

const { version, ask } = engine === 'duckdb' ? await openDuckDb() : await openPolars();
process.stdout.write(`${JSON.stringify({ version })}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const before = readBytes();
  const started = performance.now();
  const read = await ask(JSON.parse(line).sql);
  const ms = performance.now() - started;
  const bytes = readBytes() - before;
  process.stdout.write(`${JSON.stringify({ ms, bytes, rows: read().map((row) => row.map(plain)) })}\n`);
}
// Engines' threads would keep the process alive.
process.exit(0);

async function openDuckDb() {
  const { DuckDBInstance, version } = await import('@duckdb/node-api');
  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  for (const statement of setup.duckdb) await connection.run(statement);
  return {
    version: version(),
    ask: async (sql) => {
      const result = await connection.runAndReadAll(sql);
      return () => result.getRowsJS();
    },
  };
}

async function openPolars() {
  const { default: polars } = await import('nodejs-polars');
  return {
    version: polars.version,
    ask: async (sql) => {
      const trades = polars.scanParquet(setup.files, { hivePartitioning: true });
      const frame = polars.SQLContext({ trades }).execute(sql, { eager: false }).collectSync({ engine: 'streaming' });
      return () => frame.rows();
    },
  };
}

function plain(value) {
  if (typeof value === 'bigint') return Number(value);
  return value instanceof Date ? value.toISOString().slice(0, 19).replace('T', ' ') : value;
}

function readBytes() {
  return Number(/^rchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}
