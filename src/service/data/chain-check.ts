/**
 * Checks the rows of a chain file in the engine. The error names the first row that fails: its line, the cell's value,
 * and the allowed values.
 */
import { Fault } from '../../core/errors.ts';
import type { StatementRunner } from '../dataset.ts';

export interface CellCheck {
  /** The cell's name in the file. */
  readonly cell: string;
  /** SQL expression for the cell's text. */
  readonly text: string;
  /** SQL condition that a valid cell meets. */
  readonly condition: string;
  readonly allowed: string;
}

interface CheckedLines {
  /** File name as the user gave it. */
  readonly file: string;
  /** SQL table expression of the file's rows, in order. */
  readonly rows: string;
  /** SQL expression for a row's line number in the file. */
  readonly line: string;
  readonly checks: readonly CellCheck[];
}

/** Rows are numbered in file order only if a single thread reads the file. */
export const READ_IN_ORDER = 'SETTINGS max_threads = 1, input_format_parallel_parsing = 0';

/** @throws Fault `DATA_INVALID` for the first row with an invalid cell */
export async function assertCells(engine: StatementRunner, { file, rows, line, checks }: CheckedLines): Promise<void> {
  const branches = checks.map(({ condition }, index) => `NOT ifNull(${condition}, false), ${index + 1}`);
  const texts = checks.map(({ text }) => `ifNull(toString(${text}), 'null')`);
  const [bad] = await engine.rows<{ line: number; failed: number; texts: readonly string[] }>(
    `SELECT ${line} AS line, multiIf(${branches.join(', ')}, 0) AS failed, [${texts.join(', ')}] AS texts
     FROM ${rows} WHERE failed > 0 LIMIT 1 ${READ_IN_ORDER}`,
  );
  const check = bad && checks[bad.failed - 1];
  if (!check) return;
  const came = bad.texts[bad.failed - 1] ?? '';
  throw invalidChain(`${file}: line ${bad.line}: ${check.cell} is "${came}"; allowed is ${check.allowed}`);
}

export function invalidChain(message: string, hint?: string): Fault {
  return new Fault('DATA_INVALID', message, { kind: 'usage', hint });
}
