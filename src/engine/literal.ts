/**
 * SQL text from values, where ClickHouse accepts no bound parameter (settings, file paths, DDL, SQL sent over the API).
 */
import { plainPath } from './plain-path.ts';

/** A ClickHouse string literal, with backslashes and quotes escaped. */
export function quoteString(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** A back-quoted identifier. */
export function quoteIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** A file on this disk, as SQL reads it. @param structure columns with their types; absent: the file's own */
export function localFile(path: string, format: string, structure?: string): string {
  return `file(${quoteString(plainPath(path))}, ${format}${structure === undefined ? '' : `, ${quoteString(structure)}`})`;
}

/** A Parquet file on this disk, as SQL reads it. */
export function parquetFile(path: string, structure?: string): string {
  return localFile(path, 'Parquet', structure);
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
