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

/** A SETTINGS clause; text values are quoted by the caller. */
export function formatSettings(settings: Readonly<Record<string, string | number>>): string {
  return `SETTINGS ${Object.entries(settings)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ')}`;
}
