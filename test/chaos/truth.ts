/**
 * What a session really holds, in a DuckDB table of its own, and the comparison of a drop with it: every field of every
 * row, as multisets. Nothing of the product takes part but the table of the API's columns.
 */
import { DuckDBInstance } from '@duckdb/node-api';
import { TRADE_COLUMNS, type TradeColumn } from '../../src/api-contract/trade.ts';

export interface Truth {
  readonly rows: number;
  /** What is wrong with the Parquet file at `path`; empty when it holds exactly these rows. */
  compare(path: string): Promise<readonly string[]>;
  close(): void;
}

/** Differing rows that are named. */
const MAX_NAMED = 3;
const WIRE_TYPES = { string: 'VARCHAR', integer: 'BIGINT', float: 'DOUBLE' } as const;

/** @param file NDJSON of API rows, gzipped or not */
export async function openTruth(file: string): Promise<Truth> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
  const connection = await instance.connect();
  const query = async (sql: string) =>
    (await connection.runAndReadAll(sql)).getRowObjectsJson() as readonly Record<string, unknown>[];
  await connection.run("SET TimeZone = 'UTC'");
  const types = TRADE_COLUMNS.map(({ name, wire }) => `${quote(name)}: '${WIRE_TYPES[wire]}'`).join(', ');
  await connection.run(
    `CREATE TABLE truth AS SELECT ${TRADE_COLUMNS.map(typedSql).join(', ')} FROM read_json('${file}', format = 'newline_delimited', columns = {${types}})`,
  );
  const [counted] = await query('SELECT count(*)::INTEGER AS rows, count(DISTINCT id)::INTEGER AS ids FROM truth');
  if (counted?.['rows'] !== counted?.['ids']) throw new Error(`ids of ${file} are not unique`);
  const names = TRADE_COLUMNS.map(({ name }) => name);
  const columns = TRADE_COLUMNS.map(({ name, drop }) =>
    drop === 'instant' ? `CAST(${quote(name)} AS TIMESTAMP) AS ${quote(name)}` : quote(name),
  ).join(', ');

  return {
    rows: Number(counted?.['rows']),
    async compare(path) {
      const source = `read_parquet('${path}', hive_partitioning = false)`;
      const found = (await query(`DESCRIBE SELECT * FROM ${source}`)).map((row) => String(row['column_name']));
      if (found.join() !== names.join()) return [`its columns are ${found.join()}, not ${names.join()}`];
      await connection.run(`CREATE OR REPLACE TEMP TABLE found AS SELECT ${columns} FROM ${source}`);
      const differences: string[] = [];
      const [unique] = await query('SELECT (count(*) - count(DISTINCT id))::INTEGER AS repeated FROM found');
      if (unique?.['repeated'] !== 0) differences.push(`${unique?.['repeated']} rows repeat an id`);
      for (const [what, a, b] of [
        ['missing or other than at the source', 'truth', 'found'],
        ['not of the source', 'found', 'truth'],
      ] as const) {
        const rows = await query(`SELECT id FROM (SELECT * FROM ${a} EXCEPT ALL SELECT * FROM ${b}) ORDER BY id`);
        const ids = rows.slice(0, MAX_NAMED).map(({ id }) => id);
        if (rows.length > 0) differences.push(`${rows.length} rows are ${what}: ${ids.join(', ')}`);
      }
      return differences;
    },
    close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

/** The value of the wire in the type of the drop. */
function typedSql({ name, drop }: TradeColumn): string {
  const column = quote(name);
  switch (drop) {
    case 'date':
      return `CAST(NULLIF(${column}, '') AS DATE) AS ${column}`;
    case 'wall':
      return `CAST(${column} AS TIMESTAMP) AS ${column}`;
    case 'instant':
      return `epoch_ms(CAST(${column} AS BIGINT)) AS ${column}`;
    case 'int64':
      return `CAST(NULLIF(${column}, '') AS BIGINT) AS ${column}`;
    case 'string':
    case 'int32':
    case 'double':
      return column;
    default:
      return drop satisfies never;
  }
}

function quote(name: string): string {
  return `"${name}"`;
}
