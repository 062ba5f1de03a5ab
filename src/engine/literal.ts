/**
 * SQL text from values, where ClickHouse accepts no bound parameter (settings, file paths, DDL, SQL sent over the API).
 * Pure.
 */

/** A ClickHouse string literal, with backslashes and quotes escaped. */
export function quoteString(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** A back-quoted identifier. */
export function quoteIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** A Parquet file on this disk, as SQL reads it. */
export function parquetFile(path: string): string {
  return `file(${quoteString(path)}, Parquet)`;
}

/** Settings of ClickHouse by name. */
export type EngineSettings = Readonly<Record<string, string | number>>;

/** A SETTINGS clause. */
export function formatSettings(settings: EngineSettings): string {
  const each = Object.entries(settings).map(
    ([name, value]) => `${name} = ${typeof value === 'number' ? value : quoteString(value)}`,
  );
  return `SETTINGS ${each.join(', ')}`;
}
