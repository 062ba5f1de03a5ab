/**
 * The tool `query`: one statement through the guard and archive of `flowdrop query`. Invariant: rows, bytes and time of an
 * answer are bounded, and what is left out is said.
 */
import { randomUUID } from 'node:crypto';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { MAX_TABLE_ROWS } from '../../archive/output-format.ts';
import { Fault } from '../../core/errors.ts';
import { countOf, formatBytes } from '../../core/units.ts';
import type { AskedStore } from '../query/asked-store.ts';
import { basisSchema, describeBasis } from './basis.ts';

/** About 30,000 tokens, more than an assistant should read at once. */
const MAX_ANSWER_BYTES = 100_000;
/** Of the engine's file, which is read into memory: a thousand rows of ordinary size are far below. */
const MAX_FILE_BYTES = 32_000_000;
const DEFAULT_ROWS = 200;

export const QUERY_INPUT = {
  sql: z.string().min(1).describe('one SELECT in ClickHouse SQL over the tables that `describe` lists'),
  max_rows: z.number().int().min(1).max(MAX_TABLE_ROWS).default(DEFAULT_ROWS),
};

export const QUERY_OUTPUT = {
  columns: z.array(z.object({ name: z.string(), type: z.string().describe("ClickHouse's type") })),
  rows: z.array(z.array(z.unknown())).describe('values in the order of the columns'),
  left_out: z.string().nullable().describe('why rows are missing at the end; null: these are all'),
  basis: basisSchema,
};

interface Bounds {
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

/** @throws Fault `QUERY_TIMEOUT`, `ANSWER_TOO_LARGE` (usage), those of `flowdrop query` */
export async function answerQuery(
  { query, folder, store }: AskedStore,
  { sql, max_rows: maxRows }: { readonly sql: string; readonly max_rows: number },
  { timeoutSeconds, signal }: Bounds,
) {
  const timeout = AbortSignal.timeout(timeoutSeconds * 1_000);
  const path = join(folder, randomUUID());
  try {
    const request = { sql, format: 'table', path, signal: AbortSignal.any([signal, timeout]) } as const;
    const { coverage } = await query(request).catch((error: unknown) => {
      if (!timeout.aborted) throw error;
      throw new Fault('QUERY_TIMEOUT', `the query was ended after ${countOf(timeoutSeconds, 'second')}`, {
        kind: 'usage',
        hint: 'Query fewer dates, symbols or columns: a condition on date skips files. Or start `flowdrop mcp --timeout SECONDS` with more.',
      });
    });
    return { ...(await readRows(path, maxRows)), basis: await describeBasis(store, coverage) };
  } finally {
    await rm(path, { force: true });
  }
}

/** The engine's format for tables. */
type JsonCompact = Readonly<{ meta: { name: string; type: string }[]; data: unknown[][] }>;

async function readRows(path: string, maxRows: number) {
  const { size } = await stat(path);
  if (size > MAX_FILE_BYTES) throw tooLarge(size);
  const { meta: columns, data } = JSON.parse(await readFile(path, 'utf8')) as JsonCompact;
  let bytes = 0;
  const rows = data.slice(0, maxRows).filter((row) => {
    bytes += Buffer.byteLength(JSON.stringify(row)) + 1;
    return bytes <= MAX_ANSWER_BYTES;
  });
  if (rows.length === 0 && data.length > 0) throw tooLarge(size);
  const limit = rows.length < maxRows ? formatBytes(MAX_ANSWER_BYTES) : countOf(maxRows, 'row');
  const isAll = rows.length === data.length;
  const more = `Only the first ${countOf(rows.length, 'row')} are here: an answer has at most ${limit}. Add conditions, sums, or LIMIT with OFFSET.`;
  return { columns, rows, left_out: isAll ? null : more };
}

function tooLarge(bytes: number): Fault {
  return new Fault(
    'ANSWER_TOO_LARGE',
    `the answer has ${formatBytes(bytes)}; allowed are ${formatBytes(MAX_ANSWER_BYTES)}`,
    {
      kind: 'usage',
      hint: 'Select fewer columns or sums instead of rows. `flowdrop query SQL --out FILE` writes an answer of any size.',
    },
  );
}
