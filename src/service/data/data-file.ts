/**
 * A file that the service is told to load: its format from its name, and that it is one readable file. Invariant: nothing
 * of its content is looked at; the engine does that.
 */
import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import { describeError, Fault } from '../../core/errors.ts';

/** How a file's format is told from its name; ClickHouse's names of the formats. */
const LINES = [/\.(ndjson|jsonl)(\.gz)?$/i, 'JSONEachRow'] as const;
const CSV = [/\.csv(\.gz)?$/i, 'CSVWithNames'] as const;
const PARQUET = [/\.parquet$/i, 'Parquet'] as const;

export const TEXT_FILES = { formats: [LINES, CSV], names: '.ndjson, .jsonl or .csv (each also with .gz)' } as const;
export const DATA_FILES = {
  formats: [LINES, CSV, PARQUET],
  names: '.ndjson, .jsonl, .csv (each also with .gz) or .parquet',
} as const;

/** @throws Fault `DATA_INVALID` (kind `usage`) when the name tells no format that is allowed */
export function readFormat<Format extends string>(
  file: string,
  allowed: { readonly formats: readonly (readonly [RegExp, Format])[]; readonly names: string },
): Format {
  const format = allowed.formats.find(([pattern]) => pattern.test(file))?.[1];
  if (format !== undefined) return format;
  throw new Fault('DATA_INVALID', `${file}: the format is told from the name, which must end in ${allowed.names}`, {
    kind: 'usage',
  });
}

/**
 * The absolute path, as the engine may read it.
 * @throws Fault `DATA_INVALID` or `DATA_UNREADABLE` (kind `usage`)
 */
export async function findFile(file: string): Promise<string> {
  const path = resolve(file);
  // The engine would expand these to several files.
  if (/[*?{}]/.test(path)) {
    throw new Fault('DATA_INVALID', `${path}: the path contains one of * ? { }, which are not allowed`, {
      kind: 'usage',
    });
  }
  await access(path).catch((cause: unknown) => {
    throw new Fault('DATA_UNREADABLE', `${file}: ${describeError(cause)}`, { kind: 'usage', cause });
  });
  return path;
}
