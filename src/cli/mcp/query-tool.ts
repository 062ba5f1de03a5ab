/**
 * The tool `query`: one statement through the guard and archive of `flowdrop query`. Invariant: rows, bytes and time of an
 * answer are bounded, and what is left out is said.
 */
import { randomUUID } from 'node:crypto';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { TableAnswer } from '../../archive/output-format.ts';
import { Fault } from '../../core/errors.ts';
import { countOf, formatBytes } from '../../core/units.ts';
import type { AskedStore } from '../query/asked-store.ts';
import { describeBasis } from './basis.ts';

/** About 30,000 tokens, more than an assistant should read at once. */
const MAX_ANSWER_BYTES = 100_000;
/** Of the engine's file, which is read into memory: a thousand rows of ordinary size are far below. */
const MAX_FILE_BYTES = 32_000_000;

/** @throws those of `askTable`; StoreFault */
export async function answerQuery(asked: AskedStore, sql: string, maxRows: number, signal: AbortSignal) {
  const { meta: columns, data, coverage } = await askTable(asked, sql, signal);
  let left = MAX_ANSWER_BYTES;
  const rows = data.slice(0, maxRows).filter((row) => {
    left -= Buffer.byteLength(JSON.stringify(row));
    return left >= 0;
  });
  const limit = left < 0 ? formatBytes(MAX_ANSWER_BYTES) : countOf(maxRows, 'row');
  const cut = `only the first ${countOf(rows.length, 'row')}: an answer has at most ${limit}. Select fewer columns, or sums, or use LIMIT with OFFSET.`;
  const basis = coverage.map(({ unsummarized, lacking, ...one }) =>
    describeBasis(asked, one, [
      ['no summary', 'not in the answer: the date has no summary', unsummarized],
      ...Array.from(lacking, ([name, dates]) => [`no column ${name}`, 'the column is empty there', dates] as const),
    ]),
  );
  const leftOut = rows.length < data.length ? cut : undefined;
  return { columns, rows, left_out: leftOut, basis: await Promise.all(basis) };
}

/** @returns at most 1,001 rows @throws Fault `ANSWER_TOO_LARGE` (usage); those of `Archive.query` */
export async function askTable({ query, folder }: AskedStore, sql: string, signal: AbortSignal) {
  const path = join(folder, randomUUID());
  try {
    const { coverage } = await query({ sql, format: 'table', path, signal });
    const { size } = await stat(path);
    if (size > MAX_FILE_BYTES) {
      const what = `the answer has ${formatBytes(size)}; allowed are ${formatBytes(MAX_FILE_BYTES)}`;
      const hint = 'Select fewer columns, or sums. `flowdrop query SQL --out FILE` writes an answer of any size.';
      throw new Fault('ANSWER_TOO_LARGE', what, { kind: 'usage', hint });
    }
    return { ...(JSON.parse(await readFile(path, 'utf8')) as TableAnswer), coverage };
  } finally {
    await rm(path, { force: true });
  }
}
