/**
 * Checks a file to load: its format, taken from the name, and that the path is one existing file. Invariant: the
 * content is not read here; the engine reads it.
 */
import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import { describeError, Fault } from '../../core/errors.ts';

/** File name patterns and the ClickHouse format for each. */
const LINES = [/\.(ndjson|jsonl)(\.gz)?$/i, 'JSONEachRow'] as const;
const CSV = [/\.csv(\.gz)?$/i, 'CSVWithNames'] as const;
const PARQUET = [/\.parquet$/i, 'Parquet'] as const;

export const TEXT_FILES = { formats: [LINES, CSV], names: '.ndjson, .jsonl or .csv (each also with .gz)' } as const;
export const DATA_FILES = {
  formats: [LINES, CSV, PARQUET],
  names: '.ndjson, .jsonl, .csv (each also with .gz) or .parquet',
} as const;

/** @throws Fault `DATA_INVALID` (kind `usage`) when the name does not end in an allowed format */
export function readFormat<Format extends string>(
  file: string,
  allowed: { readonly formats: readonly (readonly [RegExp, Format])[]; readonly names: string },
): Format {
  const format = allowed.formats.find(([pattern]) => pattern.test(file))?.[1];
  if (format !== undefined) return format;
  throw new Fault('DATA_INVALID', `${file}: the format comes from the file name, which must end in ${allowed.names}`, {
    kind: 'usage',
  });
}

/**
 * The absolute path for the engine.
 * @throws Fault `DATA_UNREADABLE` (kind `usage`)
 */
export async function findFile(file: string): Promise<string> {
  const path = resolve(file);
  await access(path).catch((cause: unknown) => {
    throw new Fault('DATA_UNREADABLE', `${file}: ${describeError(cause)}`, { kind: 'usage', cause });
  });
  return path;
}
