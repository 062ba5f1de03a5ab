/**
 * The tool `query`: one statement through the guard and archive of `flowdrop query`. Invariant: rows, bytes and time of an
 * answer are bounded, and what is left out is said.
 */
import { randomUUID } from 'node:crypto';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../core/errors.ts';
import { countOf, formatBytes } from '../../core/units.ts';
import type { AskedStore } from '../query/asked-store.ts';
import { describeBasis } from './basis.ts';

/** About 30,000 tokens, more than an assistant should read at once. */
const MAX_ANSWER_BYTES = 100_000;
/** Of the engine's file, which is read into memory: a thousand rows of ordinary size are far below. */
const MAX_FILE_BYTES = 32_000_000;

export interface Bounds {
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

/** The engine's format for tables. */
type JsonCompact = Readonly<{ meta: readonly { name: string; type: string }[]; data: readonly (readonly unknown[])[] }>;

/** @throws those of `askTable`; StoreFault */
export async function answerQuery(asked: AskedStore, sql: string, maxRows: number, bounds: Bounds) {
  const { columns, data, bytes, coverage } = await askTable(asked, sql, bounds);
  let left = MAX_ANSWER_BYTES;
  const rows = data.slice(0, maxRows).filter((row) => {
    left -= Buffer.byteLength(JSON.stringify(row));
    return left >= 0;
  });
  if (rows.length === 0 && data.length > 0) throw tooLarge(bytes);
  const limit = left < 0 ? formatBytes(MAX_ANSWER_BYTES) : countOf(maxRows, 'row');
  const cut = `only the first ${countOf(rows.length, 'row')}: an answer has at most ${limit}. Add conditions, sums, or LIMIT with OFFSET.`;
  const basis = coverage.map(({ unsummarized, lacking, ...one }) =>
    describeBasis(asked, one, [
      ['no summary', 'not in the answer: the date has no summary', unsummarized],
      ...Array.from(lacking, ([name, dates]) => [`no column ${name}`, 'the column is empty there', dates] as const),
    ]),
  );
  const leftOut = rows.length < data.length ? cut : undefined;
  return { columns, rows, left_out: leftOut, basis: await Promise.all(basis) };
}

/** @returns at most 1,001 rows @throws Fault `QUERY_TIMEOUT`, `ANSWER_TOO_LARGE` (usage); those of `Archive.query` */
export async function askTable({ query, folder }: AskedStore, sql: string, { timeoutSeconds, signal }: Bounds) {
  const timeout = AbortSignal.timeout(timeoutSeconds * 1_000);
  const path = join(folder, randomUUID());
  try {
    const { coverage } = await query({ sql, format: 'table', path, signal: AbortSignal.any([signal, timeout]) });
    const { size: bytes } = await stat(path);
    if (bytes > MAX_FILE_BYTES) throw tooLarge(bytes);
    const { meta: columns, data } = JSON.parse(await readFile(path, 'utf8')) as JsonCompact;
    return { columns, data, bytes, coverage };
  } catch (error) {
    if (!timeout.aborted) throw error;
    throw new Fault('QUERY_TIMEOUT', `the query was ended after ${countOf(timeoutSeconds, 'second')}`, {
      kind: 'usage',
      hint: 'Query fewer dates, symbols or columns: a condition on date skips files. Or start `flowdrop mcp --timeout SECONDS` with more.',
    });
  } finally {
    await rm(path, { force: true });
  }
}

function tooLarge(bytes: number): Fault {
  const what = `the answer has ${formatBytes(bytes)}; allowed are ${formatBytes(MAX_ANSWER_BYTES)}`;
  const hint = 'Select fewer columns, or sums. `flowdrop query SQL --out FILE` writes an answer of any size.';
  return new Fault('ANSWER_TOO_LARGE', what, { kind: 'usage', hint });
}
