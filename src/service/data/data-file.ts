/**
 * A file to load: its format, which comes from its name, its path for the engine, and what is said of its faults.
 * Invariant: only the engine reads the content.
 */
import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import { describeError, Fault } from '../../core/errors.ts';
import type { StatementRunner } from '../backend.ts';

export interface InputFile {
  /** As the user gave it. */
  readonly name: string;
  /** Absolute. */
  readonly path: string;
  /** ClickHouse's name. */
  readonly format: 'JSONEachRow' | 'CSVWithNames' | 'Parquet';
}

interface Formats {
  /** Patterns of file names. */
  readonly patterns: readonly (readonly [RegExp, InputFile['format']])[];
  readonly names: string;
}

const TEXTS = [
  [/\.(ndjson|jsonl)(\.gz)?$/i, 'JSONEachRow'],
  [/\.csv(\.gz)?$/i, 'CSVWithNames'],
] as const;
export const TEXT_FILES: Formats = { patterns: TEXTS, names: '.ndjson, .jsonl or .csv (each also with .gz)' };
export const DATA_FILES: Formats = {
  patterns: [...TEXTS, [/\.parquet$/i, 'Parquet']],
  names: '.ndjson, .jsonl, .csv (each also with .gz) or .parquet',
};

/** @throws Fault `DATA_INVALID` when the name does not end in an allowed format, `DATA_UNREADABLE` (kind `usage`) */
export async function findDataFile(name: string, allowed: Formats): Promise<InputFile> {
  const format = allowed.patterns.find(([pattern]) => pattern.test(name))?.[1];
  if (format === undefined) {
    throw invalidData(`${name}: the format comes from the file name, which must end in ${allowed.names}`);
  }
  const path = resolve(name);
  await access(path).catch((cause: unknown) => {
    throw new Fault('DATA_UNREADABLE', `${name}: ${describeError(cause)}`, { kind: 'usage', cause });
  });
  return { name, path, format };
}

export function invalidData(message: string, hint?: string): Fault {
  return new Fault('DATA_INVALID', message, { kind: 'usage', hint });
}

/** Reads a file. @throws Fault `DATA_INVALID`, or `DATA_UNREADABLE` for anything else that `read` throws */
export async function readData<T>(failure: string, hint: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (cause instanceof Fault && cause.code === 'DATA_INVALID') throw cause;
    const message = `${failure}: ${describeError(cause)}`;
    throw new Fault('DATA_UNREADABLE', message, { kind: 'usage', cause, hint });
  }
}

export interface CellCheck {
  /** The cell's name in the file. */
  readonly cell: string;
  /** SQL expression for the cell's text. */
  readonly text: string;
  /** SQL condition that a valid cell meets. */
  readonly condition: string;
  readonly allowed: string;
}

/** Rows are numbered in file order only if a single thread reads the file. */
export const READ_IN_ORDER = 'SETTINGS max_threads = 1, input_format_parallel_parsing = 0';

/**
 * Checks the cells of rows in the engine.
 * @param rows SQL table expression of the file's rows, in order, each with its `file_line`
 * @throws Fault `DATA_INVALID` for the first row with an invalid cell: its line, what came, and what is allowed
 */
export async function assertCells(
  engine: StatementRunner,
  file: InputFile,
  rows: string,
  checks: readonly CellCheck[],
): Promise<void> {
  const branches = checks.map(({ condition }, index) => `NOT ifNull(${condition}, false), ${index + 1}`);
  const texts = checks.map(({ text }) => `ifNull(toString(${text}), 'null')`);
  const [bad] = await engine.rows<{ line: number; failed: number; texts: readonly string[] }>(
    `SELECT file_line AS line, multiIf(${branches.join(', ')}, 0) AS failed, [${texts.join(', ')}] AS texts
     FROM ${rows} WHERE failed > 0 LIMIT 1 ${READ_IN_ORDER}`,
  );
  const check = bad && checks[bad.failed - 1];
  if (!check) return;
  const came = bad.texts[bad.failed - 1] ?? '';
  throw invalidData(`${file.name}: line ${bad.line}: ${check.cell} is "${came}"; allowed is ${check.allowed}`);
}
