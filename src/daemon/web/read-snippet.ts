/**
 * How to read a drop, in the languages of those who do. Pure. Invariant: each snippet runs as it is, whatever the columns
 * of the dataset are; in S3 DuckDB and ClickHouse need a key, and the others take that of the environment.
 */
import type { DropDetail } from './api-shape.ts';

const SECRET = `CREATE SECRET (TYPE s3, KEY_ID 'AKIA...', SECRET '...', REGION 'us-east-1');\n`;

/** Pairs of a reader's name and a text to paste; none for a date that is not sealed. */
export function listSnippets({
  job,
  location,
  dataset,
  date,
}: Pick<DropDetail['drop'], 'job' | 'location' | 'dataset' | 'date'>): readonly (readonly [string, string])[] {
  if (location === null) return [];
  const isRemote = location.startsWith('s3://');
  const sql = quote(location);
  const python = JSON.stringify(location);
  const table = isRemote ? `s3(${sql}, 'AKIA...', '...', 'Parquet')` : `file(${sql}, 'Parquet')`;
  // Backquotes mean something to a shell, too.
  const name = /^[A-Za-z_]\w*$/.test(dataset) ? dataset : `\\\`${dataset}\\\``;
  return [
    ['DuckDB', `${isRemote ? SECRET : ''}SELECT * FROM read_parquet(${sql}) LIMIT 10;`],
    ['pandas', `import pandas as pd\ntrades = pd.read_parquet(${python})\nprint(trades)`],
    ['Polars', `import polars as pl\ntrades = pl.scan_parquet(${python})\nprint(trades.collect())`],
    ['ClickHouse', `SELECT * FROM ${table} LIMIT 10;`],
    ['flowdrop', `flowdrop query "SELECT * FROM ${name} WHERE date = '${date}' LIMIT 10" --job ${job}`],
  ];
}

/** As text of SQL. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
